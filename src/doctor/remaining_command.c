// SPDX-License-Identifier: MIT
// The public interface for another try of a job: asks the hosts of its command as the doctor does,
// and leaves out those that do not answer.
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "doctor/machine_info.h"
#include "doctor/mpirun_command.h"
#include "doctor/survey.h"

struct mmul_remaining_command {
    struct mmul_reduced_words words;
    struct mmul_text silent; // "node2, node3"
    int silent_count, host_count;
};

// Returns true if the host can run ranks. A host without this program answers, too: the command may
// start another one.
static bool has_answered(const struct mmul_machine *machine) {
    return machine->end == MMUL_SURVEY_ANSWERED ||
           (machine->end == MMUL_SURVEY_ENDED && machine->detail == 127);
}

// Returns the slots of a line of the hostfile: as given, else one per core. 0: no answer.
static int count_slots(const struct mmul_host *host, const struct mmul_machine *machine) {
    if (!has_answered(machine))
        return 0;
    const int cores =
        machine->facts != NULL ? (int)mmul_machine_info_number(machine->facts, "cores") : 1;
    return host->slots > 0 ? host->slots : cores > 0 ? cores : 1;
}

static enum mmul_status leave_out_silent(const struct mmul_mpirun_command *command,
                                         const struct mmul_survey *visit,
                                         struct mmul_remaining_command *made,
                                         struct mmul_error *err) {
    int *slots = NULL;
    enum mmul_status status = MMUL_ALLOCATE(slots, command->host_count, "a list of slots", err);
    for (int h = 0; h < command->host_count && status == MMUL_OK; h++)
        slots[h] = count_slots(&command->hosts[h], &visit->machines[command->hosts[h].machine]);
    for (int m = 0; m < visit->machine_count; m++) {
        const struct mmul_machine *machine = &visit->machines[m];
        if (machine->place < 0)
            continue; // this machine, from which the job starts
        made->host_count += has_answered(machine);
        if (!has_answered(machine))
            mmul_text_add(&made->silent, "%s%s", made->silent_count++ > 0 ? ", " : "",
                          machine->name);
    }
    if (status == MMUL_OK)
        status = mmul_mpirun_command_reduce(command, slots, &made->words, err);
    mmul_free(slots);
    return status;
}

static enum mmul_status ask_hosts(const struct mmul_mpirun_command *command, const char *program,
                                  double limit_seconds, struct mmul_remaining_command *made,
                                  struct mmul_error *err) {
    struct mmul_settings settings;
    struct mmul_survey visit;
    if (mmul_settings_load(command->tune, &settings, err) != MMUL_OK)
        return err->status;
    if (command->agent != NULL)
        mmul_text_copy(settings.agent, sizeof settings.agent, command->agent);
    if (command->keeps_domains != NULL)
        settings.keeps_domains = mmul_settings_is_true(command->keeps_domains);
    const struct mmul_survey_request order = {.hosts = command->hosts,
                                              .host_count = command->host_count,
                                              .settings = &settings,
                                              .program = program,
                                              .folder = "/tmp",
                                              .limit_seconds = limit_seconds,
                                              .skips_connections = true};
    if (mmul_survey_run(&order, &visit, err) != MMUL_OK)
        return err->status;
    enum mmul_status status = leave_out_silent(command, &visit, made, err);
    mmul_survey_fini(&visit);
    return status;
}

enum mmul_status mmul_remaining_command_create(const char *const *words, const char *program,
                                               double limit_seconds,
                                               struct mmul_remaining_command **remaining,
                                               struct mmul_error *err) {
    struct mmul_mpirun_command command = {.mpirun = -1};
    struct mmul_remaining_command *made = NULL;
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "a command", err);
    if (status == MMUL_OK)
        status = mmul_mpirun_command_parse(words, &command, err);
    if (status == MMUL_OK && command.host_count > 0)
        status = ask_hosts(&command, program, limit_seconds, made, err);
    mmul_mpirun_command_fini(&command);
    if (status == MMUL_OK)
        *remaining = made;
    else
        mmul_remaining_command_destroy(made);
    return status;
}

void mmul_remaining_command_destroy(struct mmul_remaining_command *remaining) {
    if (remaining == NULL)
        return;
    mmul_reduced_words_fini(&remaining->words);
    mmul_text_fini(&remaining->silent);
    mmul_free(remaining);
}

char *const *mmul_remaining_command_words(const struct mmul_remaining_command *remaining) {
    return remaining->words.words;
}

const char *mmul_remaining_command_silent(const struct mmul_remaining_command *remaining,
                                          int *silent_count, int *host_count) {
    *silent_count = remaining->silent_count;
    *host_count = remaining->host_count;
    return mmul_text_get(&remaining->silent);
}
