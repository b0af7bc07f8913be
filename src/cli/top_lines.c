// SPDX-License-Identifier: MIT
// Formats numbers with units in few characters.
#include "cli/top_lines.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/progress.h"

// Silence of a job that is reported.
static const double LONG_SILENCE_SECONDS = 5;

const char *const mmul_top_headings[TOP_COLUMNS] = {
    "rank", "host", "device", "computes", "GFLOP/s", "share", "done", "memory", "temp", "power"};
const char mmul_top_alignment[TOP_COLUMNS + 1] = "rlllrrrrrr";

int mmul_top_find_job(const struct mmul_jobs *jobs, const char *id) {
    for (int i = 0; i < mmul_jobs_count(jobs); i++)
        if (strcmp(mmul_jobs_get(jobs, i)->id, id) == 0)
            return i;
    return -1;
}

// Appends text; does nothing if `value` is unknown (NaN).
static void append_known(double value, char *text, size_t capacity, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void append_known(double value, char *text, size_t capacity, const char *format, ...) {
    const size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    if (!isnan(value))
        vsnprintf(text + length, capacity - length, format, arguments);
    va_end(arguments);
}

void mmul_top_state(const struct mmul_job_state *job, char text[static 256]) {
    char seconds[32];
    snprintf(text, 256, "%s", job->phase);
    append_known(job->share, text, 256, " %.0f %%", 100 * job->share);
    if (job->flops_per_second > 5e7)
        append_known(0, text, 256, ", %.1f GFLOP/s", job->flops_per_second * 1e-9);
    mmul_progress_seconds(job->left_seconds, seconds, sizeof seconds);
    append_known(job->left_seconds, text, 256, ", %s left", seconds);
    mmul_progress_seconds(job->elapsed_seconds, seconds, sizeof seconds);
    append_known(0, text, 256, ", %s so far", seconds);
    mmul_progress_seconds(job->silent_seconds, seconds, sizeof seconds);
    if (job->silent_seconds > LONG_SILENCE_SECONDS)
        append_known(0, text, 256, ", silent for %s", seconds);
}

void mmul_top_turn(const struct mmul_job_state *job, char text[static 128]) {
    text[0] = '\0';
    if (job->end_turn == 0)
        return;
    snprintf(text, 128, "turn %lld of %lld", (long long)job->turn + 1, (long long)job->end_turn);
    append_known(job->turns_per_second, text, 128, ", %.3g turns/s", job->turns_per_second);
    append_known(job->windows_per_second, text, 128, ", %.3g windows/s", job->windows_per_second);
}

void mmul_top_numbers(const struct mmul_job_state *job, char text[static 1024]) {
    text[0] = '\0';
    for (int i = 0; i < job->number_count; i++)
        append_known(0, text, 1024, "%s%s %.6g", i > 0 ? "  " : "", job->numbers[i].name,
                     job->numbers[i].value);
}

// ------------------------------------------------------------------------------------------ ranks

static void format_number(double value, int digits, const char *unit, char cell[static 192]) {
    if (isnan(value))
        strcpy(cell, "-");
    else
        snprintf(cell, 192, "%.*f%s", digits, value, unit);
}

void mmul_top_cells(const struct mmul_job_state *job, int rank, struct top_cells *cells) {
    const struct mmul_job_rank *r = &job->ranks[rank];
    char bytes[32];
    snprintf(cells->text[TOP_RANK], sizeof cells->text[0], "%d", rank);
    snprintf(cells->text[TOP_HOST], sizeof cells->text[0], "%s", r->host);
    snprintf(cells->text[TOP_DEVICE], sizeof cells->text[0], "%s", r->device);
    snprintf(cells->text[TOP_COMPUTES], sizeof cells->text[0], "%s",
             r->computes[0] != '\0' ? r->computes : "-");
    const double rate = r->flops_per_second * 1e-9;
    format_number(rate, rate < 0.95 ? 3 : rate < 999.5 ? 1 : 0, "", cells->text[TOP_RATE]);
    format_number(100 * r->share, 0, " %", cells->text[TOP_SHARE]);
    format_number(100 * r->done, 0, " %", cells->text[TOP_DONE]);
    format_number(r->celsius, 0, " C", cells->text[TOP_TEMPERATURE]);
    format_number(r->watts, 0, " W", cells->text[TOP_POWER]);
    snprintf(cells->text[TOP_MEMORY], sizeof cells->text[0], "%s",
             isnan(r->memory_bytes) ? "-" : mmul_bytes_format((int64_t)r->memory_bytes, bytes));
}
