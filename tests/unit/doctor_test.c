// SPDX-License-Identifier: MIT
//
// The parts of doctor that need no second machine: hostfiles, Open MPI's settings, and findings
// from given facts and connections.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "doctor/findings.h"
#include "doctor/hostfile.h"
#include "doctor/machine_info.h"
#include "doctor/settings.h"
#include "folder.h"

// ---------------------------------------------------------------------------------------- hostfile

static enum mmul_status load_hostfile(const char *text, struct mmul_hostfile *hostfile,
                                      struct mmul_error *err) {
    struct folder folder;
    folder_create(&folder);
    const char *path = folder_path(&folder, "hosts");
    file_store(path, text, strlen(text));
    enum mmul_status status = mmul_hostfile_load(path, hostfile, err);
    if (status != MMUL_OK)
        folder_destroy(&folder);
    else
        remove_tree(folder.path, 0);
    return status;
}

static void test_hostfiles_are_parsed(void **state) {
    (void)state;
    static const char text[] = "\xEF\xBB\xBF# a comment\r\n"
                               "\n"
                               "  node1 slots=4 max_slots=8  # more\n"
                               "me@node2.lan\tslots = 2\r\n"
                               "10.0.0.7\n"
                               "node1 max-slots=3 slots=5\n"
                               "node1 slots=5 max-slots = 3  # less";
    static const struct mmul_host expected[] = {{.name = "node1", .slots = 4, .line = 3},
                                                {.name = "me@node2.lan", .slots = 2, .line = 4},
                                                {.name = "10.0.0.7", .slots = 0, .line = 5},
                                                {.name = "node1", .slots = 5, .line = 6},
                                                {"node1", 5, 7, "max-slots", 0, false, false}};
    struct mmul_hostfile hostfile = {.hosts = NULL};
    struct mmul_error err = {0};
    assert_int_equal(load_hostfile(text, &hostfile, &err), MMUL_OK);
    assert_int_equal(hostfile.count, 5);
    assert_true(hostfile.has_mark);
    assert_int_equal(hostfile.carriage_return_line, 4);
    assert_int_equal(hostfile.unterminated_comment_line, 7);
    for (int h = 0; h < hostfile.count; h++) {
        assert_string_equal(hostfile.hosts[h].name, expected[h].name);
        assert_int_equal(hostfile.hosts[h].slots, expected[h].slots);
        assert_int_equal(hostfile.hosts[h].line, expected[h].line);
        assert_string_equal(hostfile.hosts[h].maximum_below_slots, expected[h].maximum_below_slots);
    }
    mmul_hostfile_fini(&hostfile);
    assert_int_equal(load_hostfile("node1 # good\n", &hostfile, &err), MMUL_OK);
    assert_false(hostfile.has_mark);
    assert_int_equal(hostfile.carriage_return_line, 0);
    assert_int_equal(hostfile.unterminated_comment_line, 0);
    mmul_hostfile_fini(&hostfile);
    assert_int_equal(mmul_live_bytes(), 0);
}

static void test_hosts_are_named_without_their_domain(void **state) {
    (void)state;
    static const struct {
        const char *name, *called;
    } cases[] = {
        {"node1", "node1"},           {"node1.a.lan", "node1"}, {"me@node1.lan", "me@node1"},
        {"me.x@node1", "me.x@node1"}, {"10.0.0.7", "10.0.0.7"}, {"me@10.0.0.7", "me@10.0.0.7"},
        {"fe80::1", "fe80::1"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct mmul_host host = {.slots = 0};
        char called[MMUL_HOST_LENGTH];
        strcpy(host.name, cases[c].name);
        assert_string_equal(mmul_host_mpirun_name(&host, false, called), cases[c].called);
        assert_string_equal(mmul_host_mpirun_name(&host, true, called), cases[c].name);
    }
}

// A name becomes a word of ssh's command line: anything but a plain name is refused.
static void test_malformed_hostfiles_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "names no host"},
        {"# only words\n\n", "names no host"},
        {"node1\n-oProxyCommand=date\n", "line 2: '-oProxyCommand=date' is not the name of a host"},
        {"-v slots=1\n", "line 1: '-v' is not the name of a host"},
        {"a@-oProxyCommand\n", "'a@-oProxyCommand' is not the name"},
        {"@node1\n", "'@node1' is not"},
        {"node1@\n", "'node1@' is not"},
        {"node1;reboot\n", "'node1;reboot' is not"},
        {"$(reboot)\n", "'$(reboot)' is not"},
        {"node1 `date`\n", "line 1: expected 'slots=N', found '`date`'"},
        {"node1 slots\n", "expected 'slots=N', found 'slots'"},
        {"node1 slots=\n", "slots '' is not a whole number from 1 to"},
        {"node1 slots=0\n", "slots '0' is not"},
        {"node1 slots=-1\n", "slots '-1' is not"},
        {"node1 slots=4x\n", "slots '4x' is not"},
        {"node1 slots=99999999999999999999\n", "is not a whole number"},
        {"node1 cores=4\n", "unknown word 'cores', expected slots or max_slots"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct mmul_hostfile hostfile = {.hosts = NULL};
        struct mmul_error err = {0};
        assert_failure(load_hostfile(cases[c].text, &hostfile, &err), MMUL_ERR_DATA, err,
                       cases[c].part);
        assert_null(hostfile.hosts);
    }
}

// ---------------------------------------------------------------------------------------- settings

static void test_later_sources_of_settings_override_earlier_ones(void **state) {
    (void)state;
    struct folder folder;
    struct mmul_settings settings;
    struct mmul_error err = {0};
    static const char user[] = "# mine\nbtl_tcp_if_include = eth7\nplm_rsh_agent=ssh -p 22 : rsh\n";
    static const char tune[] = "oob_tcp_keepalive_time = 9\n-mca btl_tcp_if_exclude lo,eth1\n";
    folder_create(&folder);
    assert_int_equal(setenv("HOME", folder.path, 1), 0);
    assert_int_equal(mkdir(folder_path(&folder, ".openmpi"), 0700), 0);
    file_store(folder_path(&folder, ".openmpi/mca-params.conf"), user, sizeof user - 1);
    file_store(folder_path(&folder, "tune"), tune, sizeof tune - 1);
    unsetenv("OMPI_MCA_plm_rsh_agent");
    unsetenv("OMPI_MCA_oob_tcp_keepalive_time");
    assert_int_equal(mmul_settings_load(NULL, &settings, &err), MMUL_OK);
    assert_string_equal(settings.agent, "ssh -p 22 : rsh");
    assert_string_equal(settings.include, "eth7");
    assert_string_equal(settings.keepalive, "");
    assert_false(settings.keeps_domains);
    setenv("OMPI_MCA_orte_keep_fqdn_hostnames", "true", 1);
    setenv("OMPI_MCA_btl_tcp_if_include", "eth0", 1); // the environment overrides the user's file
    setenv("OMPI_MCA_oob_tcp_keepalive_time", "300", 1);
    assert_int_equal(mmul_settings_load(folder_path(&folder, "tune"), &settings, &err), MMUL_OK);
    assert_string_equal(settings.include, "eth0");
    assert_string_equal(settings.keepalive, "9"); // and mpirun's command line overrides both
    assert_string_equal(settings.exclude, "lo,eth1");
    assert_true(settings.keeps_domains);
    unsetenv("OMPI_MCA_orte_keep_fqdn_hostnames");
    assert_failure(mmul_settings_load(folder_path(&folder, "none"), &settings, &err),
                   MMUL_ERR_NO_INPUT, err, "none'");
    unsetenv("OMPI_MCA_btl_tcp_if_include");
    unsetenv("OMPI_MCA_oob_tcp_keepalive_time");
    folder_destroy(&folder);
}

static void test_include_and_exclude_select_interfaces(void **state) {
    (void)state;
    static const struct {
        const char *include, *exclude;
        bool allowed;
    } cases[] = {
        {"", "", true},
        {"eth0", "", true},
        {"eth1,eth0", "", true},
        {"eth1", "", false},
        {"10.1.0.0/16", "", true},
        {"10.1.2.0/24", "", true},
        {"10.2.0.0/16", "", false},
        {"", "eth0", false},
        {"", "lo,10.1.2.3/32", false},
        {"", "lo,docker0", true},
        {"eth", "", false},
        {"10.1.2/24", "", false},
    };
    struct mmul_address address;
    assert_true(mmul_address_parse("10.1.2.3", 24, &address));
    strcpy(address.interface, "eth0");
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct mmul_settings settings = {.agent = ""};
        strcpy(settings.include, cases[c].include);
        strcpy(settings.exclude, cases[c].exclude);
        if (mmul_settings_allow_address(&settings, &address) != cases[c].allowed)
            fail_msg("include '%s' exclude '%s'", cases[c].include, cases[c].exclude);
    }
    assert_false(mmul_address_parse("10.1.2", 24, &address));
    assert_false(mmul_address_parse("10.1.2.3", 33, &address));
    assert_false(mmul_address_parse("node1", 24, &address));
}

// ------------------------------------------------------------------------------------------- judge

// Facts of a healthy machine; `changes` is JSON that replaces fields.
static json_t *facts_with(const char *changes) {
    json_t *facts = json_pack(
        "{s:s,s:s,s:s,s:b,s:i,s:i,s:I,s:I,s:I,s:s,s:s,s:I,s:s,s:s,s:s,s:[],s:[],s:[],s:[]}",
        "version", MMUL_VERSION, "mpi", "Open MPI v4.1.4", "machine", "x86_64", "is_root", 0,
        "cores", 4, "machine_cores", 4, "memory_available_bytes", (json_int_t)8 << 30,
        "shared_memory_available_bytes", (json_int_t)4 << 30, "temporary_available_bytes",
        (json_int_t)4 << 30, "temporary", "/tmp", "folder", "/data", "folder_available_bytes",
        (json_int_t)4 << 30, "folder_problem", "", "orted", "/usr/bin/orted", "firewall",
        "iptables", "devices", "driver_warnings", "cards", "addresses");
    json_t *given = json_loads(changes, 0, NULL);
    assert_non_null(facts);
    assert_non_null(given);
    json_object_update(facts, given);
    json_decref(given);
    return facts;
}

// Returns the findings about the second of two machines: a healthy one's facts with `changes`.
static json_t *judge_second(const char *changes, int slots, double clock,
                            struct mmul_machine *said) {
    struct mmul_machine machines[] = {
        {.name = "first", .place = -1, .facts = facts_with("{}")},
        {.name = "node", .place = 0, .line = 7, .slots = slots, .clock_difference_seconds = clock},
    };
    struct mmul_survey visit = {.machines = machines, .machine_count = 2};
    struct mmul_settings settings = {.keepalive = "5"};
    struct mmul_host host = {.name = "node", .slots = slots, .line = 7, .machine = 1};
    const struct mmul_hostfile lines = {.hosts = &host, .count = 1};
    struct mmul_findings judgement = {.visit = &visit,
                                      .settings = &settings,
                                      .hostfile = "hosts",
                                      .lines = &lines,
                                      .limit_seconds = 5,
                                      .findings = json_array()};
    strcpy(visit.agent.shown, "ssh");
    visit.agent.count = 1;
    if (said != NULL)
        machines[1] = *said;
    else
        machines[1].facts = facts_with(changes);
    mmul_findings_derive_machine(&judgement, &machines[1]);
    json_decref(machines[0].facts);
    json_decref(machines[1].facts);
    return judgement.findings;
}

static void expect_one(json_t *findings, const char *what, const char *fix) {
    if (json_array_size(findings) != 1)
        fail_msg("expected one finding, '%s', found %zu", what, json_array_size(findings));
    const json_t *finding = json_array_get(findings, 0);
    assert_string_equal(mmul_json_get_text(finding, "machine"), "node");
    assert_string_equal(mmul_json_get_text(finding, "what"), what);
    assert_string_equal(mmul_json_get_text(finding, "fix"), fix);
    json_decref(findings);
}

#define CARD                                                                         \
    "\"cards\": [{\"address\": \"0000:65:00.0\", \"vendor\": \"AMD\", \"package\": " \
    "\"mesa-opencl-icd\"}]"

static const struct {
    const char *changes;
    int slots;
    double clock;
    const char *what, *fix;
} findings[] = {
    {"{\"version\": \"0.0.9\"}", 1, 0, "mpimatmul there is '0.0.9', here '" MMUL_VERSION "'",
     "scp mpimatmul_" MMUL_VERSION "_*.deb node:/tmp && ssh node sudo apt-get install --yes "
     "--allow-downgrades /tmp/mpimatmul_" MMUL_VERSION "_*.deb   # the package of 'make deb', or "
     "build it there, at the same path as here"},
    {"{\"mpi\": \"Open MPI v5.0.1\"}", 1, 0,
     "the MPI library there is 'Open MPI v5.0.1', here 'Open MPI v4.1.4'",
     "ssh node sudo apt-get install --yes openmpi-bin libopenmpi3"},
    {"{\"machine\": \"aarch64\"}", 1, 0, "the processor there is 'aarch64', here 'x86_64'",
     "ssh node uname -m   # remove it from the hostfile: all machines need the same processor "
     "type"},
    {"{\"orted\": \"\"}", 1, 0, "Open MPI's daemon orted is not on the PATH of commands there",
     "ssh node sudo apt-get install --yes openmpi-bin   # or mpirun --prefix FOLDER"},
    {"{\"memory_available_bytes\": 104857600}", 1, 0,
     "100.0 MiB of memory are available, expected at least 256.0 MiB",
     "ssh node ps -eo rss,pid,user,comm --sort=-rss   # end programs that are not needed"},
    {"{\"shared_memory_available_bytes\": 67108864}", 1, 0,
     "64.0 MiB of shared memory are free in /dev/shm, expected at least 128.0 MiB",
     "ssh node sudo mount -o remount,size=50% /dev/shm   # a container: docker run --shm-size=8g"},
    {"{\"temporary\": \"/nowhere\", \"temporary_available_bytes\": -1}", 1, 0,
     "no room for Open MPI's session in '/nowhere', expected at least 16.0 MiB",
     "ssh node mkdir -p -m 1777 '/nowhere'   # or export TMPDIR=/tmp"},
    {"{\"folder_problem\": \"Permission denied\", \"folder_available_bytes\": -1}", 1, 0,
     "rank 0 cannot write results to '/data' there: Permission denied",
     "ssh node mkdir -p '/data'   # or use an existing folder of your own"},
    {"{\"folder_available_bytes\": 1048576}", 1, 0,
     "1.0 MiB are free in '/data', where rank 0 writes, expected at least 64.0 MiB",
     "ssh node df -h '/data'   # make room, or give mul -o another folder"},
    {"{\"driver_warnings\": [\"OpenCL driver 'libx.so' (/etc/OpenCL/vendors/x.icd) crashed (signal "
     "11) while listing its devices: not used\"]}",
     1, 0,
     "OpenCL driver 'libx.so' (/etc/OpenCL/vendors/x.icd) crashed (signal 11) while listing its "
     "devices: not used",
     "ssh node sudo mv '/etc/OpenCL/vendors/x.icd' '/etc/OpenCL/vendors/x.icd.off'"},
    {"{\"kernels\": {\"name\": \"Haswell\", \"setting\": \"OPENBLAS_CORETYPE=Haswell\", "
     "\"vectors\": \"AVX2\", \"cpu_vectors\": \"AVX-512\", \"flops_per_second\": 1.18e11, "
     "\"other\": \"Cooperlake\", \"other_setting\": \"\", \"other_flops_per_second\": 2.16e11}}",
     1, 0,
     "OPENBLAS_CORETYPE=Haswell is set: 118.0 GFLOP/s on a core; without it 216.0 (Cooperlake)",
     "unset OPENBLAS_CORETYPE   # for the shells that ssh starts on node: ~/.bashrc there"},
    {"{" CARD "}", 1, 0, "the AMD card at 0000:65:00.0 has no OpenCL driver",
     "ssh node sudo apt-get install --yes mesa-opencl-icd"},
    {"{}", 5, 0, "5 slots, but 4 cores and 0 GPUs: ranks would share cores",
     "sed -i '7s/slots *= *[0-9]*/slots=1/' 'hosts'"},
    {"{}", 1, 35.25, "its clock is 35.2 s ahead, expected at most 2 s",
     "ssh node sudo timedatectl set-ntp true"},
    {"{}", 1, -3, "its clock is 3.0 s behind, expected at most 2 s",
     "ssh node sudo timedatectl set-ntp true"},
};

static void test_each_bad_fact_gives_its_finding(void **state) {
    (void)state;
    for (size_t f = 0; f < sizeof findings / sizeof findings[0]; f++)
        expect_one(judge_second(findings[f].changes, findings[f].slots, findings[f].clock, NULL),
                   findings[f].what, findings[f].fix);
}

static void test_healthy_machines_give_no_finding(void **state) {
    (void)state;
    static const char *const good[] = {
        "{}",
        "{\"more\": [1]}",
        "{" CARD ", \"devices\": [{\"is_gpu\": true, \"usable\": true}]}",
        "{\"cards\": [{\"address\": \"0000:00:02.0\", \"vendor\": \"Intel\"}]}",
    };
    for (size_t g = 0; g < sizeof good / sizeof good[0]; g++) {
        json_t *found = judge_second(good[g], 4, 1.9, NULL);
        assert_int_equal(json_array_size(found), 0);
        json_decref(found);
    }
}

// Error texts of ssh and the matching remedies.
static void test_errors_of_ssh_give_a_remedy(void **state) {
    (void)state;
    static const struct {
        int detail;
        const char *words, *fix;
    } cases[] = {
        {255, "me@node: Permission denied (publickey).", "ssh-copy-id node"},
        {255, "Host key verification failed.", "ssh-keyscan node >> ~/.ssh/known_hosts"},
        {255, "ssh: Could not resolve hostname node: Name or service not known",
         "getent hosts node   # add its address to /etc/hosts, or correct the hostfile"},
        {1, "no idea", "ssh node true   # must end by itself, without a prompt or any output"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct mmul_machine said = {
            .name = "node", .end = MMUL_SURVEY_ENDED, .detail = cases[c].detail};
        char what[400];
        strcpy(said.words, cases[c].words);
        snprintf(what, sizeof what, "cannot be reached: 'ssh node' ended with code %d: %s",
                 said.detail, said.words);
        expect_one(judge_second("{}", 1, 0, &said), what, cases[c].fix);
    }
}

// -------------------------------------------------------------------------------- mpirun's verdict

#define RULE "--------------------------------------------------------------------------\n"
#define OWN_ERROR                                                                             \
    RULE "An internal error has occurred in ORTE:\n\n[[1,0],0] FORCE-TERMINATE AT (null):1 -" \
         " error\n\nThis is something that should be reported to the developers.\n" RULE

static void test_the_verdict_of_mpirun_is_recognised(void **state) {
    (void)state;
    static const struct {
        const char *said;
        enum mmul_mpirun_verdict verdict;
        const char *words;
    } cases[] = {
        {"[vm:1] LAUNCH MSG RAW SIZE: 593\n" OWN_ERROR, MMUL_MPIRUN_ACCEPTS, NULL},
        {RULE "A deprecated value\n" RULE "[vm:1] LAUNCH MSG RAW SIZE: 593\n", MMUL_MPIRUN_ACCEPTS,
         NULL},
        {RULE "parse error in the hostfile\n" RULE "[vm:1] LAUNCH MSG RAW SIZE: 5\n",
         MMUL_MPIRUN_REFUSES, "parse error in the hostfile"},
        {RULE "Open RTE detected a parse error in the hostfile:\n    F\nIt occured on line number "
              "1 on token 1.\n" RULE OWN_ERROR,
         MMUL_MPIRUN_REFUSES,
         "Open RTE detected a parse error in the hostfile: F It occured on line number 1 on token "
         "1."},
        {OWN_ERROR RULE "One\tparagraph\n\n  node:   a\n\nand more\n" RULE, MMUL_MPIRUN_REFUSES,
         "One?paragraph node: a"},
        {"*** stack smashing detected ***: terminated\n", MMUL_MPIRUN_REFUSES,
         "*** stack smashing detected ***: terminated"},
        {"", MMUL_MPIRUN_REFUSES, ""},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct mmul_mpirun_result answer = {.words = "old"};
        mmul_mpirun_parse_output(cases[c].said, &answer);
        assert_int_equal(answer.verdict, cases[c].verdict);
        if (cases[c].words != NULL)
            assert_string_equal(answer.words, cases[c].words);
    }
}

// Returns findings about lines of a hostfile; each digit gives the machine of one line.
static json_t *judge_lines(const char *text, const char *digits, enum mmul_mpirun_verdict verdict) {
    struct mmul_machine machines[4] = {{.name = "here", .place = -1}};
    struct mmul_survey visit = {.machines = machines, .machine_count = 4};
    struct mmul_hostfile lines;
    struct mmul_error err = {0};
    const struct mmul_mpirun_result mpirun = {.verdict = verdict, .words = "no"};
    assert_int_equal(load_hostfile(text, &lines, &err), MMUL_OK);
    assert_int_equal(strlen(digits), lines.count);
    for (int h = lines.count - 1; h >= 0; h--) {
        lines.hosts[h].machine = digits[h] - '0';
        struct mmul_machine *machine = &machines[lines.hosts[h].machine];
        strcpy(machine->name, lines.hosts[h].name);
        machine->place = h;
        machine->slots += lines.hosts[h].slots;
    }
    visit.agent.count = 1;
    struct mmul_findings judgement = {.visit = &visit,
                                      .hostfile = "F",
                                      .lines = &lines,
                                      .mpirun = &mpirun,
                                      .findings = json_array()};
    mmul_findings_derive_hostfile(&judgement);
    mmul_hostfile_fini(&lines);
    return judgement.findings;
}

static void test_hostfile_lines_refused_by_mpirun_are_findings(void **state) {
    (void)state;
    static const struct {
        const char *text, *digits, *what, *fix;
    } cases[] = {
        {"a slots=1\r\nb\n", "12",
         "'F' line 1: ends with a carriage return, as on Windows: mpirun says \"no\"",
         "sed -i 's/\\r$//' 'F'"},
        {"\xEF\xBB\xBF"
         "a\n",
         "1", "'F' line 1: begins with a byte-order mark: mpirun says \"no\"",
         "sed -i '1s/^\\xEF\\xBB\\xBF//' 'F'"},
        {"a\n# end", "1", "'F' line 2: the comment ends without a line end: mpirun says \"no\"",
         "echo >> 'F'"},
        {"a slots=2 max-slots=1\n", "1",
         "'F' line 1: max-slots is below the slots: mpirun says \"no\"",
         "sed -i '1s/max-slots *= *[0-9]*//' 'F'"},
        {"a\nme@b_c\n", "12",
         "'F' line 2: 'b_c' has '_' in its name: letters, digits, '-' and '.' are legal: mpirun "
         "says "
         "\"no\"",
         "getent ahostsv4 'b_c'   # write that address, or another name of it, into line 2"},
        {"a slots=1\nb\na slots=2\na slots=3\n", "1211",
         "'F' line 3: gives slots to 'a', which line 1 already lists: mpirun says \"no\"",
         "sed -i '1s/slots *= *[0-9]*/slots=6/;3d;4d' 'F'"},
        {"localhost\n127.0.0.1 slots=2\n", "11",
         "'F' line 2: gives slots of '127.0.0.1', the same machine as 'localhost' of line 1: "
         "mpirun "
         "says \"no\"",
         "sed -i '2s/slots *= *[0-9]*/slots=2/;1d' 'F'"},
        {"a slots=1\n", "1", "mpirun starts no job on 'F': no",
         "mpirun --hostfile 'F' -n 1 --do-not-launch true   # shows the whole message"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        json_t *found = judge_lines(cases[c].text, cases[c].digits, MMUL_MPIRUN_REFUSES);
        assert_int_equal(json_array_size(found), 1);
        const json_t *finding = json_array_get(found, 0);
        assert_string_equal(mmul_json_get_text(finding, "what"), cases[c].what);
        assert_string_equal(mmul_json_get_text(finding, "fix"), cases[c].fix);
        json_decref(found);
        // Another Open MPI may accept lines that 4.1 refuses.
        found = judge_lines(cases[c].text, cases[c].digits, MMUL_MPIRUN_ACCEPTS);
        assert_int_equal(json_array_size(found), 0);
        json_decref(found);
    }
}

// ----------------------------------------------------------------------------------------- network

// Two machines on two networks, with links in both directions over each.
struct two {
    struct mmul_machine machines[2];
    struct mmul_connection links[4];
    struct mmul_survey visit;
    struct mmul_settings settings;
    struct mmul_findings judgement;
};

static void two_init(struct two *two, const char *firewall) {
    *two = (struct two){.settings = {.keepalive = "5"}};
    for (int m = 0; m < 2; m++) {
        json_t *facts = facts_with("{}");
        snprintf(two->machines[m].name, sizeof two->machines[m].name, "node%d", m + 1);
        json_object_set_new(facts, "firewall", json_string(firewall));
        for (int n = 0; n < 2; n++) {
            char text[16], interface[16];
            struct mmul_connection *link = &two->links[2 * n + m]; // to this machine
            snprintf(text, sizeof text, "10.%d.0.%d", n, m + 1);
            snprintf(interface, sizeof interface, "eth%d", n);
            json_array_append_new(
                json_object_get(facts, "addresses"),
                json_pack("{s:s,s:s,s:i}", "interface", interface, "address", text, "prefix", 24));
            *link = (struct mmul_connection){.from = 1 - m,
                                             .to = m,
                                             .is_common = true,
                                             .tested = true,
                                             .received = true,
                                             .connect_seconds = 1e-4,
                                             .bytes_per_second = 1e9};
            assert_true(mmul_address_parse(text, 24, &link->target));
            strcpy(link->target.interface, interface);
        }
        two->machines[m].facts = facts;
    }
    two->visit = (struct mmul_survey){
        .machines = two->machines, .machine_count = 2, .links = two->links, .link_count = 4};
    strcpy(two->visit.agent.shown, "ssh");
    two->judgement = (struct mmul_findings){
        .visit = &two->visit, .settings = &two->settings, .findings = json_array()};
}

static void expect_network(struct two *two, const char *what, const char *fix) {
    mmul_findings_derive_network(&two->judgement);
    assert_int_equal(json_array_size(two->judgement.findings), what != NULL);
    const json_t *finding = json_array_get(two->judgement.findings, 0);
    if (what != NULL) {
        assert_string_equal(mmul_json_get_text(finding, "what"), what);
        assert_string_equal(mmul_json_get_text(finding, "fix"), fix);
    }
    json_decref(two->judgement.findings);
    json_decref(two->machines[0].facts);
    json_decref(two->machines[1].facts);
}

static void close_link(struct mmul_connection *link, int errnum, double connect_seconds) {
    link->errnum = errnum;
    link->received = false;
    link->connect_seconds = connect_seconds;
    link->bytes_per_second = 0;
}

static void test_a_good_network_gives_no_finding(void **state) {
    (void)state;
    struct two two;
    two_init(&two, "ufw");
    two.links[2].bytes_per_second = two.links[3].bytes_per_second = 3e8; // slower, but worth it
    expect_network(&two, NULL, NULL);
    two_init(&two, "ufw");
    // more than can be measured
    two.links[0].bytes_per_second = two.links[1].bytes_per_second = 1e10;
    expect_network(&two, NULL, NULL);
}

// One direction of the only network is blocked: by the firewall of the machine that is not reached.
static void test_a_one_way_connection_is_a_firewall_finding(void **state) {
    (void)state;
    static const struct {
        const char *firewall, *fix;
    } cases[] = {
        {"ufw", "ssh node2 sudo ufw allow from 10.0.0.1 proto tcp"},
        {"firewall-cmd", "ssh node2 sudo firewall-cmd --zone=trusted --add-source=10.0.0.1"},
        {"iptables", "ssh node2 sudo iptables -I INPUT -p tcp -s 10.0.0.1 -j ACCEPT"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct two two;
        two_init(&two, cases[c].firewall);
        two.visit.link_count = 2;
        close_link(&two.links[1], ETIMEDOUT, 0);
        expect_network(
            &two,
            "node1 and node2 cannot reach each other in every direction: node1 to 10.0.0.2 "
            "(node2): no answer",
            cases[c].fix);
    }
}

static void test_a_closed_network_is_a_finding(void **state) {
    (void)state;
    struct two two;
    two_init(&two, "ufw");
    close_link(&two.links[2], ECONNREFUSED, 0);
    close_link(&two.links[3], ETIMEDOUT, 0);
    expect_network(
        &two,
        "node1 and node2 cannot reach each other in every direction: node2 to 10.1.0.1 (node1): "
        "Connection refused; node1 to 10.1.0.2 (node2): no answer",
        "export OMPI_MCA_btl_tcp_if_include=10.0.0.0/24 "
        "OMPI_MCA_oob_tcp_if_include=10.0.0.0/24");
    two_init(&two, "ufw");
    two.visit.link_count = 2;
    close_link(&two.links[1], ETIMEDOUT, 0.001);
    strcpy(two.links[1].interface, "eth0");
    expect_network(
        &two,
        "node1 and node2 cannot reach each other in every direction: node1 to 10.0.0.2 (node2): "
        "connected, but no data arrived",
        "sudo ip link set eth0 mtu 1500   # the same on all machines");
}

static void test_a_slow_network_is_a_finding(void **state) {
    (void)state;
    struct two two;
    two_init(&two, "ufw");
    two.links[2].bytes_per_second = two.links[3].bytes_per_second = 1 << 21;
    two.links[0].bytes_per_second = two.links[1].bytes_per_second = 1 << 30;
    expect_network(
        &two,
        "network 10.1.0.0/24 (eth1 on node1) carries 2.0 MiB/s where 10.0.0.0/24 carries "
        "1.0 GiB/s, and Open MPI uses both",
        "export OMPI_MCA_btl_tcp_if_include=10.0.0.0/24");
}

static void test_machines_without_a_common_network_are_a_finding(void **state) {
    (void)state;
    struct two two;
    two_init(&two, "ufw");
    two.visit.link_count = 0;
    strcpy(two.settings.include, "eth9");
    expect_network(&two,
                   "node1 and node2 have no IPv4 address to reach each other: "
                   "btl_tcp_if_include leaves none",
                   "unset OMPI_MCA_btl_tcp_if_include");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostfiles_are_parsed),
        cmocka_unit_test(test_malformed_hostfiles_are_refused),
        cmocka_unit_test(test_hosts_are_named_without_their_domain),
        cmocka_unit_test(test_the_verdict_of_mpirun_is_recognised),
        cmocka_unit_test(test_hostfile_lines_refused_by_mpirun_are_findings),
        cmocka_unit_test(test_later_sources_of_settings_override_earlier_ones),
        cmocka_unit_test(test_include_and_exclude_select_interfaces),
        cmocka_unit_test(test_each_bad_fact_gives_its_finding),
        cmocka_unit_test(test_healthy_machines_give_no_finding),
        cmocka_unit_test(test_errors_of_ssh_give_a_remedy),
        cmocka_unit_test(test_a_good_network_gives_no_finding),
        cmocka_unit_test(test_a_one_way_connection_is_a_firewall_finding),
        cmocka_unit_test(test_a_closed_network_is_a_finding),
        cmocka_unit_test(test_a_slow_network_is_a_finding),
        cmocka_unit_test(test_machines_without_a_common_network_are_a_finding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
