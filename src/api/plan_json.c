// SPDX-License-Identifier: MIT
// The plan for programs. Computes nothing; schema_version changes when a meaning does, not when
// keys are added.
#include "api/plan_output.h"
#include "plan/lists/schedule.h"

static json_t *rank_json(const struct mmul_plan *plan, int rank) {
    const struct mmul_plan_rank *r = &mmul_plan_ranks(plan)[rank];
    return json_pack("{s:i, s:o, s:o, s:I, s:I, s:f, s:I, s:[I,I,I], s:I, s:I, s:f, s:f, s:o}",
                     "rank", rank, "host", mmul_json_text(mmul_plan_nodes(plan)[r->node].host),
                     "device", mmul_json_text(r->device), "begin", (json_int_t)r->begin, "end",
                     (json_int_t)r->end, "weight", r->weight, "panels",
                     (json_int_t)mmul_schedule_steps_of(plan, rank), "tile", (json_int_t)r->tile.m,
                     (json_int_t)r->tile.n, (json_int_t)r->tile.k, "host_bytes",
                     (json_int_t)r->host_bytes, "device_bytes", (json_int_t)r->tile.device_bytes,
                     "predicted_compute_seconds", r->compute_seconds, "predicted_finish_seconds",
                     r->finish_seconds, "note", mmul_json_text(r->why));
}

static json_t *maps_json(unsigned maps) {
    static const char *const names[] = {"A", "B", "C_in", "C"};
    json_t *list = json_array();
    for (int i = 0; i < 4; i++)
        if (maps & 1u << i)
            json_array_append_new(list, json_string(names[i]));
    return list;
}

static json_t *node_json(const struct mmul_plan_node *n) {
    return json_pack(
        "{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:i, s:I, s:b, s:I, s:i}", "host",
        mmul_json_text(n->host), "whole_bytes", (json_int_t)n->whole_bytes, "piece_bytes",
        (json_int_t)n->piece_bytes, "c_in_bytes", (json_int_t)n->c_in_bytes, "result_bytes",
        (json_int_t)n->result_bytes, "segment_bytes", (json_int_t)n->segment_bytes, "private_bytes",
        (json_int_t)n->private_bytes, "network_bytes", (json_int_t)n->network_bytes, "memory_bytes",
        (json_int_t)n->memory_bytes, "maps", maps_json(n->maps), "piece_lanes", n->piece_lanes,
        "whole_slots", (json_int_t)n->whole_slots, "whole_stays", n->whole_stays, "result_slots",
        (json_int_t)n->result_slots, "chain_place", n->chain_place);
}

static json_t *list_json(const struct mmul_plan *plan, bool ranks) {
    json_t *list = json_array();
    for (int i = 0; i < (ranks ? plan->size : plan->node_count); i++)
        json_array_append_new(list,
                              ranks ? rank_json(plan, i) : node_json(&mmul_plan_nodes(plan)[i]));
    return list;
}

static json_t *cut_json(const struct mmul_plan *plan) {
    return json_pack("{s:I, s:I, s:I, s:I, s:f}", "rounds", (json_int_t)plan->rounds, "panels",
                     (json_int_t)mmul_schedule_panels(plan), "panel_units",
                     (json_int_t)plan->panel_units, "panel_matrices",
                     (json_int_t)plan->panel_matrices, "claim_share", plan->claim_share);
}

json_t *mmul_plan_json_value(const struct mmul_plan *plan) {
    const struct mmul_problem *p = &plan->problem;
    json_t *root = json_pack(
        "{s:s, s:i, s:I, s:I, s:I, s:I, s:s, s:b, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, "
        "s:s, "
        "s:s}",
        "schema", "mpimatmul-plan", "schema_version", 2, "m", (json_int_t)p->m, "n",
        (json_int_t)p->n, "k", (json_int_t)p->k, "matrices", (json_int_t)p->matrices, "split",
        plan->axis == MMUL_ROWS ? "rows" : "cols", "split_chosen", plan->axis_chosen, "total",
        (json_int_t)plan->total, "network_bytes_by_rows", (json_int_t)plan->rows_bytes_moved,
        "network_bytes_by_cols", (json_int_t)plan->cols_bytes_moved, "root_link_bytes",
        (json_int_t)plan->root_bytes, "assumed_link_bytes_per_second", plan->link_bytes_per_second,
        "predicted_seconds", plan->predicted_seconds, "predicted_compute_seconds",
        plan->compute_seconds, "predicted_waiting_seconds", plan->waiting_seconds,
        "predicted_transfer_seconds", plan->transfer_seconds, "limit", plan->limits, "faster",
        plan->faster);
    json_object_update_new(root, cut_json(plan));
    json_object_set_new(root, "ranks", list_json(plan, true));
    json_object_set_new(root, "nodes", list_json(plan, false));
    return root;
}

enum mmul_status mmul_plan_json(const struct mmul_plan *plan, char **text, struct mmul_error *err) {
    json_t *root = mmul_plan_json_value(plan);
    enum mmul_status status = mmul_json_format(root, text, err);
    json_decref(root);
    return status;
}
