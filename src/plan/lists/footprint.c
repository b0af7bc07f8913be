// SPDX-License-Identifier: MIT
// Tracks the largest request of all stages. Allocates nothing.
#include "plan/lists/footprint.h"

#include "base/integer.h"
#include "model/check.h"
#include "model/dtype.h"
#include "plan/parts/panels.h"

enum { PAGE = 4096 };

// ------------------------------------------------------------------------------------- the segment

int64_t mmul_page_ceiling(int64_t bytes) {
    return mmul_divide_up(bytes, PAGE) * PAGE;
}

int mmul_segment_size_add(struct mmul_segment_size *size, enum mmul_segment_user user,
                          int64_t bytes) {
    const int part = user == MMUL_SEGMENT_PRODUCT ? size->products++ % 2
                     : user == MMUL_SEGMENT_EARLY ? 4 + size->early++ % MMUL_SEGMENT_EARLY_PARTS
                                                  : 2 + size->stages % 2;
    size->stages++;
    size->sizes[part] = mmul_max(size->sizes[part], bytes);
    return part;
}

int64_t mmul_segment_size_bytes(const struct mmul_segment_size *size, int ranks,
                                int64_t begins[MMUL_SEGMENT_PARTS]) {
    const int64_t run = MMUL_RUN_COUNTERS + (int64_t)ranks * MMUL_RUN_COUNTERS_EACH,
                  stage = MMUL_STAGE_COUNTERS + (int64_t)ranks * MMUL_STAGE_COUNTERS_EACH;
    int64_t at = mmul_page_ceiling(run + size->stages * stage);
    for (int i = 0; i < MMUL_SEGMENT_PARTS; i++) {
        if (begins != NULL)
            begins[i] = at;
        at += size->sizes[i];
    }
    return at;
}

int64_t mmul_schedule_lanes_bytes(const struct mmul_schedule_node *node) {
    if (node->result_bytes == 0)
        return 0;
    const int64_t lane =
        mmul_page_ceiling(node->piece_lane_bytes) + mmul_page_ceiling(node->c_in_lane_bytes);
    return node->piece_lanes * lane +
           node->whole_slots * mmul_page_ceiling(node->whole_slot_bytes) +
           node->result_slots * mmul_page_ceiling(node->result_slot_bytes);
}

// --------------------------------------------------------------------------------------- the check

int64_t mmul_schedule_lines_most(const struct mmul_schedule *schedule, int rank) {
    const struct mmul_schedule_rank *r = &mmul_schedule_ranks(schedule)[rank];
    return mmul_min(mmul_divide_up(r->end - r->begin, schedule->rounds),
                    mmul_problem_units(&schedule->problem, schedule->axis));
}

// Returns the bytes of one line of A and of C. Rows alone are stolen.
static int64_t loan_line_bytes(const struct mmul_schedule *schedule) {
    const struct mmul_problem *p = &schedule->problem;
    return mmul_problem_split_unit_bytes(p, MMUL_ROWS) +
           mmul_problem_result_unit_bytes(p, schedule->axis);
}

// Three quarters of the rank's lines are enough: a rank that is four times slower than an equally
// fast rank assumes gives up two thirds.
int64_t mmul_schedule_stolen_lines_most(const struct mmul_schedule *schedule, int rank) {
    const int64_t most_bytes = 128 << 20;
    const int64_t lines = mmul_divide_up(mmul_schedule_lines_most(schedule, rank) * 3, 4);
    return schedule->may_steal ? mmul_min(lines, most_bytes / loan_line_bytes(schedule)) : 0;
}

int64_t mmul_schedule_stolen_bytes_most(const struct mmul_schedule *schedule, int rank) {
    return mmul_schedule_stolen_lines_most(schedule, rank) * loan_line_bytes(schedule);
}

struct mmul_check_need mmul_schedule_check_need(const struct mmul_schedule *schedule, int rank,
                                                bool whole_again, bool split_again, int64_t saved) {
    const struct mmul_problem *p = &schedule->problem;
    const struct mmul_schedule_node *node =
        &mmul_schedule_nodes(schedule)[mmul_schedule_ranks(schedule)[rank].node];
    const int64_t panel = mmul_panels_units_at_once(p, schedule->axis, schedule->panel_units,
                                                    node->maps),
                  lines = mmul_schedule_lines_most(schedule, rank);
    whole_again = whole_again && panel == mmul_problem_result_width(p, schedule->axis);
    const bool whole = node->checks_whole || (whole_again && (panel > lines || !split_again));
    const enum mmul_axis other = schedule->axis == MMUL_ROWS ? MMUL_COLS : MMUL_ROWS;
    return (struct mmul_check_need){.axis = whole ? other : schedule->axis,
                                    .piece_units = whole ? panel : lines,
                                    .panel_units = whole ? lines : panel,
                                    .k = p->k,
                                    .saved = (whole ? whole_again : split_again) ? saved : 0};
}

void mmul_check_size_add(struct mmul_check_size *size, const struct mmul_check_need *need) {
    size->check_bytes = mmul_max(size->check_bytes, mmul_check_bytes(need->piece_units, need->k));
    size->panel_units = mmul_max(size->panel_units, need->panel_units);
    if (need->saved == 0)
        return;
    size->cached_numbers =
        mmul_max(size->cached_numbers, mmul_check_saved_count(need->piece_units, need->k));
    size->cached_wanted = mmul_max(size->cached_wanted, need->saved);
    const int64_t most = size->check_bytes / 2 / (size->cached_numbers * (int64_t)sizeof(double));
    size->cached_count = mmul_max(1, mmul_min(size->cached_wanted, most));
}

int64_t mmul_check_size_bytes(const struct mmul_check_size *size) {
    return size->check_bytes + size->panel_units +
           size->cached_count * size->cached_numbers * (int64_t)sizeof(double);
}

// ---------------------------------------------------------------------------------------- channels

void mmul_channels_size_add(struct mmul_channels_size *size, const struct mmul_schedule *schedule,
                            int node) {
    for (int i = 0; i < MMUL_ROUTES; i++) {
        struct mmul_transfer first;
        struct mmul_transfers list = mmul_transfers_make(schedule, node, (enum mmul_route)i);
        size->is_used[i] = mmul_transfers_next(&list, &first) || size->is_used[i];
        size->bytes[i] = mmul_max(size->bytes[i], list.buffer_bytes);
    }
    size->is_spread |= schedule->whole_is_distributed;
}

void mmul_channels_size_add_moves(struct mmul_channels_size *size,
                                  const struct mmul_move_set *moving, int node) {
    for (int i = MMUL_ROUTE_SEND; i < MMUL_ROUTES; i++)
        size->is_used[i] =
            mmul_transfers_of_moves(moving, node, (enum mmul_route)i).has_piece || size->is_used[i];
}

// Only root has both ends of scatter and gather. Packets that begin or end in files or values pass
// through a ring of buffers.
int64_t mmul_channels_size_bytes(const struct mmul_channels_size *size, bool is_root) {
    const int64_t *bytes = size->bytes;
    int64_t sum = 0;
    if (is_root && size->is_used[MMUL_ROUTE_SCATTER])
        sum += MMUL_ROUNDS_IN_FLIGHT * bytes[MMUL_ROUTE_SCATTER];
    if (is_root && size->is_used[MMUL_ROUTE_GATHER])
        sum += MMUL_ROUNDS_IN_FLIGHT * bytes[MMUL_ROUTE_GATHER];
    if ((is_root || size->is_spread) && size->is_used[MMUL_ROUTE_RELAY])
        sum += MMUL_PACKETS_IN_FLIGHT * bytes[MMUL_ROUTE_RELAY];
    for (int i = MMUL_ROUTE_SEND; i < MMUL_ROUTES; i++)
        if (size->is_used[i])
            sum += (int64_t)(i == MMUL_ROUTE_COPY ? 1 : MMUL_PACKETS_IN_FLIGHT) * MMUL_PART_BYTES;
    return sum;
}
