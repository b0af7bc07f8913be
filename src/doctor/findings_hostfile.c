// SPDX-License-Identifier: MIT
// Judges the hostfile line by line, and mpirun's verdict on it. Lines that Open MPI 4.1 refuses are
// reported only if mpirun refuses the file, since other versions of Open MPI may accept them. Lines
// that mpirun misinterprets are always reported. With `mpirun -q` a refusal is exit code 1 without
// a message.
#include "doctor/findings.h"

#include <string.h>

#include "base/text.h"
#include "doctor/machine_info.h"

// Open MPI packs host names into a message that has room only for these letters.
static const char name_letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";

// State of the judgement of a hostfile.
struct reading {
    struct mmul_findings *judgement;
    const struct mmul_hostfile *lines;
    bool is_refused;   // mpirun refuses the file, or was not asked
    bool is_explained; // a line explains the refusal
};

// Adds a finding about a line that mpirun refuses. The first one quotes mpirun.
static void find_refused(struct reading *reading, int line, const char *what) {
    const struct mmul_mpirun_result *mpirun = reading->judgement->mpirun;
    const bool is_first = !reading->is_explained && mpirun->verdict == MMUL_MPIRUN_REFUSES;
    mmul_findings_add(reading->judgement, NULL, "'%s' line %d: %s%s%s%s",
                      reading->judgement->hostfile, line, what, is_first ? ": mpirun says \"" : "",
                      is_first ? mpirun->words : "", is_first ? "\"" : "");
    reading->is_explained = true;
}

static void judge_whole_file(struct reading *reading) {
    const struct mmul_hostfile *lines = reading->lines;
    const char *path = reading->judgement->hostfile;
    if (lines->has_mark) {
        find_refused(reading, 1, "begins with a byte-order mark");
        mmul_findings_add_fix(reading->judgement, "sed -i '1s/^\\xEF\\xBB\\xBF//' '%s'", path);
    }
    if (lines->carriage_return_line > 0) {
        find_refused(reading, lines->carriage_return_line,
                     "ends with a carriage return, as on Windows");
        mmul_findings_add_fix(reading->judgement, "sed -i 's/\\r$//' '%s'", path);
    }
    if (lines->unterminated_comment_line > 0) {
        find_refused(reading, lines->unterminated_comment_line,
                     "the comment ends without a line end");
        mmul_findings_add_fix(reading->judgement, "echo >> '%s'", path);
    }
}

static void judge_line(struct reading *reading, const struct mmul_host *host) {
    const struct mmul_machine *machine = &reading->judgement->visit->machines[host->machine];
    const char *path = reading->judgement->hostfile;
    const char *name = mmul_host_without_user(machine->name);
    const char *odd = name + strspn(name, name_letters);
    char what[MMUL_HOST_LENGTH + 128];
    if (!host->is_own && *odd != '\0') {
        snprintf(what, sizeof what,
                 "'%s' has '%c' in its name: letters, digits, '-' and '.' are legal", name, *odd);
        find_refused(reading, host->line, what);
        mmul_findings_add_fix(
            reading->judgement,
            "getent ahostsv4 '%s'   # write that address, or another name of it, into "
            "line %d",
            name, host->line);
    }
    if (host->maximum_below_slots[0] != '\0') {
        snprintf(what, sizeof what, "%s is below the slots", host->maximum_below_slots);
        find_refused(reading, host->line, what);
        mmul_findings_add_fix(reading->judgement, "sed -i '%ds/%s *= *[0-9]*//' '%s'", host->line,
                              host->maximum_below_slots, path);
    }
}

// Adds the command that gives a machine the slots in one line and removes its other lines.
static void add_command(const struct mmul_findings *judgement, const struct mmul_machine *machine,
                        int slots, struct mmul_text *command) {
    const struct mmul_hostfile *lines = judgement->lines;
    // `kept` becomes the first line with slots, or stays the first line.
    const struct mmul_host *kept = &lines->hosts[machine->place];
    const int number = kept->machine;
    for (int h = machine->place; h < lines->count; h++) {
        const struct mmul_host *host = &lines->hosts[h];
        if (host->machine == number && !host->is_merged_by_mpirun && kept->slots == 0 &&
            host->slots > 0)
            kept = host;
    }
    if (kept->slots > 0)
        mmul_text_add(command, "sed -i '%ds/slots *= *[0-9]*/slots=%d/", kept->line, slots);
    else
        mmul_text_add(command, "sed -i '%ds/[^[:space:]#]\\+/& slots=%d/", kept->line, slots);
    for (int h = 0; h < lines->count; h++) {
        const struct mmul_host *host = &lines->hosts[h];
        if (host->machine == number && !host->is_merged_by_mpirun && host != kept)
            mmul_text_add(command, ";%dd", host->line);
    }
    mmul_text_add(command, "' '%s'", judgement->hostfile);
}

void mmul_findings_add_slots_fix(struct mmul_findings *judgement,
                                 const struct mmul_machine *machine, int slots) {
    struct mmul_text command = {0};
    if (judgement->lines != NULL)
        add_command(judgement, machine, slots, &command);
    mmul_findings_add_fix(judgement, "%s", mmul_text_get(&command));
    mmul_text_fini(&command);
}

// Reports two hosts that mpirun takes for one.
static void report_mistaken(struct reading *reading, const struct mmul_host *host,
                            const struct mmul_host *first) {
    char what[2 * MMUL_HOST_LENGTH + 128];
    snprintf(what, sizeof what,
             "mpirun takes '%s' for '%s' of line %d: it drops everything after the first dot",
             host->name, first->name, first->line);
    if (host->slots > 0 && reading->is_refused)
        find_refused(reading, host->line, what);
    else
        mmul_findings_add(reading->judgement, NULL, "'%s' line %d: %s",
                          reading->judgement->hostfile, host->line, what);
    mmul_findings_add_fix(reading->judgement, "export OMPI_MCA_orte_keep_fqdn_hostnames=1");
}

// Reports a host in several lines: Open MPI 4.1 accepts slots only in the first of them.
static void judge_repeated(struct reading *reading, const struct mmul_host *host) {
    struct mmul_findings *judgement = reading->judgement;
    const struct mmul_machine *machine = &judgement->visit->machines[host->machine];
    const struct mmul_host *first = &reading->lines->hosts[machine->place];
    char what[2 * MMUL_HOST_LENGTH + 128];
    if (host->is_merged_by_mpirun)
        return report_mistaken(reading, host, first);
    for (const struct mmul_host *other = first + 1; other < host; other++)
        if (other->machine == host->machine && !other->is_merged_by_mpirun && other->slots > 0)
            return; // the command of that line's finding covers this line
    if (host == first || host->slots == 0 || !reading->is_refused)
        return;
    if (strcmp(host->name, first->name) == 0)
        snprintf(what, sizeof what, "gives slots to '%s', which line %d already lists", host->name,
                 first->line);
    else
        snprintf(what, sizeof what, "gives slots of '%s', the same machine as '%s' of line %d",
                 host->name, first->name, first->line);
    find_refused(reading, host->line, what);
    mmul_findings_add_slots_fix(judgement, machine, machine->slots);
}

// Reports a refusal that no line explains.
static void judge_refusal(struct mmul_findings *judgement) {
    const struct mmul_mpirun_result *mpirun = judgement->mpirun;
    const struct mmul_machine *first = &judgement->visit->machines[0];
    const char *path = judgement->hostfile;
    const bool has_no_agent = judgement->visit->agent.count == 0;
    if (has_no_agent && judgement->visit->machine_count > 1)
        return; // reported for each machine
    mmul_findings_add(judgement, first, "mpirun starts no job%s%s%s: %s",
                      path != NULL ? " on '" : "", path != NULL ? path : "",
                      path != NULL ? "'" : "", mpirun->words);
    if (mpirun->is_crash && mpirun->has_no_home)
        mmul_findings_add_fix(judgement, "export HOME=/tmp   # the user has no other home");
    else if (mpirun->is_crash &&
             json_array_size(json_object_get(first->facts, "driver_warnings")) > 0)
        mmul_findings_add_fix(judgement,
                              "export HWLOC_COMPONENTS=-opencl,-gl   # or mend the driver");
    else if (has_no_agent)
        mmul_findings_add_fix(judgement, "unset OMPI_MCA_plm_rsh_agent   # it names no program");
    else
        mmul_findings_add_fix(
            judgement, "mpirun%s%s%s -n 1 --do-not-launch true   # shows the whole message",
            path != NULL ? " --hostfile '" : "", path != NULL ? path : "", path != NULL ? "'" : "");
}

void mmul_findings_derive_hostfile(struct mmul_findings *judgement) {
    const struct mmul_hostfile *lines = judgement->lines;
    const enum mmul_mpirun_verdict verdict = judgement->mpirun->verdict;
    struct reading reading = {
        .judgement = judgement, .lines = lines, .is_refused = verdict != MMUL_MPIRUN_ACCEPTS};
    if (lines != NULL && reading.is_refused)
        judge_whole_file(&reading);
    for (int h = 0; lines != NULL && h < lines->count; h++) {
        if (reading.is_refused)
            judge_line(&reading, &lines->hosts[h]);
        judge_repeated(&reading, &lines->hosts[h]);
    }
    if (verdict == MMUL_MPIRUN_REFUSES && !reading.is_explained)
        judge_refusal(judgement);
}
