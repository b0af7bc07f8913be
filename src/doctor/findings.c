// SPDX-License-Identifier: MIT
// Judges machine by machine: reachability, program version, MPI, memory and disk space, devices,
// slots, clock. Then judges settings for all: root and keepalive. findings_hostfile.c judges the
// hostfile, findings_network.c the networks.
#include "doctor/findings.h"

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "doctor/machine_info.h"

// tolerated difference: times of files must agree
static const double CLOCK_SECONDS = 2;

enum {
    MEMORY_LEAST = 256 << 20,
    SHARED_LEAST = 128 << 20, // containers have 64 MiB by default, on which Open MPI may hang
    TEMPORARY_LEAST = 16 << 20,
    FOLDER_LEAST = 64 << 20,
    KEEPALIVE_MOST = 60,
};

// ---------------------------------------------------------------------------------------- findings

static json_t *format_text(const char *format, va_list arguments) {
    struct mmul_text text = {0};
    mmul_text_add_va(&text, format, arguments);
    json_t *value = mmul_json_from_text(mmul_text_get(&text));
    mmul_text_fini(&text);
    return value;
}

void mmul_findings_add(struct mmul_findings *judgement, const struct mmul_machine *machine,
                       const char *format, ...) {
    json_t *finding = json_object();
    va_list arguments;
    va_start(arguments, format);
    json_object_set_new(finding, "machine",
                        machine != NULL ? mmul_json_from_text(machine->name) : json_null());
    json_object_set_new(finding, "what", format_text(format, arguments));
    va_end(arguments);
    json_array_append_new(judgement->findings, finding);
}

void mmul_findings_add_fix(struct mmul_findings *judgement, const char *format, ...) {
    size_t last = json_array_size(judgement->findings) - 1;
    va_list arguments;
    va_start(arguments, format);
    json_object_set_new(json_array_get(judgement->findings, last), "fix",
                        format_text(format, arguments));
    va_end(arguments);
}

char *mmul_findings_command_prefix(const struct mmul_findings *judgement,
                                   const struct mmul_machine *machine, char text[static 1024]) {
    text[0] = '\0';
    if (machine != &judgement->visit->machines[0])
        snprintf(text, 1024, "%s %s ", judgement->visit->agent.shown, machine->name);
    return text;
}

// ---------------------------------------------------------------------------------------- reaching

// Messages of ssh and their remedies.
static const struct {
    const char *words, *fix;
    bool is_about_name;
} ssh_failures[] = {
    {"Permission denied", "ssh-copy-id %s", false},
    {"Host key verification failed", "ssh-keyscan %s >> ~/.ssh/known_hosts", false},
    {"Could not resolve",
     "getent hosts %s   # add its address to /etc/hosts, or correct the hostfile", true},
    {"onnection refused", "ssh-copy-id %s   # after 'sudo apt-get install openssh-server' there",
     false},
};

// Returns the line with a longer name than mpirun uses for the machine. NULL: none.
static const struct mmul_host *find_shortened(const struct mmul_findings *judgement,
                                              const struct mmul_machine *machine) {
    const struct mmul_hostfile *lines = judgement->lines;
    for (int h = 0; lines != NULL && h < lines->count; h++)
        if (&judgement->visit->machines[lines->hosts[h].machine] == machine &&
            strcmp(lines->hosts[h].name, machine->name) != 0)
            return &lines->hosts[h];
    return NULL;
}

static void judge_ended_agent(struct mmul_findings *judgement, const struct mmul_machine *machine) {
    const char *agent = judgement->visit->agent.shown, *words = machine->words;
    mmul_findings_add(judgement, machine, "cannot be reached: '%s %s' ended with code %d%s%s",
                      agent, machine->name, machine->detail, words[0] ? ": " : "", words);
    const struct mmul_host *host = find_shortened(judgement, machine);
    for (size_t f = 0; f < sizeof ssh_failures / sizeof ssh_failures[0]; f++) {
        if (strstr(words, ssh_failures[f].words) == NULL ||
            (host != NULL && ssh_failures[f].is_about_name))
            continue;
        char fix[MMUL_HOST_LENGTH + 128];
        const char *before = ssh_failures[f].fix, *place = strstr(before, "%s");
        snprintf(fix, sizeof fix, "%.*s%s%s", (int)(place - before), before, machine->name,
                 place + 2);
        mmul_findings_add_fix(judgement, "%s", fix);
        return;
    }
    if (host != NULL)
        mmul_findings_add_fix(
            judgement,
            "export OMPI_MCA_orte_keep_fqdn_hostnames=1   # mpirun calls '%s' of line %d "
            "by its first label",
            host->name, host->line);
    else
        mmul_findings_add_fix(judgement,
                              "%s %s true   # must end by itself, without a prompt or any output",
                              agent, machine->name);
}

// The package also installs the libraries that the program needs.
static void fix_by_package(struct mmul_findings *judgement, const struct mmul_machine *machine) {
    static const char package[] = "/tmp/mpimatmul_" MMUL_VERSION "_*.deb";
    char on[1024];
    mmul_findings_add_fix(
        judgement,
        "scp %s %s:/tmp && %ssudo apt-get install --yes --allow-downgrades %s   # the "
        "package of 'make deb', or build it there, at the same path as here",
        strrchr(package, '/') + 1, machine->name,
        mmul_findings_command_prefix(judgement, machine, on), package);
}

static void judge_unreached(struct mmul_findings *judgement, const struct mmul_machine *machine) {
    const struct mmul_rsh_agent *agent = &judgement->visit->agent;
    if (agent->count == 0) {
        mmul_findings_add(judgement, machine, "cannot be reached: none of '%s' is installed here",
                          judgement->settings->agent);
        mmul_findings_add_fix(judgement, "sudo apt-get install --yes openssh-client");
    } else if (machine->end == MMUL_SURVEY_TIMED_OUT) {
        mmul_findings_add(judgement, machine, "no answer within %g s%s%s", judgement->limit_seconds,
                          machine->words[0] ? ": " : "", machine->words);
        mmul_findings_add_fix(judgement, "%s %s true   # is it switched on, and in the network?",
                              agent->shown, machine->name);
    } else if (machine->end == MMUL_SURVEY_DROPPED) {
        mmul_findings_add(judgement, machine, "stopped answering while connections were tested");
        mmul_findings_add_fix(judgement, "%s %s uptime   # is it overloaded?", agent->shown,
                              machine->name);
    } else if (machine->detail == 126 || machine->detail == 127) {
        mmul_findings_add(judgement, machine,
                          "expected mpimatmul %s, found no program that starts%s%s", MMUL_VERSION,
                          machine->words[0] ? ": " : "", machine->words);
        fix_by_package(judgement, machine);
    } else if (machine->detail == MMUL_ERR_USAGE) {
        mmul_findings_add(judgement, machine, "expected mpimatmul %s, found one without 'doctor'",
                          MMUL_VERSION);
        fix_by_package(judgement, machine);
    } else {
        judge_ended_agent(judgement, machine);
    }
}

// ---------------------------------------------------------------------------------------- software

static void judge_software(struct mmul_findings *judgement, const struct mmul_machine *machine) {
    const json_t *here = judgement->visit->machines[0].facts, *there = machine->facts;
    const struct {
        const char *field, *what, *fix;
    } same[] = {
        {"version", "mpimatmul", NULL},
        {"mpi", "the MPI library", "sudo apt-get install --yes openmpi-bin libopenmpi3"},
        {"machine", "the processor",
         "uname -m   # remove it from the hostfile: all machines need the same processor type"},
    };
    char on[1024];
    mmul_findings_command_prefix(judgement, machine, on);
    for (size_t s = 0; s < sizeof same / sizeof same[0]; s++) {
        const char *expected = mmul_json_get_text(here, same[s].field);
        const char *found = mmul_json_get_text(there, same[s].field);
        if (here == NULL || strcmp(expected, found) == 0)
            continue;
        mmul_findings_add(judgement, machine, "%s there is '%s', here '%s'", same[s].what, found,
                          expected);
        if (same[s].fix != NULL)
            mmul_findings_add_fix(judgement, "%s%s", on, same[s].fix);
        else
            fix_by_package(judgement, machine);
    }
    if (mmul_json_get_text(there, "orted")[0] == '\0') {
        mmul_findings_add(judgement, machine,
                          "Open MPI's daemon orted is not on the PATH of commands there");
        mmul_findings_add_fix(
            judgement, "%ssudo apt-get install --yes openmpi-bin   # or mpirun --prefix FOLDER",
            on);
    }
}

// ------------------------------------------------------------------------------------------- space

static void judge_room(struct mmul_findings *judgement, const struct mmul_machine *machine) {
    const json_t *facts = machine->facts;
    double memory = mmul_machine_info_number(facts, "memory_available_bytes");
    double shared = mmul_machine_info_number(facts, "shared_memory_available_bytes");
    double temporary = mmul_machine_info_number(facts, "temporary_available_bytes");
    const char *folder = mmul_json_get_text(facts, "temporary");
    char on[1024], bytes[32], least[32];
    mmul_findings_command_prefix(judgement, machine, on);
    if (memory < MEMORY_LEAST) {
        mmul_findings_add(judgement, machine, "%s of memory are available, expected at least %s",
                          mmul_bytes_format((int64_t)memory, bytes),
                          mmul_bytes_format(MEMORY_LEAST, least));
        mmul_findings_add_fix(
            judgement,
            "%sps -eo rss,pid,user,comm --sort=-rss   # end programs that are not needed", on);
    }
    if (shared < SHARED_LEAST) {
        mmul_findings_add(judgement, machine,
                          "%s of shared memory are free in /dev/shm, expected at least %s",
                          mmul_bytes_format(shared > 0 ? (int64_t)shared : 0, bytes),
                          mmul_bytes_format(SHARED_LEAST, least));
        mmul_findings_add_fix(
            judgement,
            "%ssudo mount -o remount,size=50%% /dev/shm   # a container: docker run "
            "--shm-size=8g",
            on);
    }
    if (temporary < TEMPORARY_LEAST) {
        mmul_findings_add(judgement, machine,
                          "%s for Open MPI's session in '%s', expected at least %s",
                          temporary < 0 ? "no room" : mmul_bytes_format((int64_t)temporary, bytes),
                          folder, mmul_bytes_format(TEMPORARY_LEAST, least));
        mmul_findings_add_fix(judgement, "%smkdir -p -m 1777 '%s'   # or export TMPDIR=/tmp", on,
                              folder);
    }
}

// Checks the results' folder on the machine of rank 0, the first host of the hostfile.
static void judge_folder(struct mmul_findings *judgement, const struct mmul_machine *machine) {
    const char *folder = mmul_json_get_text(machine->facts, "folder");
    const char *problem = mmul_json_get_text(machine->facts, "folder_problem");
    double room = mmul_machine_info_number(machine->facts, "folder_available_bytes");
    char on[1024], bytes[32], least[32];
    mmul_findings_command_prefix(judgement, machine, on);
    if (problem[0] != '\0') {
        mmul_findings_add(judgement, machine, "rank 0 cannot write results to '%s' there: %s",
                          folder, problem);
        mmul_findings_add_fix(
            judgement, "%smkdir -p '%s'   # or use an existing folder of your own", on, folder);
    } else if (room < FOLDER_LEAST) {
        mmul_findings_add(judgement, machine,
                          "%s are free in '%s', where rank 0 writes, expected at least %s",
                          mmul_bytes_format((int64_t)room, bytes), folder,
                          mmul_bytes_format(FOLDER_LEAST, least));
        mmul_findings_add_fix(
            judgement, "%sdf -h '%s'   # make room, or give mul -o another folder", on, folder);
    }
}

// ----------------------------------------------------------------------------------------- devices

// Extracts the path from "OpenCL driver 'libx.so' (/etc/OpenCL/vendors/x.icd) crashed ...". "":
// none.
static void find_icd(const char *warning, char path[static 300]) {
    const char *begin = strstr(warning, " (/");
    const char *end = begin != NULL ? strchr(begin, ')') : NULL;
    path[0] = '\0';
    if (end != NULL)
        mmul_text_copy(path, end - begin - 1 < 300 ? (size_t)(end - begin - 1) : 300, begin + 2);
}

static void judge_drivers(struct mmul_findings *judgement, const struct mmul_machine *machine) {
    size_t at;
    json_t *warning;
    char on[1024], path[300];
    mmul_findings_command_prefix(judgement, machine, on);
    json_array_foreach(json_object_get(machine->facts, "driver_warnings"), at, warning) {
        const char *text = json_string_value(warning);
        if (text == NULL)
            continue;
        find_icd(text, path);
        mmul_findings_add(judgement, machine, "%s", text);
        if (path[0] != '\0')
            mmul_findings_add_fix(judgement, "%ssudo mv '%s' '%s.off'", on, path, path);
        else
            mmul_findings_add_fix(judgement, "%sclinfo -l   # repair or remove the driver", on);
    }
}

// Reports cards without a driver. Graphics in Intel processors are skipped: few users want them.
static void judge_cards(struct mmul_findings *judgement, const struct mmul_machine *machine) {
    size_t at;
    json_t *card;
    char on[1024];
    mmul_findings_command_prefix(judgement, machine, on);
    json_array_foreach(json_object_get(machine->facts, "cards"), at, card) {
        const char *vendor = mmul_json_get_text(card, "vendor");
        if (mmul_machine_info_count_gpus(machine->facts) > 0 || strcmp(vendor, "Intel") == 0)
            continue;
        mmul_findings_add(judgement, machine, "the %s card at %s has no OpenCL driver", vendor,
                          mmul_json_get_text(card, "address"));
        mmul_findings_add_fix(judgement, "%ssudo apt-get install --yes %s", on,
                              mmul_json_get_text(card, "package"));
    }
}

// The remedy names the shells there if another machine's shells set the kernels: a command here
// cannot change them.
static void judge_kernels(struct mmul_findings *judgement, const struct mmul_machine *machine) {
    struct mmul_kernel_comparison kernels;
    char text[320], fix[160];
    mmul_machine_info_read_kernels(machine->facts, &kernels);
    mmul_kernels_describe(&kernels, text);
    if (mmul_kernels_are_unmeasured(&kernels))
        json_array_append_new(judgement->notes,
                              json_pack("{s:o, s:o}", "machine", mmul_json_from_text(machine->name),
                                        "what", mmul_json_from_text(text)));
    if (!mmul_kernels_are_slower(&kernels))
        return;
    mmul_findings_add(judgement, machine, "%s", text);
    mmul_kernels_fix_command(&kernels, fix);
    if (machine == &judgement->visit->machines[0])
        mmul_findings_add_fix(judgement, "%s", fix);
    else
        mmul_findings_add_fix(judgement,
                              "%s   # for the shells that ssh starts on %s: ~/.bashrc there", fix,
                              machine->name);
}

static void judge_slots(struct mmul_findings *judgement, const struct mmul_machine *machine) {
    int gpus = mmul_machine_info_count_gpus(machine->facts);
    int cores = (int)mmul_machine_info_number(machine->facts, "cores");
    if (machine->slots <= gpus + cores)
        return;
    mmul_findings_add(judgement, machine,
                      "%d slots, but %d core%s and %d GPU%s: ranks would share cores",
                      machine->slots, cores, mmul_text_plural(cores), gpus, mmul_text_plural(gpus));
    mmul_findings_add_slots_fix(judgement, machine, gpus + 1);
}

static void judge_clock(struct mmul_findings *judgement, const struct mmul_machine *machine) {
    double difference = machine->clock_difference_seconds;
    char on[1024];
    if (fabs(difference) <= CLOCK_SECONDS)
        return;
    mmul_findings_add(judgement, machine, "its clock is %.1f s %s, expected at most %g s",
                      fabs(difference), difference > 0 ? "ahead" : "behind", CLOCK_SECONDS);
    mmul_findings_add_fix(judgement, "%ssudo timedatectl set-ntp true",
                          mmul_findings_command_prefix(judgement, machine, on));
}

void mmul_findings_derive_machine(struct mmul_findings *judgement,
                                  const struct mmul_machine *machine) {
    if (machine->end != MMUL_SURVEY_ANSWERED)
        judge_unreached(judgement, machine);
    if (machine->facts == NULL)
        return;
    bool writes = machine->place == 0 || judgement->visit->machine_count == 1;
    judge_software(judgement, machine);
    judge_room(judgement, machine);
    if (writes)
        judge_folder(judgement, machine);
    judge_drivers(judgement, machine);
    judge_cards(judgement, machine);
    judge_kernels(judgement, machine);
    judge_slots(judgement, machine);
    judge_clock(judgement, machine);
}

// ---------------------------------------------------------------------------------------- settings

static void judge_settings(struct mmul_findings *judgement) {
    const struct mmul_settings *settings = judgement->settings;
    const struct mmul_machine *first = &judgement->visit->machines[0];
    int64_t keepalive = 0;
    struct mmul_error ignored;
    if (mmul_machine_info_is_true(first->facts, "is_root") && !settings->root_allowed) {
        mmul_findings_add(judgement, first, "mpirun refuses to run as root");
        mmul_findings_add_fix(judgement, "su - USER   # or export OMPI_ALLOW_RUN_AS_ROOT=1 "
                                         "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
    }
    if (strncmp(settings->binding, "core", 4) == 0 ||
        strncmp(settings->binding, "hwthread", 8) == 0) {
        mmul_findings_add(judgement, first,
                          "hwloc_base_binding_policy is '%s': every rank computes on one core",
                          settings->binding);
        mmul_findings_add_fix(judgement, "unset OMPI_MCA_hwloc_base_binding_policy");
    }
    bool is_set = mmul_parse_int64(settings->keepalive, "keepalive", 1, INT32_MAX, &keepalive,
                                   &ignored) == MMUL_OK;
    if (judgement->visit->machine_count > 1 && (!is_set || keepalive > KEEPALIVE_MOST)) {
        mmul_findings_add(judgement, NULL,
                          "keepalive is not set: the loss of a machine would be noticed only after "
                          "minutes (oob_tcp_keepalive_time is %s, expected 5)",
                          is_set ? settings->keepalive : "not set");
        mmul_findings_add_fix(
            judgement, "export OMPI_MCA_oob_tcp_keepalive_time=5 "
                       "OMPI_MCA_oob_tcp_keepalive_intvl=2 OMPI_MCA_oob_tcp_keepalive_probes=3");
    }
}

enum mmul_status mmul_findings_derive(struct mmul_findings *judgement, struct mmul_error *err) {
    judgement->findings = json_array();
    judgement->notes = json_array();
    if (judgement->findings == NULL || judgement->notes == NULL)
        return mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a list of findings");
    mmul_findings_derive_hostfile(judgement);
    for (int m = 0; m < judgement->visit->machine_count; m++)
        mmul_findings_derive_machine(judgement, &judgement->visit->machines[m]);
    mmul_findings_derive_network(judgement);
    judge_settings(judgement);
    return MMUL_OK;
}
