// SPDX-License-Identifier: MIT
// The plan for people (tables) and for programs (JSON). Computes nothing.
#include "mpimatmul_local.h"

#include "base/json.h"
#include "base/text.h"
#include "plan/plan.h"

static const char *axis_name(const struct mmul_plan *plan) {
    return plan->axis == MMUL_ROWS ? "rows" : "cols";
}

static double percent(const struct mmul_plan *plan, const struct mmul_plan_rank *rank) {
    return 100.0 * (double)(rank->end - rank->begin) / (double)plan->total;
}

static void print_heading(const struct mmul_plan *plan, FILE *stream) {
    const struct mmul_problem *p = &plan->problem;
    char shape[96], moved[2][32];
    fprintf(stream, "C = %g op(A) op(B) + %g C: %s%s x %s%s -> %s, m n k = %lld %lld %lld\n",
            (double)p->alpha, (double)p->beta, p->a_name, p->transpose_a ? "^T" : "", p->b_name,
            p->transpose_b ? "^T" : "", mmul_shape_format(p->c, shape), (long long)p->m,
            (long long)p->n, (long long)p->k);
    fprintf(stream,
            "split by %s%s: operand bytes over the network %s by rows, %s by columns; whole: %s\n",
            axis_name(plan), plan->axis_chosen ? " (chosen)" : "",
            mmul_bytes_format(plan->rows_bytes_moved, moved[0]),
            mmul_bytes_format(plan->cols_bytes_moved, moved[1]),
            plan->axis == MMUL_ROWS ? "B" : "A");
}

static void print_ranks(const struct mmul_plan *plan, FILE *stream) {
    struct mmul_text table = {0};
    char host[32], device[32];
    mmul_text_add(&table,
                  "rank\thost\tdevice\t%s\tshare\tpanels\ttile m x n x k\thost memory\t"
                  "device memory\tpredicted\tnote\n",
                  axis_name(plan));
    for (int i = 0; i < plan->size; i++) {
        const struct mmul_plan_rank *r = &mmul_plan_ranks(plan)[i];
        mmul_text_add(&table, "%d\t%s\t%s\t%lld-%lld\t%.1f %%\t%d\t%lld x %lld x %lld\t%s\t%s\t", i,
                      mmul_plan_nodes(plan)[r->node].host, r->device, (long long)r->begin,
                      (long long)r->end, percent(plan, r), r->end > r->begin ? 1 : 0,
                      (long long)r->tile.m, (long long)r->tile.n, (long long)r->tile.k,
                      mmul_bytes_format(r->host_bytes, host),
                      mmul_bytes_format(r->tile.device_bytes, device));
        if (r->compute_seconds > 0)
            mmul_text_add(&table, "%.3f s\t%s\n", r->compute_seconds, r->why);
        else
            mmul_text_add(&table, "-\t%s\n", r->why);
    }
    mmul_text_print_table(mmul_text_get(&table), stream);
    mmul_text_fini(&table);
}

static void print_nodes(const struct mmul_plan *plan, FILE *stream) {
    struct mmul_text table = {0};
    char text[5][32];
    mmul_text_add(&table, "node\twhole operand\tpieces\tresult\tin all\tover the network\t"
                          "may use\n");
    for (int i = 0; i < plan->node_count; i++) {
        const struct mmul_plan_node *n = &mmul_plan_nodes(plan)[i];
        mmul_text_add(&table, "%s\t%s\t%s\t%s\t%s\t%s\t", n->host,
                      mmul_bytes_format(n->whole_bytes, text[0]),
                      mmul_bytes_format(n->piece_bytes + n->c_in_bytes, text[1]),
                      mmul_bytes_format(n->result_bytes, text[2]),
                      mmul_bytes_format(n->segment_bytes + n->private_bytes, text[3]),
                      mmul_bytes_format(n->network_bytes, text[4]));
        mmul_text_add(&table, "%s\n", mmul_bytes_format(n->memory_bytes, text[0]));
    }
    mmul_text_print_table(mmul_text_get(&table), stream);
    mmul_text_fini(&table);
}

void mmul_plan_print(const struct mmul_plan *plan, FILE *stream) {
    print_heading(plan, stream);
    print_ranks(plan, stream);
    print_nodes(plan, stream);
    if (plan->compute_seconds > 0)
        fprintf(stream, "predicted: %.3f s (compute %.3f s, moving bytes %.3f s); limit: %s\n",
                plan->compute_seconds + plan->transfer_seconds, plan->compute_seconds,
                plan->transfer_seconds, plan->limits);
    else
        fprintf(stream, "predicted: moving bytes %.3f s; device speeds not measured\n",
                plan->transfer_seconds);
}

static json_t *rank_json(const struct mmul_plan *plan, int rank) {
    const struct mmul_plan_rank *r = &mmul_plan_ranks(plan)[rank];
    return json_pack("{s:i, s:s, s:s, s:I, s:I, s:f, s:i, s:[I,I,I], s:I, s:I, s:f, s:s}", "rank",
                     rank, "host", mmul_plan_nodes(plan)[r->node].host, "device", r->device,
                     "begin", (json_int_t)r->begin, "end", (json_int_t)r->end, "weight", r->weight,
                     "panels", r->end > r->begin ? 1 : 0, "tile", (json_int_t)r->tile.m,
                     (json_int_t)r->tile.n, (json_int_t)r->tile.k, "host_bytes",
                     (json_int_t)r->host_bytes, "device_bytes", (json_int_t)r->tile.device_bytes,
                     "predicted_compute_seconds", r->compute_seconds, "note", r->why);
}

static json_t *node_json(const struct mmul_plan_node *n) {
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "host", n->host, "whole_bytes",
        (json_int_t)n->whole_bytes, "piece_bytes", (json_int_t)n->piece_bytes, "c_in_bytes",
        (json_int_t)n->c_in_bytes, "result_bytes", (json_int_t)n->result_bytes, "segment_bytes",
        (json_int_t)n->segment_bytes, "private_bytes", (json_int_t)n->private_bytes,
        "network_bytes", (json_int_t)n->network_bytes, "memory_bytes", (json_int_t)n->memory_bytes);
}

enum mmul_status mmul_plan_json(const struct mmul_plan *plan, char **text, struct mmul_error *err) {
    const struct mmul_problem *p = &plan->problem;
    json_t *ranks = json_array(), *nodes = json_array();
    for (int i = 0; i < plan->size; i++)
        json_array_append_new(ranks, rank_json(plan, i));
    for (int i = 0; i < plan->node_count; i++)
        json_array_append_new(nodes, node_json(&mmul_plan_nodes(plan)[i]));
    json_t *root = json_pack(
        "{s:s, s:i, s:I, s:I, s:I, s:I, s:s, s:b, s:I, s:I, s:I, s:f, s:f, s:f, s:s, "
        "s:o, s:o}",
        "schema", "mpimatmul-plan", "schema_version", 1, "m", (json_int_t)p->m, "n",
        (json_int_t)p->n, "k", (json_int_t)p->k, "matrices", (json_int_t)p->matrices, "split",
        axis_name(plan), "split_chosen", plan->axis_chosen, "total", (json_int_t)plan->total,
        "network_bytes_by_rows", (json_int_t)plan->rows_bytes_moved, "network_bytes_by_cols",
        (json_int_t)plan->cols_bytes_moved, "assumed_link_bytes_per_second",
        plan->link_bytes_per_second, "predicted_compute_seconds", plan->compute_seconds,
        "predicted_transfer_seconds", plan->transfer_seconds, "limit", plan->limits, "ranks", ranks,
        "nodes", nodes);
    enum mmul_status status = mmul_json_format(root, text, err);
    json_decref(root);
    return status;
}
