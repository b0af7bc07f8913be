// SPDX-License-Identifier: MIT
// What callers ask a report for.
#include "model/report.h"

#include "base/memory.h"

void mmul_report_destroy(struct mmul_report *report) {
    if (report == NULL)
        return;
    mmul_free(report->ranks);
    mmul_free(report->operations);
    mmul_free(report->parts);
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

json_t *mmul_programs_json(const struct mmul_programs_summary *programs) {
    return json_pack("{sI sf sI sf sI sI sI}", "programs", (json_int_t)programs->programs,
                     "wall_seconds", programs->wall_seconds, "steps", (json_int_t)programs->steps,
                     "flops", programs->flops, "lines_checked", (json_int_t)programs->lines_checked,
                     "blocks_recomputed", (json_int_t)programs->blocks_recomputed,
                     "fallback_products", (json_int_t)programs->fallback_products);
}
