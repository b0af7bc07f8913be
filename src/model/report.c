// SPDX-License-Identifier: MIT
// The report for people and for programs. Only turns numbers into text.
#include "model/report.h"

#include "base/json.h"
#include "base/memory.h"

void mmul_report_destroy(struct mmul_report *report) {
    if (report == NULL)
        return;
    mmul_free(report->ranks);
    mmul_text_fini(&report->unused);
    mmul_text_fini(&report->warnings);
    mmul_free(report->warning_lines);
    mmul_free(report);
}

int mmul_report_warnings(const struct mmul_report *report, const char *const **warnings) {
    *warnings = report->warning_lines;
    return report->warning_count;
}

double mmul_report_seconds(const struct mmul_report *report) {
    return report->wall_seconds;
}

struct mmul_phases mmul_report_phases(const struct mmul_report *report) {
    struct mmul_phases phases = {
        .wall_seconds = report->wall_seconds,
        .scatter_seconds = report->scatter_seconds,
        .compute_seconds = report->compute_seconds,
        .verify_seconds = report->verify_seconds,
        .gather_seconds = report->gather_seconds,
        .commit_seconds = report->commit_seconds,
    };
    for (int i = 0; report->ranks != NULL && i < report->size; i++)
        if (report->ranks[i].idle_seconds > phases.idle_seconds)
            phases.idle_seconds = report->ranks[i].idle_seconds;
    return phases;
}

// Rate while computing.
static double rank_rate(const struct mmul_report_rank *rank) {
    return rank->compute_seconds > 0 ? rank->flops / rank->compute_seconds : 0;
}

static double total_rate(const struct mmul_report *report) {
    return report->wall_seconds > 0 ? mmul_problem_flops(&report->problem) / report->wall_seconds
                                    : 0;
}

// Of the sum of the measured speeds; 0: not all ranks with work were measured.
static double efficiency(const struct mmul_report *report) {
    double sum = 0;
    for (int i = 0; i < report->size; i++) {
        if (report->ranks[i].end > report->ranks[i].begin && !(report->ranks[i].speed_flops > 0))
            return 0;
        sum += report->ranks[i].speed_flops;
    }
    return sum > 0 ? total_rate(report) / sum : 0;
}

static const char *check_result(const struct mmul_report *report) {
    if (!report->verified)
        return "off";
    return report->lines_recomputed > 0 ? "passed after recomputation" : "passed";
}

static void print_ranks(const struct mmul_report *report, FILE *stream) {
    struct mmul_text table = {0};
    mmul_text_add(
        &table,
        "rank\thost\tdevice\tthreads\t%s\tclaimed\tshare\tscatter s\tcompute s\tcheck s\tgather s\t"
        "GFLOP/s\tidle\tnote\n",
        report->axis == MMUL_ROWS ? "rows" : "cols");
    for (int i = 0; i < report->size; i++) {
        const struct mmul_report_rank *r = &report->ranks[i];
        double idle = report->wall_seconds > 0 ? r->idle_seconds / report->wall_seconds : 0;
        mmul_text_add(
            &table, "%d\t%s\t%s\t%d\t%lld\t%lld\t%.1f %%\t%.3f\t%.3f\t%.3f\t%.3f\t%.1f\t%.0f %%\t",
            i, r->host, r->device, r->threads, (long long)(r->end - r->begin),
            (long long)r->claimed_units, 100 * r->share, r->scatter_seconds, r->compute_seconds,
            r->verify_seconds, r->gather_seconds, rank_rate(r) * 1e-9, 100 * idle);
        mmul_text_add(&table, "%s%s%s\n", r->why, r->why[0] && r->note[0] ? "; " : "", r->note);
    }
    mmul_text_print_table(mmul_text_get(&table), stream);
    mmul_text_fini(&table);
}

static double startup_seconds(const struct mmul_startup *s) {
    return s->launch_seconds + s->discover_seconds + s->plan_seconds + s->measure_seconds +
           s->warm_up_seconds;
}

// What the wall time leaves out.
static void print_startup(const struct mmul_startup *s, FILE *stream) {
    fprintf(stream,
            "before that %.3f s: launch %.3f s, discovery %.3f s, planning %.3f s, measuring "
            "%.3f s, warm-up %.3f s\n",
            startup_seconds(s), s->launch_seconds, s->discover_seconds, s->plan_seconds,
            s->measure_seconds, s->warm_up_seconds);
}

static void print_totals(const struct mmul_report *report, FILE *stream) {
    char bytes[3][32];
    double eff = efficiency(report);
    fprintf(stream, "wall %.3f s  %.1f GFLOP/s", report->wall_seconds, total_rate(report) * 1e-9);
    if (eff > 0)
        fprintf(stream, "  %.0f %% of the devices' measured speed", 100 * eff);
    if (report->predicted_seconds > 0)
        fprintf(stream, "  (predicted %.3f s)", report->predicted_seconds);
    fputc('\n', stream);
    print_startup(&report->startup, stream);
    fprintf(stream, "read %s  written %s  over the network %s\n",
            mmul_bytes_format(report->bytes_read, bytes[0]),
            mmul_bytes_format(report->bytes_written, bytes[1]),
            mmul_bytes_format(report->network_bytes, bytes[2]));
    fprintf(stream, "used in place %s  shared memory %s\n",
            mmul_bytes_format(report->mapped_bytes, bytes[0]),
            mmul_bytes_format(report->segment_bytes, bytes[1]));
    if (report->faster[0] != '\0')
        fprintf(stream, "%s\n", report->faster);
    fprintf(stream, "check %s", check_result(report));
    if (report->verified)
        fprintf(stream, ": %lld lines checked, %lld wrong, %lld recomputed",
                (long long)report->lines_checked, (long long)report->lines_wrong,
                (long long)report->lines_recomputed);
    if (report->fallback_products > 0)
        fprintf(stream, "; %lld product%s done by another device",
                (long long)report->fallback_products, report->fallback_products == 1 ? "" : "s");
    fputc('\n', stream);
}

static void print_warm_up(const struct mmul_report *report, FILE *stream) {
    for (int i = 0; i < report->size; i++)
        if (report->ranks[i].warm_up_seconds >= 0.001)
            fprintf(stream, "warm-up of rank %d (%s): %.3f s, not counted above\n", i,
                    report->ranks[i].device, report->ranks[i].warm_up_seconds);
}

void mmul_report_print(const struct mmul_report *report, FILE *stream) {
    if (report->ranks == NULL)
        return;
    print_ranks(report, stream);
    print_totals(report, stream);
    print_warm_up(report, stream);
    fputs(mmul_text_get(&report->unused), stream);
}

static json_t *rank_json(const struct mmul_report *report, int i) {
    const struct mmul_report_rank *r = &report->ranks[i];
    json_t *value = json_pack(
        "{s:i, s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
        "rank", i, "host", r->host, "device", r->device, "device_name", r->device_name, "cores",
        r->cores, "threads", r->threads, "begin", (json_int_t)r->begin, "end", (json_int_t)r->end,
        "claimed", (json_int_t)r->claimed_units, "claims", (json_int_t)r->claims, "share", r->share,
        "warm_up_seconds", r->warm_up_seconds, "scatter_seconds", r->scatter_seconds,
        "compute_seconds", r->compute_seconds, "verify_seconds", r->verify_seconds,
        "gather_seconds", r->gather_seconds, "idle_seconds", r->idle_seconds);
    json_t *more = json_pack(
        "{s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s}", "flops", r->flops,
        "calibrated_flops_per_second", r->speed_flops, "products", (json_int_t)r->products,
        "fallback_products", (json_int_t)r->fallback_products, "device_replacements",
        (json_int_t)r->device_replacements, "lines_checked", (json_int_t)r->lines_checked,
        "lines_wrong", (json_int_t)r->lines_wrong, "lines_recomputed",
        (json_int_t)r->lines_recomputed, "note", r->note, "why", r->why);
    json_object_update(value, more);
    json_decref(more);
    return value;
}

static json_t *shape_json(struct mmul_shape s) {
    return json_pack("[I,I,I,I]", (json_int_t)s.batch, (json_int_t)s.depth, (json_int_t)s.rows,
                     (json_int_t)s.cols);
}

static json_t *problem_json(const struct mmul_problem *p) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:s, s:s, s:b, s:b, s:f, s:f, s:I, s:I, s:I, s:I}",
                     "a", mmul_json_text(p->a_name), "b", mmul_json_text(p->b_name), "a_shape",
                     shape_json(p->a), "b_shape", shape_json(p->b), "c_shape", shape_json(p->c),
                     "a_dtype", mmul_dtype_name(p->a_dtype), "b_dtype", mmul_dtype_name(p->b_dtype),
                     "transpose_a", p->transpose_a, "transpose_b", p->transpose_b, "alpha",
                     (double)p->alpha, "beta", (double)p->beta, "m", (json_int_t)p->m, "n",
                     (json_int_t)p->n, "k", (json_int_t)p->k, "matrices", (json_int_t)p->matrices);
}

static json_t *startup_json(const struct mmul_startup *s) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "launch_seconds", s->launch_seconds,
                     "discover_seconds", s->discover_seconds, "plan_seconds", s->plan_seconds,
                     "measure_seconds", s->measure_seconds, "warm_up_seconds", s->warm_up_seconds);
}

static json_t *lines_json(const struct mmul_report *report) {
    json_t *lines = json_array();
    for (int i = 0; i < report->warning_count; i++)
        json_array_append_new(lines, mmul_json_text(report->warning_lines[i]));
    return lines;
}

static json_t *check_json(const struct mmul_report *report) {
    return json_pack("{s:s, s:I, s:I, s:I}", "result", check_result(report), "lines_checked",
                     (json_int_t)report->lines_checked, "lines_wrong",
                     (json_int_t)report->lines_wrong, "lines_recomputed",
                     (json_int_t)report->lines_recomputed);
}

enum mmul_status mmul_report_json(const struct mmul_report *report, char **text,
                                  struct mmul_error *err) {
    json_t *ranks = json_array();
    for (int i = 0; report->ranks != NULL && i < report->size; i++)
        json_array_append_new(ranks, rank_json(report, i));
    json_t *root = json_pack(
        "{s:s, s:i, s:s, s:o, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "schema",
        "mpimatmul-report", "schema_version", 2, "version", MMUL_VERSION, "problem",
        problem_json(&report->problem), "split", report->axis == MMUL_ROWS ? "rows" : "cols",
        "total", (json_int_t)report->total, "wall_seconds", report->wall_seconds, "scatter_seconds",
        report->scatter_seconds, "compute_seconds", report->compute_seconds, "verify_seconds",
        report->verify_seconds, "gather_seconds", report->gather_seconds, "commit_seconds",
        report->commit_seconds, "predicted_seconds", report->predicted_seconds, "flops_per_second",
        total_rate(report), "efficiency", efficiency(report));
    json_t *more = json_pack(
        "{s:f, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:i, s:o, s:o, s:s}", "startup_seconds",
        startup_seconds(&report->startup), "startup", startup_json(&report->startup), "faster",
        report->faster, "mapped_bytes", (json_int_t)report->mapped_bytes, "segment_bytes",
        (json_int_t)report->segment_bytes, "bytes_read", (json_int_t)report->bytes_read,
        "bytes_written", (json_int_t)report->bytes_written, "network_bytes",
        (json_int_t)report->network_bytes, "fallback_products",
        (json_int_t)report->fallback_products, "check", check_json(report), "nodes",
        report->node_count, "ranks", ranks, "warnings", lines_json(report), "unused_devices",
        mmul_text_get(&report->unused));
    json_object_update(root, more);
    json_decref(more);
    enum mmul_status status = mmul_json_format(root, text, err);
    json_decref(root);
    return status;
}

enum mmul_status mmul_report_store(const struct mmul_report *report, const char *path,
                                   struct mmul_error *err) {
    char *text = NULL;
    enum mmul_status status = mmul_report_json(report, &text, err);
    if (status == MMUL_OK)
        status = mmul_text_store(path, text, err);
    mmul_free(text);
    return status;
}
