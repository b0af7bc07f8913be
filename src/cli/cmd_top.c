// SPDX-License-Identifier: MIT
// top: shows running jobs of this user on this machine. Reads the files that jobs publish, without
// contacting the jobs.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/failure.h"
#include "cli/print.h"
#include "cli/top_lines.h"
#include "cli/top_screen.h"

static void print_ranks(const struct mmul_job_state *job, FILE *stream) {
    struct top_cells cells;
    for (int c = 0; c < TOP_COLUMNS; c++)
        fprintf(stream, "%s%c", mmul_top_headings[c], c + 1 < TOP_COLUMNS ? '\t' : '\n');
    for (int i = 0; i < job->rank_count; i++) {
        mmul_top_cells(job, i, &cells);
        for (int c = 0; c < TOP_COLUMNS; c++)
            fprintf(stream, "%s%c", cells.text[c], c + 1 < TOP_COLUMNS ? '\t' : '\n');
    }
}

static enum mmul_status print_job(const struct mmul_job_state *job, struct mmul_error *err) {
    char text[1024], *table = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&table, &length);
    if (stream == NULL)
        return mmul_cli_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a table of ranks");
    mmul_print_line(stdout, "job %s: %s", job->id, job->command);
    mmul_top_state(job, text);
    puts(text);
    mmul_top_turn(job, text);
    if (text[0] != '\0')
        puts(text);
    mmul_top_numbers(job, text);
    if (text[0] != '\0')
        mmul_print_line(stdout, "%s", text);
    print_ranks(job, stream);
    if (fclose(stream) == 0)
        mmul_print_table(table, mmul_top_alignment, "  ", stdout);
    free(table);
    return MMUL_OK;
}

static enum mmul_status print_jobs(const struct mmul_jobs *jobs, const char *id,
                                   struct mmul_error *err) {
    bool is_first = true;
    for (int i = 0; i < mmul_jobs_count(jobs); i++) {
        const struct mmul_job_state *job = mmul_jobs_get(jobs, i);
        if (id != NULL && strcmp(job->id, id) != 0)
            continue;
        if (!is_first)
            putchar('\n');
        is_first = false;
        if (print_job(job, err) != MMUL_OK)
            return err->status;
    }
    return MMUL_OK;
}

static enum mmul_status show_jobs(const struct call *call, const struct mmul_jobs *jobs,
                                  const char *id, struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    char *text = NULL;
    if (id != NULL && mmul_top_find_job(jobs, id) < 0) {
        mmul_cli_fail(err, MMUL_ERR_NO_INPUT, "you have no running job '%s' on this machine", id);
        return mmul_cli_hint(err, "mpimatmul top --once lists the running jobs");
    }
    if (values[OPT_JSON].number != 0)
        return mmul_print_owned_text(mmul_jobs_json(jobs, id, &text, err), &text, stdout);
    if (values[OPT_ONCE].number != 0 && mmul_jobs_count(jobs) == 0) {
        puts("you have no running job on this machine");
        return MMUL_OK;
    }
    if (values[OPT_ONCE].number != 0)
        return print_jobs(jobs, id, err);
    if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO)) {
        mmul_cli_fail(err, MMUL_ERR_USAGE, "top: standard input and output must be a terminal");
        return mmul_cli_hint(err, "--once prints a table, --once --json JSON");
    }
    return mmul_top_screen(id, err);
}

static enum mmul_status run_top(const struct call *call, struct mmul_error *err) {
    struct mmul_jobs *jobs = NULL;
    const char *id = call->operand_count > 0 ? call->operands[0] : NULL;
    enum mmul_status status = mmul_jobs_find(&jobs, err);
    if (status == MMUL_OK)
        status = show_jobs(call, jobs, id, err);
    mmul_jobs_destroy(jobs);
    return status;
}

static enum mmul_status check_top(const struct call *call, struct mmul_error *err) {
    const struct option_value *values = call->options.values;
    if (values[OPT_JSON].number != 0 && values[OPT_ONCE].number == 0)
        return mmul_cli_fail(err, MMUL_ERR_USAGE, "top: --json needs --once");
    return MMUL_OK;
}

static const enum option_id options[] = {OPT_ONCE, OPT_JSON, OPT_HELP, OPT_END};

const struct command mmul_command_top = {
    .name = "top",
    .operands = "[JOB]",
    .operands_min = 0,
    .operands_max = 1,
    .summary = "jobs while they run: every rank, progress, the loss",
    .notes =
        "From another terminal, on the machine of the job's first process, by the user whose job\n"
        "it is: mul and run, and what Python or a program of yours does, from half a second on.\n"
        "Where no job is under way it waits for one. Twice a second it shows how far the job is\n"
        "and how long it will take, and of each rank its host and device, what it computes (in\n"
        "turns of a loop that take less than a second: what takes longest), how fast, its share\n"
        "of the work, how far it is with that, its memory, temperature and watts (of a CPU its\n"
        "packages', by RAPL and hwmon; of a card by hwmon or NVML), - where the system does not\n"
        "tell; of a program with a loop turns, windows per second, the numbers that it has\n"
        "printed last, and one of them as a curve: its loss. q quits, up and down show other\n"
        "ranks, tab shows the next job. The job does not notice.\n"
        "A job says this in a file in $XDG_RUNTIME_DIR/mpimatmul, or /tmp/mpimatmul-<uid>, which "
        "is\n"
        "the user's alone. JOB is the number of its first process. --once --json has all of it, "
        "also\n"
        "without a job; share/mpimatmul/mpimatmul_top.schema.json describes it.\n"
        "\n"
        "  mpimatmul top\n"
        "  mpimatmul top --once --json\n",
    .options = options,
    .check = check_top,
    .run = run_top,
};
