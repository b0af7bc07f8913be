// SPDX-License-Identifier: MIT
// The report for people and for programs. Only turns numbers into text.
#include <math.h>

#include "base/json.h"
#include "base/memory.h"
#include "model/report.h"

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

static bool is_unstable(const struct mmul_report *report) {
    for (int i = 0; i < report->size; i++)
        if (report->ranks[i].speed_unstable)
            return true;
    return false;
}

// What a user has to know of a rank: why it has few rows or none, and who replaced its device. What
// `devices` says too is a detail. Returns `text`.
static const char *note_of(const struct mmul_report_rank *r, bool verbose, char text[static 224]) {
    const char *note = verbose || r->device_replacements > 0 ? r->note : "";
    snprintf(text, 224, "%s%s%s", r->why, r->why[0] && note[0] ? "; " : "", note);
    return text;
}

// Whole rows (or columns) that ranks [0, count) computed: claims are parts of rows, and what is printed
// adds up.
static int64_t units_of_first(const struct mmul_report *report, int count) {
    int64_t width = mmul_problem_result_width(&report->problem, report->axis), elements = 0;
    for (int i = 0; i < count; i++) {
        const struct mmul_report_rank *r = &report->ranks[i];
        elements += (r->end - r->begin) * width + r->claimed_elements - r->given_elements;
    }
    return (elements + width / 2) / width;
}

static double units_of(const struct mmul_report *report, int64_t elements) {
    return (double)elements / (double)mmul_problem_result_width(&report->problem, report->axis);
}

// The columns from set-up to commit are seconds and add up to the wall time.
static void print_ranks(const struct mmul_report *report, bool verbose, FILE *stream) {
    struct mmul_text table = {0};
    char note[224];
    bool any_note = false;
    for (int i = 0; i < report->size; i++)
        any_note |= note_of(&report->ranks[i], verbose, note)[0] != '\0';
    mmul_text_add(&table,
                  "rank\thost\tdevice\t%s%s\tshare\tset-up\tscatter\tcompute\tcheck\tgather\tidle\t"
                  "commit\tGFLOP/s%s\n",
                  verbose ? "threads\t" : "", report->axis == MMUL_ROWS ? "rows" : "cols",
                  any_note ? "\tnote" : "");
    for (int i = 0; i < report->size; i++) {
        const struct mmul_report_rank *r = &report->ranks[i];
        mmul_text_add(&table, "%d\t%s\t%s\t", i, r->host, r->device);
        if (verbose)
            mmul_text_add(&table, "%d\t", r->threads);
        mmul_text_add(&table, "%lld",
                      (long long)(units_of_first(report, i + 1) - units_of_first(report, i)));
        if (r->claims > 0)
            mmul_text_add(&table, " (%.0f claimed late)",
                          ceil(units_of(report, r->claimed_elements)));
        mmul_text_add(&table, "\t%.1f %%\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.1f",
                      100 * r->share, r->setup_seconds, r->scatter_seconds, r->compute_seconds,
                      r->verify_seconds, r->gather_seconds, r->idle_seconds, r->commit_seconds,
                      rank_rate(r) * 1e-9);
        mmul_text_add(&table, any_note ? "\t%s\n" : "%s\n", note_of(r, verbose, note));
    }
    mmul_text_print_table(mmul_text_get(&table), stream);
    mmul_text_fini(&table);
}

// What the wall time leaves out.
static void print_startup(const struct mmul_startup *s, FILE *stream) {
    fprintf(stream,
            "before that %.3f s: launch %.3f s, discovery %.3f s, planning %.3f s, measuring "
            "%.3f s, warm-up %.3f s\n",
            mmul_startup_seconds(s), s->launch_seconds, s->discover_seconds, s->plan_seconds,
            s->measure_seconds, s->warm_up_seconds);
}

static const char *plural(int64_t count) {
    return count == 1 ? "" : "s";
}

static void print_check(const struct mmul_report *report, FILE *stream) {
    if (report->verified)
        fprintf(stream, "result verified (Freivalds), %lld block%s recomputed",
                (long long)report->blocks_recomputed, plural(report->blocks_recomputed));
    else
        fputs("result not verified", stream);
    if (report->fallback_products > 0)
        fprintf(stream, "; %lld product%s done by another device",
                (long long)report->fallback_products, plural(report->fallback_products));
    fputc('\n', stream);
}

static void print_totals(const struct mmul_report *report, FILE *stream) {
    char bytes[3][32];
    double eff = efficiency(report);
    fprintf(stream, "wall %.3f s", report->wall_seconds);
    if (report->size > 1)
        fprintf(stream, " (rank %d ended last)", report->last_rank);
    fprintf(stream, "  %.1f GFLOP/s", total_rate(report) * 1e-9);
    if (eff > 0 && is_unstable(report))
        fputs("  (the devices' speeds were measured, but unstable)", stream);
    else if (eff > 1)
        fputs("  (more than the devices' measured speed)", stream);
    else if (eff > 0)
        fprintf(stream, "  %.0f %% of the devices' measured speed", 100 * eff);
    if (report->predicted_seconds > 0)
        fprintf(stream, "  (predicted %.3f s)", report->predicted_seconds);
    fputc('\n', stream);
    print_startup(&report->startup, stream);
    fprintf(stream, "read %s  written %s  over the network %s\n",
            mmul_bytes_format(report->bytes_read, bytes[0]),
            mmul_bytes_format(report->bytes_written, bytes[1]),
            mmul_bytes_format(report->network_bytes, bytes[2]));
    if (report->faster[0] != '\0')
        fprintf(stream, "%s\n", report->faster);
    print_check(report, stream);
}

static void print_details(const struct mmul_report *report, FILE *stream) {
    char bytes[2][32];
    fprintf(stream, "used in place %s  shared memory %s\n",
            mmul_bytes_format(report->mapped_bytes, bytes[0]),
            mmul_bytes_format(report->segment_bytes, bytes[1]));
    if (report->verified)
        fprintf(stream, "check: %lld lines checked, %lld wrong, %lld recomputed, seed %llu\n",
                (long long)report->lines_checked, (long long)report->lines_wrong,
                (long long)report->lines_recomputed, (unsigned long long)report->verify_seed);
    for (int i = 0; i < report->size; i++)
        if (report->ranks[i].warm_up_seconds >= 0.001)
            fprintf(stream, "warm-up of rank %d (%s): %.3f s\n", i, report->ranks[i].device,
                    report->ranks[i].warm_up_seconds);
    fputs(mmul_text_get(&report->unused), stream);
}

void mmul_report_print(const struct mmul_report *report, bool verbose, FILE *stream) {
    if (report->ranks == NULL)
        return;
    print_ranks(report, verbose, stream);
    print_totals(report, stream);
    if (verbose)
        print_details(report, stream);
}

// ------------------------------------------------------------------------------------------ JSON

static void add_phases(json_t *value, const struct mmul_report_rank *r) {
    json_t *phases =
        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "setup_seconds", r->setup_seconds,
                  "scatter_seconds", r->scatter_seconds, "compute_seconds", r->compute_seconds,
                  "verify_seconds", r->verify_seconds, "gather_seconds", r->gather_seconds,
                  "idle_seconds", r->idle_seconds, "commit_seconds", r->commit_seconds);
    json_object_update(value, phases);
    json_decref(phases);
}

static json_t *rank_json(const struct mmul_report *report, int i) {
    const struct mmul_report_rank *r = &report->ranks[i];
    json_t *value = json_pack(
        "{s:i, s:s, s:o, s:o, s:s, s:i, s:I, s:I, s:f, s:I, s:f, s:f, s:f}", "rank", i, "host",
        r->host, "device", mmul_json_text(r->device), "device_name", mmul_json_text(r->device_name),
        "cores", r->cores, "threads", r->threads, "begin", (json_int_t)r->begin, "end",
        (json_int_t)r->end, "claimed", units_of(report, r->claimed_elements), "claims",
        (json_int_t)r->claims, "given", units_of(report, r->given_elements), "share", r->share,
        "warm_up_seconds", r->warm_up_seconds);
    add_phases(value, r);
    json_object_set_new(value, "kernels", mmul_json_text(r->kernels));
    json_object_set_new(value, "kernels_setting", mmul_json_text(r->kernels_setting));
    json_object_set_new(value, "kernels_lack", mmul_json_text(r->kernels_lack));
    json_t *more = json_pack(
        "{s:f, s:f, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "flops", r->flops,
        "calibrated_flops_per_second", r->speed_flops, "speed_unstable", r->speed_unstable,
        "products", (json_int_t)r->products, "fallback_products", (json_int_t)r->fallback_products,
        "device_replacements", (json_int_t)r->device_replacements, "lines_checked",
        (json_int_t)r->lines_checked, "lines_wrong", (json_int_t)r->lines_wrong, "lines_recomputed",
        (json_int_t)r->lines_recomputed, "note", mmul_json_text(r->note), "why",
        mmul_json_text(r->why));
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
    const char *result = !report->verified               ? "off"
                         : report->blocks_recomputed > 0 ? "passed after recomputation"
                                                         : "passed";
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "result", result, "blocks_recomputed",
                     (json_int_t)report->blocks_recomputed, "lines_checked",
                     (json_int_t)report->lines_checked, "lines_wrong",
                     (json_int_t)report->lines_wrong, "lines_recomputed",
                     (json_int_t)report->lines_recomputed, "seed", (json_int_t)report->verify_seed);
}

enum mmul_status mmul_report_json(const struct mmul_report *report, char **text,
                                  struct mmul_error *err) {
    json_t *ranks = json_array();
    for (int i = 0; report->ranks != NULL && i < report->size; i++)
        json_array_append_new(ranks, rank_json(report, i));
    json_t *root = json_pack(
        "{s:s, s:i, s:s, s:o, s:s, s:I, s:f, s:i, s:f, s:f, s:f}", "schema", "mpimatmul-report",
        "schema_version", 4, "version", MMUL_VERSION, "problem", problem_json(&report->problem),
        "split", report->axis == MMUL_ROWS ? "rows" : "cols", "total", (json_int_t)report->total,
        "wall_seconds", report->wall_seconds, "last_rank", report->last_rank, "predicted_seconds",
        report->predicted_seconds, "flops_per_second", total_rate(report), "efficiency",
        efficiency(report));
    if (report->ranks != NULL)
        add_phases(root, &report->ranks[report->last_rank]);
    json_t *more = json_pack(
        "{s:f, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:i, s:o, s:o, s:o}", "startup_seconds",
        mmul_startup_seconds(&report->startup), "startup", startup_json(&report->startup), "faster",
        report->faster, "mapped_bytes", (json_int_t)report->mapped_bytes, "segment_bytes",
        (json_int_t)report->segment_bytes, "bytes_read", (json_int_t)report->bytes_read,
        "bytes_written", (json_int_t)report->bytes_written, "network_bytes",
        (json_int_t)report->network_bytes, "fallback_products",
        (json_int_t)report->fallback_products, "check", check_json(report), "nodes",
        report->node_count, "ranks", ranks, "warnings", lines_json(report), "unused_devices",
        mmul_json_text(mmul_text_get(&report->unused)));
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
