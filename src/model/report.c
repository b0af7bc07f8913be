// SPDX-License-Identifier: MIT
// Accessors of a report for the public interface, and the energy of all ranks.
#include "model/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

void mmul_report_destroy(struct mmul_report *report) {
    if (report == NULL)
        return;
    MMUL_FREE_ALL(report->ranks, report->operations, report->sent_bytes, report->parts);
    mmul_text_fini(&report->unused);
    mmul_text_fini(&report->warnings);
    mmul_free(report->warning_lines);
    mmul_traces_destroy(report->traces);
    mmul_free(report);
}

int mmul_report_warnings(const struct mmul_report *report, const char *const **warnings) {
    *warnings = report->warning_lines;
    return report->warning_count;
}

int64_t mmul_report_overflows(const struct mmul_report *report) {
    return report->overflows;
}

double mmul_report_seconds(const struct mmul_report *report) {
    return report->wall_seconds;
}

struct mmul_phases mmul_report_phases(const struct mmul_report *report) {
    struct mmul_report_rank none = {0};
    const struct mmul_report_rank *last = report->ranks ? &report->ranks[report->last_rank] : &none;
    return (struct mmul_phases){.wall_seconds = report->wall_seconds,
                                .setup_seconds = last->setup_seconds,
                                .scatter_seconds = last->scatter_seconds,
                                .compute_seconds = last->compute_seconds,
                                .verify_seconds = last->verify_seconds,
                                .gather_seconds = last->gather_seconds,
                                .idle_seconds = last->idle_seconds,
                                .commit_seconds = last->commit_seconds};
}

double mmul_startup_seconds(const struct mmul_startup *s) {
    return s->launch_seconds + s->discover_seconds + s->files_seconds + s->plan_seconds +
           s->measure_seconds + s->warm_up_seconds;
}

// ------------------------------------------------------------------------------------------ energy

// Returns a bit for each package in "packages 0,3"; 0 for a card.
static uint64_t packages_of(const char *source) {
    uint64_t packages = 0;
    int number, length, end = 0;
    sscanf(source, "packages %n", &end);
    for (source += end;
         end > 0 && sscanf(source, "%d%n", &number, &length) == 1 && number < 64 && number >= 0;
         source += length + (source[length] == ','))
        packages |= UINT64_C(1) << number;
    return packages;
}

// Returns true if both have counters in common or, with `all`, x has all that y has.
static bool shares_counters(const struct mmul_report_rank *x, const struct mmul_report_rank *y,
                            bool all) {
    const uint64_t left = packages_of(x->joules_source), right = packages_of(y->joules_source);
    if (strcmp(x->host, y->host) != 0 || x->joules_source[0] == '\0')
        return false;
    if (left == 0 || right == 0)
        return strcmp(x->joules_source, y->joules_source) == 0;
    return all ? (left | right) == left : (left & right) != 0;
}

// Returns the first rank with the most counters among those that have all of rank i's.
static int find_reporting_rank(const struct mmul_report *report, int i) {
    int found = i;
    for (int j = 0; j < report->size; j++) {
        const struct mmul_report_rank *r = &report->ranks[j], *best = &report->ranks[found];
        if (shares_counters(r, best, true) && (j < found || !shares_counters(best, r, true)))
            found = j;
    }
    return found;
}

// Returns true if another rank states part of the same counters: a sum would count them twice.
static bool has_overlapping_counters(const struct mmul_report *report, int stating) {
    for (int j = 0; j < report->size; j++)
        if (report->ranks[j].joules_source[0] != '\0' && report->ranks[j].joules_rank != stating &&
            shares_counters(&report->ranks[j], &report->ranks[stating], false))
            return true;
    return false;
}

void mmul_report_assign_joules(struct mmul_report *report) {
    for (int i = 0; i < report->size; i++)
        report->ranks[i].joules_rank = find_reporting_rank(report, i);
    for (int i = 0; i < report->size; i++)
        report->ranks[i].joules = has_overlapping_counters(report, report->ranks[i].joules_rank)
                                      ? NAN
                                      : report->ranks[i].joules;
    for (int i = 0; i < report->size; i++)
        if (isnan(report->ranks[i].joules))
            report->ranks[i].joules_source[0] = '\0';
}

bool mmul_report_owns_joules(const struct mmul_report *report, int i) {
    return report->ranks[i].joules_source[0] != '\0' && report->ranks[i].joules_rank == i;
}

double mmul_report_joules(const struct mmul_report *report) {
    double joules = 0;
    for (int i = 0; i < report->size; i++) {
        if (report->ranks == NULL || report->ranks[i].joules_source[0] == '\0')
            return NAN;
        joules += mmul_report_owns_joules(report, i) ? report->ranks[i].joules : 0;
    }
    return joules;
}

// ---------------------------------------------------------------------------------------- programs

json_t *mmul_programs_json(const struct mmul_programs_summary *programs) {
    return json_pack("{sI sf sI sf so sI sI sI}", "programs", (json_int_t)programs->programs,
                     "wall_seconds", programs->wall_seconds, "steps", (json_int_t)programs->steps,
                     "flops", programs->flops, "joules", mmul_json_from_double(programs->joules),
                     "lines_checked", (json_int_t)programs->lines_checked, "blocks_recomputed",
                     (json_int_t)programs->blocks_recomputed, "fallback_products",
                     (json_int_t)programs->fallback_products);
}
