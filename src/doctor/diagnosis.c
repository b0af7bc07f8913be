// SPDX-License-Identifier: MIT
// The public interface of the doctor: runs the visit and the judgement, and prints the result as
// tables or JSON. survey.c collects the facts, findings.c finds the problems.
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "doctor/findings.h"
#include "doctor/hostfile.h"
#include "doctor/machine_info.h"
#include "doctor/mpirun.h"

struct mmul_diagnosis {
    struct mmul_settings settings;
    struct mmul_survey visit;
    struct mmul_findings judgement;
};

enum mmul_status mmul_diagnosis_create(const struct mmul_doctor_options *options,
                                       struct mmul_diagnosis **diagnosis, struct mmul_error *err) {
    struct mmul_hostfile lines = {.hosts = NULL};
    struct mmul_mpirun_result mpirun;
    struct mmul_diagnosis *made = NULL;
    struct mmul_doctor_options taken;
    enum mmul_status status = MMUL_OPTIONS_COPY(mmul_doctor_options, options, &taken, err);
    if (status != MMUL_OK)
        return status;
    options = &taken;
    struct mmul_survey_request order = {.program = options->program,
                                        .folder = options->folder,
                                        .limit_seconds = options->limit_seconds};
    status = MMUL_ALLOCATE(made, 1, "a diagnosis", err);
    if (status == MMUL_OK)
        status = mmul_settings_load(options->tune, &made->settings, err);
    if (status == MMUL_OK && options->hostfile != NULL)
        status = mmul_hostfile_load(options->hostfile, &lines, err);
    if (status == MMUL_OK)
        status = mmul_mpirun_dry_run(options->hostfile, options->tune, options->limit_seconds,
                                     &mpirun, err);
    if (status == MMUL_OK) {
        order.hosts = lines.hosts;
        order.host_count = lines.count;
        order.settings = &made->settings;
        status = mmul_survey_run(&order, &made->visit, err);
    }
    if (status == MMUL_OK) {
        made->judgement = (struct mmul_findings){.visit = &made->visit,
                                                 .settings = &made->settings,
                                                 .hostfile = options->hostfile,
                                                 .lines = &lines,
                                                 .mpirun = &mpirun,
                                                 .limit_seconds = options->limit_seconds};
        status = mmul_findings_derive(&made->judgement, err);
    }
    if (status == MMUL_OK) {
        made->judgement.lines = NULL;
        made->judgement.mpirun = NULL;
    }
    mmul_hostfile_fini(&lines);
    if (status == MMUL_OK)
        *diagnosis = made;
    else
        mmul_diagnosis_destroy(made);
    return status;
}

void mmul_diagnosis_destroy(struct mmul_diagnosis *diagnosis) {
    if (diagnosis == NULL)
        return;
    mmul_survey_fini(&diagnosis->visit);
    json_decref(diagnosis->judgement.findings);
    json_decref(diagnosis->judgement.notes);
    mmul_free(diagnosis);
}

int mmul_diagnosis_findings(const struct mmul_diagnosis *diagnosis) {
    return (int)json_array_size(diagnosis->judgement.findings);
}

// ------------------------------------------------------------------------------------------ tables

static void print_text(struct mmul_text *text, FILE *stream) {
    mmul_text_print_table(mmul_text_get(text), stream);
    mmul_text_fini(text);
}

static void add_machine(const struct mmul_machine *machine, struct mmul_text *text) {
    const json_t *facts = machine->facts;
    char bytes[32], slots[16];
    snprintf(slots, sizeof slots, "%d", machine->slots);
    mmul_text_add(text, "%s\t%s\t", machine->name,
                  machine->place < 0   ? "-"
                  : machine->slots > 0 ? slots
                                       : "cores");
    if (facts == NULL) {
        mmul_text_add(text, "-\t-\t-\t-\t-\t-\t-\n");
        return;
    }
    mmul_text_add(text, "%s\t%s\t", mmul_json_get_text(facts, "version"),
                  mmul_json_get_text(facts, "mpi"));
    mmul_text_add(text, "%d of %d\t", (int)mmul_machine_info_number(facts, "cores"),
                  (int)mmul_machine_info_number(facts, "machine_cores"));
    mmul_text_add(text, "%s\t",
                  mmul_bytes_format(
                      (int64_t)mmul_machine_info_number(facts, "memory_available_bytes"), bytes));
    double room = mmul_machine_info_number(facts, "folder_available_bytes");
    mmul_text_add(text, "%s\t", room < 0 ? "-" : mmul_bytes_format((int64_t)room, bytes));
    double difference = round(machine->clock_difference_seconds * 10) / 10;
    mmul_text_add(text, "%d\t%+.1f s\n", mmul_machine_info_count_gpus(facts),
                  difference + 0.0); // no "-0.0"
}

static void print_machines(const struct mmul_survey *visit, FILE *stream) {
    struct mmul_text text = {0};
    mmul_text_add(&text,
                  "machine\tslots\tmpimatmul\tMPI\tcores\tmemory free\tfolder free\tGPUs\tclock\n");
    for (int m = 0; m < visit->machine_count; m++)
        add_machine(&visit->machines[m], &text);
    print_text(&text, stream);
}

// Adds the row of the CPU: its active kernels and the setting that selects them.
static void add_cpu(const struct mmul_machine *machine, struct mmul_text *text) {
    struct mmul_kernel_comparison kernels;
    mmul_machine_info_read_kernels(machine->facts, &kernels);
    if (kernels.kernels[0] != '\0')
        mmul_text_add(text, "%s\tcpu\t%.32s\t%.36s\tyes%s%s%s\n", machine->name,
                      mmul_json_get_text(machine->facts, "cpu"),
                      mmul_json_get_text(json_object_get(machine->facts, "kernels"), "library"),
                      kernels.setting[0] ? ": " : "", kernels.setting,
                      kernels.setting[0] == '\0'             ? ""
                      : strchr(kernels.setting, ' ') != NULL ? " are set"
                                                             : " is set");
}

static void add_devices(const struct mmul_machine *machine, struct mmul_text *text) {
    const json_t *devices = json_object_get(machine->facts, "devices");
    add_cpu(machine, text);
    size_t at;
    json_t *entry;
    json_array_foreach(devices, at, entry) {
        const char *reason = mmul_json_get_text(entry, "reason");
        mmul_text_add(text, "%s\t%s\t%.32s\t%.20s\t%s\n", machine->name,
                      mmul_json_get_text(entry, "id"), mmul_json_get_text(entry, "name"),
                      mmul_json_get_text(entry, "driver"), reason[0] ? reason : "yes");
    }
    json_array_foreach(json_object_get(machine->facts, "cards"), at, entry) {
        if (mmul_machine_info_count_gpus(machine->facts) == 0)
            mmul_text_add(text, "%s\t-\t%s card at %s\t-\tno OpenCL driver: %s has one\n",
                          machine->name, mmul_json_get_text(entry, "vendor"),
                          mmul_json_get_text(entry, "address"),
                          mmul_json_get_text(entry, "package"));
    }
    if (machine->facts != NULL && json_array_size(devices) == 0)
        mmul_text_add(text, "%s\t-\t-\t-\tno OpenCL device: CPU only\n", machine->name);
}

static void print_devices(const struct mmul_survey *visit, FILE *stream) {
    struct mmul_text text = {0};
    mmul_text_add(&text, "\nmachine\tdevice\tname\tdriver\tused\n");
    for (int m = 0; m < visit->machine_count; m++)
        add_devices(&visit->machines[m], &text);
    print_text(&text, stream);
}

static void print_networks(const struct mmul_survey *visit, FILE *stream) {
    struct mmul_text text = {0};
    mmul_text_add(&text, "\nnetwork\tinterface\tconnections\trate\n");
    for (int l = 0; l < visit->link_count; l++) {
        char network[24], other[24], bytes[32];
        int tested = 0, good = 0;
        mmul_address_network(&visit->links[l].target, network);
        if (mmul_survey_network_is_repeated(visit, l, network))
            continue;
        for (int i = l; i < visit->link_count; i++) {
            const struct mmul_connection *link = &visit->links[i];
            bool is_here = strcmp(mmul_address_network(&link->target, other), network) == 0;
            tested += is_here && link->tested;
            good += is_here && mmul_connection_is_good(link);
        }
        double rate = mmul_survey_network_rate(visit, network);
        mmul_text_add(&text, "%s\t%s\t%d of %d\t%s%s\n", network, visit->links[l].target.interface,
                      good, tested, rate > 0.0 ? mmul_bytes_format((int64_t)rate, bytes) : "-",
                      rate > 0.0 ? "/s" : "");
    }
    print_text(&text, stream);
}

static void print_connections(const struct mmul_survey *visit, FILE *stream) {
    struct mmul_text text = {0};
    mmul_text_add(&text, "\nfrom\tto\taddress\tinterface\tconnect ms\trate\n");
    for (int l = 0; l < visit->link_count; l++) {
        const struct mmul_connection *link = &visit->links[l];
        char bytes[32];
        mmul_text_add(&text, "%s\t%s\t%s\t%s\t", visit->machines[link->from].name,
                      visit->machines[link->to].name, link->target.text,
                      link->interface[0] ? link->interface : "-");
        if (mmul_connection_is_good(link))
            mmul_text_add(&text, "%.1f\t%s/s\n", link->connect_seconds * 1e3,
                          mmul_bytes_format((int64_t)link->bytes_per_second, bytes));
        else
            mmul_text_add(&text, "-\t%s\n",
                          !link->tested  ? "not tested"
                          : link->errnum ? strerror(link->errnum)
                                         : "not received");
    }
    print_text(&text, stream);
}

void mmul_diagnosis_print(const struct mmul_diagnosis *diagnosis, bool with_connections,
                          FILE *stream) {
    const struct mmul_survey *visit = &diagnosis->visit;
    size_t at;
    json_t *finding, *note;
    print_machines(visit, stream);
    print_devices(visit, stream);
    if (visit->link_count > 0)
        print_networks(visit, stream);
    if (visit->link_count > 0 && with_connections)
        print_connections(visit, stream);
    fputc('\n', stream);
    json_array_foreach(diagnosis->judgement.notes, at, note) {
        fprintf(stream, "note: %s: %s: run doctor again when the machine is idle\n",
                mmul_json_get_text(note, "machine"), mmul_json_get_text(note, "what"));
    }
    const bool is_sure = at == 0;
    json_array_foreach(diagnosis->judgement.findings, at, finding) {
        const char *machine = mmul_json_get_text(finding, "machine");
        fprintf(stream, "%zu. %s%s%s\n   fix: %s\n", at + 1, machine, machine[0] ? ": " : "",
                mmul_json_get_text(finding, "what"), mmul_json_get_text(finding, "fix"));
    }
    if (at == 0)
        fputs(is_sure ? "READY\n" : "READY, except for facts that could not be measured\n", stream);
}

// -------------------------------------------------------------------------------------------- JSON

static json_t *machine_json(const struct mmul_machine *machine) {
    static const char *const ends[] = {"answered", "silent", "ended", "left"};
    const bool has_facts = machine->facts != NULL;
    return json_pack("{s:o, s:o, s:s, s:o, s:o}", "machine", mmul_json_from_text(machine->name),
                     "slots", machine->place < 0 ? json_null() : json_integer(machine->slots),
                     "state", ends[machine->end], "clock_difference_seconds",
                     has_facts ? json_real(machine->clock_difference_seconds) : json_null(),
                     "facts", has_facts ? json_incref(machine->facts) : json_null());
}

static json_t *link_json(const struct mmul_survey *visit, const struct mmul_connection *link) {
    char network[24];
    bool is_open = link->errnum == 0 && link->received;
    return json_pack("{s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o}", "from",
                     mmul_json_from_text(visit->machines[link->from].name), "to",
                     mmul_json_from_text(visit->machines[link->to].name), "address",
                     link->target.text, "network", mmul_address_network(&link->target, network),
                     "interface", mmul_json_from_text(link->interface), "open",
                     link->tested ? json_boolean(is_open) : json_null(), "connect_seconds",
                     is_open ? json_real(link->connect_seconds) : json_null(), "bytes_per_second",
                     link->bytes_per_second > 0.0 ? json_real(link->bytes_per_second)
                                                  : json_null());
}

enum mmul_status mmul_diagnosis_json(const struct mmul_diagnosis *diagnosis, char **text,
                                     struct mmul_error *err) {
    const struct mmul_survey *visit = &diagnosis->visit;
    json_t *machines = json_array(), *links = json_array();
    for (int m = 0; m < visit->machine_count; m++)
        json_array_append_new(machines, machine_json(&visit->machines[m]));
    for (int l = 0; l < visit->link_count; l++)
        json_array_append_new(links, link_json(visit, &visit->links[l]));
    json_t *value =
        json_pack("{s:b, s:O, s:O, s:o, s:o}", "ready", mmul_diagnosis_findings(diagnosis) == 0,
                  "findings", diagnosis->judgement.findings, "notes", diagnosis->judgement.notes,
                  "machines", machines, "connections", links);
    enum mmul_status status = mmul_json_format(value, text, err);
    json_decref(value);
    return status;
}
