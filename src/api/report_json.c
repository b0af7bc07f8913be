// SPDX-License-Identifier: MIT
// The report as JSON; for one product with the fields of a product.
#include <math.h>
#include <time.h>

#include "api/texts.h"
#include "base/command_line.h"
#include "base/json.h"
#include "base/memory.h"
#include "model/report.h"

double mmul_report_rate(const struct mmul_report *report) {
    const double flops = report->is_product ? mmul_problem_flops(&report->problem) : report->flops;
    return report->wall_seconds > 0 ? flops / report->wall_seconds : 0;
}

double mmul_report_efficiency(const struct mmul_report *report) {
    double sum = 0;
    for (int i = 0; i < report->size; i++) {
        const struct mmul_report_rank *r = &report->ranks[i];
        if ((!report->is_product || r->end > r->begin) && !(r->speed_flops > 0))
            return 0;
        sum += r->speed_flops;
    }
    return sum > 0 ? mmul_report_rate(report) / sum : 0;
}

double mmul_report_units(const struct mmul_report *report, int64_t elements) {
    return (double)elements / (double)mmul_problem_result_width(&report->problem, report->axis);
}

static void add_phases(json_t *value, const struct mmul_report_rank *r) {
    json_t *phases = json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "setup_seconds", r->setup_seconds,
        "scatter_seconds", r->scatter_seconds, "compute_seconds", r->compute_seconds,
        "copy_seconds", r->copy_seconds, "verify_seconds", r->verify_seconds, "gather_seconds",
        r->gather_seconds, "idle_seconds", r->idle_seconds, "commit_seconds", r->commit_seconds);
    json_object_update(value, phases);
    json_decref(phases);
}

static void move_fields(json_t *value, json_t *more) {
    json_object_update(value, more);
    json_decref(more);
}

// Adds the rank's share of the product.
static json_t *share_json(const struct mmul_report *report, const struct mmul_report_rank *r) {
    return json_pack("{s:I, s:I, s:f, s:f, s:f, s:f, s:o}", "begin", (json_int_t)r->begin, "end",
                     (json_int_t)r->end, "claimed", mmul_report_units(report, r->elements_stolen),
                     "given", mmul_report_units(report, r->elements_stolen_from_it), "share",
                     r->share, "flops", r->flops, "why", mmul_json_from_text(r->why));
}

static json_t *rank_json(const struct mmul_report *report, int i) {
    const struct mmul_report_rank *r = &report->ranks[i];
    json_t *value = json_pack("{s:i, s:i, s:s, s:o, s:o, s:s, s:i, s:f}", "rank", i, "node",
                              r->node, "host", r->host, "device", mmul_json_from_text(r->device),
                              "device_name", mmul_json_from_text(r->device_name), "cores", r->cores,
                              "threads", r->threads, "warm_up_seconds", r->warm_up_seconds);
    if (report->is_product)
        move_fields(value, share_json(report, r));
    add_phases(value, r);
    json_object_set_new(value, "kernels", mmul_json_from_text(r->kernels));
    json_object_set_new(value, "kernels_setting", mmul_json_from_text(r->kernels_setting));
    json_object_set_new(value, "kernels_lack", mmul_json_from_text(r->kernels_unused_vectors));
    const bool is_measured = r->joules_source[0] != '\0';
    move_fields(value, json_pack("{s:o, s:s, s:o}", "joules",
                                 mmul_json_from_double(
                                     mmul_report_owns_joules(report, i) ? r->joules : NAN),
                                 "joules_source", r->joules_source, "joules_rank",
                                 is_measured ? json_integer(r->joules_rank) : json_null()));
    move_fields(value,
                json_pack("{s:f, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}",
                          "calibrated_flops_per_second", r->speed_flops, "speed_unstable",
                          r->speed_unstable, "products", (json_int_t)r->products, "claims",
                          (json_int_t)r->claims, "fallback_products",
                          (json_int_t)r->fallback_products, "device_replacements",
                          (json_int_t)r->device_replacements, "lines_checked",
                          (json_int_t)r->lines_checked, "lines_wrong", (json_int_t)r->lines_wrong,
                          "lines_recomputed", (json_int_t)r->lines_recomputed, "note",
                          mmul_json_from_text(r->note)));
    return value;
}

static json_t *operation_json(const struct mmul_report *report, int i) {
    const struct mmul_report_operation *o = &report->operations[i];
    json_t *ranks = json_array();
    for (int rank = 0; rank < report->size; rank++) {
        const struct mmul_report_part *p = &mmul_report_parts(report, rank)[i];
        json_array_append_new(
            ranks,
            json_pack(
                "{s:f, s:f, s:f, s:f, s:f, s:o, s:I, s:I, s:I, s:I, s:I}", "begin_seconds",
                p->begin, "end_seconds", p->end, "wait_seconds", p->wait_seconds, "work_seconds",
                p->work_seconds, "check_seconds", p->check_seconds, "joules",
                mmul_json_from_double(mmul_report_owns_joules(report, rank) ? p->joules : NAN),
                "part_bytes", (json_int_t)p->result_bytes, "uploaded_bytes",
                (json_int_t)p->uploaded_bytes, "downloaded_bytes", (json_int_t)p->downloaded_bytes,
                "memory_bytes", (json_int_t)p->memory_bytes, "device_bytes",
                (json_int_t)p->device_bytes));
    }
    return json_pack("{s:s, s:o, s:s, s:s, s:f, s:I, s:o}", "operation", o->name, "value",
                     mmul_json_from_text(o->value), "shape", o->shape, "placement", o->placement,
                     "predicted_seconds", o->predicted_seconds, "network_bytes",
                     (json_int_t)o->network_bytes, "ranks", ranks);
}

static json_t *shape_json(struct mmul_shape s) {
    return json_pack("[I,I,I,I]", (json_int_t)s.batch, (json_int_t)s.depth, (json_int_t)s.rows,
                     (json_int_t)s.cols);
}

static json_t *problem_json(const struct mmul_problem *p) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:s, s:s, s:b, s:b, s:f, s:f, s:I, s:I, s:I, s:I}",
                     "a", mmul_json_from_text(p->a_name), "b", mmul_json_from_text(p->b_name),
                     "a_shape", shape_json(p->a), "b_shape", shape_json(p->b), "c_shape",
                     shape_json(p->c), "a_dtype", mmul_dtype_name(p->a_dtype), "b_dtype",
                     mmul_dtype_name(p->b_dtype), "transpose_a", p->transpose_a, "transpose_b",
                     p->transpose_b, "alpha", (double)p->alpha, "beta", (double)p->beta, "m",
                     (json_int_t)p->m, "n", (json_int_t)p->n, "k", (json_int_t)p->k, "matrices",
                     (json_int_t)p->matrices);
}

static json_t *startup_json(const struct mmul_startup *s) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "launch_seconds", s->launch_seconds,
                     "discover_seconds", s->discover_seconds, "files_seconds", s->files_seconds,
                     "plan_seconds", s->plan_seconds, "measure_seconds", s->measure_seconds,
                     "warm_up_seconds", s->warm_up_seconds);
}

static json_t *lines_json(const struct mmul_report *report) {
    json_t *lines = json_array();
    for (int i = 0; i < report->warning_count; i++)
        json_array_append_new(lines, mmul_json_from_text(report->warning_lines[i]));
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

static json_t *resumed_json(const struct mmul_report *report) {
    if (report->resumed_lines == NULL)
        return json_null();
    return json_pack("{s:s, s:I, s:I}", "lines", report->resumed_lines, "complete",
                     (json_int_t)report->resumed_complete, "total",
                     (json_int_t)report->resumed_total);
}

// Adds the fields of the product.
static json_t *product_json(const struct mmul_report *report) {
    return json_pack(
        "{s:o, s:s, s:I, s:s, s:I, s:I, s:o}", "problem", problem_json(&report->problem), "split",
        report->axis == MMUL_ROWS ? "rows" : "cols", "total", (json_int_t)report->total, "faster",
        report->speed_hint, "bytes_read", (json_int_t)report->bytes_read, "bytes_written",
        (json_int_t)report->bytes_written, "resumed", resumed_json(report));
}

static json_t *sent_json(const struct mmul_report *report) {
    json_t *all = json_array();
    for (int from = 0; from < report->node_count; from++) {
        json_t *row = json_array();
        for (int to = 0; to < report->node_count; to++)
            json_array_append_new(
                row,
                json_integer(report->sent_bytes != NULL
                                 ? (json_int_t)report->sent_bytes[from * report->node_count + to]
                                 : 0));
        json_array_append_new(all, row);
    }
    return all;
}

static json_t *make_list(const struct mmul_report *report, int count,
                         json_t *(*one)(const struct mmul_report *report, int i)) {
    json_t *all = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(all, one(report, i));
    return all;
}

// Adds the command and the time. A report is written immediately after its run.
static json_t *origin_json(const struct mmul_report *report) {
    char command[1024], now[32] = "";
    const time_t seconds = time(NULL);
    struct tm parts;
    mmul_command_line(command, sizeof command);
    if (gmtime_r(&seconds, &parts) != NULL)
        strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return json_pack("{s:o, s:o, s:s}", "command", mmul_json_from_text(command), "program",
                     report->text_name[0] != '\0' ? mmul_json_from_text(report->text_name)
                                                  : json_null(),
                     "written_at", now);
}

enum mmul_status mmul_report_json(const struct mmul_report *report, char **text,
                                  struct mmul_error *err) {
    json_t *root = json_pack("{s:s, s:i, s:s}", "schema", "mpimatmul-report", "schema_version",
                             MMUL_REPORT_VERSION, "version", MMUL_VERSION);
    move_fields(root, origin_json(report));
    if (report->is_product)
        move_fields(root, product_json(report));
    move_fields(root,
                json_pack("{s:f, s:o, s:f, s:i, s:f, s:i, s:f, s:f, s:f}", "startup_seconds",
                          mmul_startup_seconds(&report->startup), "startup",
                          startup_json(&report->startup), "wall_seconds", report->wall_seconds,
                          "last_rank", report->last_rank, "predicted_seconds",
                          report->predicted_seconds, "steps", report->step_count, "flops",
                          report->flops, "flops_per_second", mmul_report_rate(report), "efficiency",
                          mmul_report_efficiency(report)));
    if (report->ranks != NULL)
        add_phases(root, &report->ranks[report->last_rank]);
    move_fields(root,
                json_pack("{s:I, s:I, s:I, s:I, s:o, s:I, s:o, s:i, s:o, s:o, s:o, s:o}",
                          "memory_bytes", (json_int_t)report->memory_bytes, "mapped_bytes",
                          (json_int_t)report->mapped_bytes, "segment_bytes",
                          (json_int_t)report->segment_bytes, "network_bytes",
                          (json_int_t)report->network_bytes, "sent_bytes", sent_json(report),
                          "fallback_products", (json_int_t)report->fallback_products, "check",
                          check_json(report), "nodes", report->node_count, "ranks",
                          make_list(report, report->ranks != NULL ? report->size : 0, rank_json),
                          "operations", make_list(report, report->operation_count, operation_json),
                          "warnings", lines_json(report), "unused_devices",
                          mmul_json_from_text(mmul_text_get(&report->unused))));
    json_object_set_new(root, "joules", mmul_json_from_double(mmul_report_joules(report)));
    if (report->before.programs > 0)
        json_object_set_new(root, "before", mmul_programs_json(&report->before));
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
