// SPDX-License-Identifier: MIT
// The plan as JSON. Computes nothing. schema_version changes when a field changes meaning, not when
// keys are added.
#include "api/plan_output.h"
#include "plan/lists/schedule.h"

static json_t *rank_json(const struct mmul_schedule *schedule, int rank) {
    const struct mmul_schedule_rank *r = &mmul_schedule_ranks(schedule)[rank];
    return json_pack(
        "{s:i, s:o, s:o, s:I, s:I, s:f, s:I, s:[I,I,I], s:I, s:I, s:f, s:f, s:o}", "rank", rank,
        "host", mmul_json_from_text(mmul_schedule_nodes(schedule)[r->node].host), "device",
        mmul_json_from_text(r->device), "begin", (json_int_t)r->begin, "end", (json_int_t)r->end,
        "weight", r->weight, "panels", (json_int_t)mmul_schedule_passes_of(schedule, rank), "tile",
        (json_int_t)r->tile.m, (json_int_t)r->tile.n, (json_int_t)r->tile.k, "host_bytes",
        (json_int_t)r->host_bytes, "device_bytes", (json_int_t)r->tile.device_bytes,
        "predicted_compute_seconds", r->compute_seconds, "predicted_finish_seconds",
        r->finish_seconds, "note", mmul_json_from_text(r->why));
}

static json_t *maps_json(unsigned maps) {
    static const char *const names[] = {"A", "B", "C_in", "C"};
    json_t *list = json_array();
    for (int i = 0; i < 4; i++)
        if (maps & 1u << i)
            json_array_append_new(list, json_string(names[i]));
    return list;
}

static json_t *node_json(const struct mmul_schedule_node *n) {
    return json_pack(
        "{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:i, s:I, s:b, s:I, s:i}", "host",
        mmul_json_from_text(n->host), "whole_bytes", (json_int_t)n->whole_bytes, "piece_bytes",
        (json_int_t)n->piece_bytes, "c_in_bytes", (json_int_t)n->c_in_bytes, "result_bytes",
        (json_int_t)n->result_bytes, "segment_bytes", (json_int_t)n->segment_bytes, "private_bytes",
        (json_int_t)n->private_bytes, "network_bytes", (json_int_t)n->network_bytes, "memory_bytes",
        (json_int_t)n->memory_bytes, "maps", maps_json(n->maps), "piece_lanes", n->piece_lanes,
        "whole_slots", (json_int_t)n->whole_slots, "whole_stays", n->whole_stays, "result_slots",
        (json_int_t)n->result_slots, "chain_place", n->chain_place);
}

static json_t *list_json(const struct mmul_schedule *schedule, bool ranks) {
    json_t *list = json_array();
    for (int i = 0; i < (ranks ? schedule->size : schedule->node_count); i++)
        json_array_append_new(list, ranks ? rank_json(schedule, i)
                                          : node_json(&mmul_schedule_nodes(schedule)[i]));
    return list;
}

static json_t *cut_json(const struct mmul_schedule *schedule) {
    return json_pack("{s:I, s:I, s:I, s:I, s:f}", "rounds", (json_int_t)schedule->rounds, "panels",
                     (json_int_t)mmul_schedule_panels(schedule), "panel_units",
                     (json_int_t)schedule->panel_units, "panel_matrices",
                     (json_int_t)schedule->panel_matrices, "claim_share", schedule->claim_share);
}

json_t *mmul_schedule_json(const struct mmul_schedule *schedule) {
    const struct mmul_problem *p = &schedule->problem;
    json_t *root = json_pack(
        "{s:s, s:i, s:I, s:I, s:I, s:I, s:s, s:b, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, "
        "s:s, "
        "s:s}",
        "schema", "mpimatmul-plan", "schema_version", 2, "m", (json_int_t)p->m, "n",
        (json_int_t)p->n, "k", (json_int_t)p->k, "matrices", (json_int_t)p->matrices, "split",
        schedule->axis == MMUL_ROWS ? "rows" : "cols", "split_chosen", schedule->axis_chosen,
        "total", (json_int_t)schedule->total, "network_bytes_by_rows",
        (json_int_t)schedule->rows_bytes_moved, "network_bytes_by_cols",
        (json_int_t)schedule->cols_bytes_moved, "root_link_bytes", (json_int_t)schedule->root_bytes,
        "assumed_link_bytes_per_second", schedule->link_bytes_per_second, "predicted_seconds",
        schedule->predicted_seconds, "predicted_compute_seconds", schedule->compute_seconds,
        "predicted_waiting_seconds", schedule->waiting_seconds, "predicted_transfer_seconds",
        schedule->transfer_seconds, "limit", schedule->limits, "faster", schedule->speed_hint);
    json_object_update_new(root, cut_json(schedule));
    json_object_set_new(root, "ranks", list_json(schedule, true));
    json_object_set_new(root, "nodes", list_json(schedule, false));
    return root;
}

enum mmul_status mmul_plan_json(const struct mmul_plan *plan, char **text, struct mmul_error *err) {
    json_t *root = mmul_schedule_json(plan->schedule);
    enum mmul_status status = mmul_json_format(root, text, err);
    json_decref(root);
    return status;
}
