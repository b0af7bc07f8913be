// SPDX-License-Identifier: MIT
// Walks the rounds and passes for which a channel has bytes, or the pieces of moved values: panel
// by panel, move by move, with one node after the other. In round s node i sends to node i + s and
// receives from node i - s, so a round waits only for earlier rounds. All of it is arithmetic on
// the schedule and a few cursors; no list is stored.
#include "plan/lists/transfers.h"

#include "base/integer.h"
#include "model/dtype.h"
#include "model/matrix.h"
#include "plan/parts/panels.h"

static const struct mmul_schedule_node *node_of(const struct mmul_transfers *t) {
    return &mmul_schedule_nodes(t->schedule)[t->node];
}

static bool is_of_rounds(enum mmul_route route) {
    return route == MMUL_ROUTE_SCATTER || route == MMUL_ROUTE_READ;
}

static bool is_of_network(enum mmul_route route) {
    return route == MMUL_ROUTE_SCATTER || route == MMUL_ROUTE_RELAY || route == MMUL_ROUTE_GATHER;
}

// ---------------------------------------------------------------------------------------- contents

static enum mmul_content content_at(enum mmul_route route, int64_t position) {
    if (is_of_rounds(route))
        return position % 2 == 0 ? MMUL_CONTENT_PIECES : MMUL_CONTENT_C_IN;
    return route == MMUL_ROUTE_GATHER || route == MMUL_ROUTE_STORE ? MMUL_CONTENT_RESULT
                                                                   : MMUL_CONTENT_PANEL;
}

// A spread panel has one part per rank: the rank's rows of it.
static int64_t parts_per_panel(const struct mmul_transfers *t) {
    const bool has_panels = t->route == MMUL_ROUTE_RELAY || t->route == MMUL_ROUTE_LOAD;
    return has_panels && t->schedule->whole_is_distributed ? t->schedule->size : 1;
}

static struct mmul_pass pass_at(const struct mmul_transfers *t, int64_t position) {
    return mmul_schedule_pass(t->schedule, is_of_rounds(t->route)
                                               ? position / 2 * mmul_schedule_panels(t->schedule)
                                               : position / parts_per_panel(t));
}

static int64_t rank_bytes(const struct mmul_schedule *schedule, int rank, enum mmul_content content,
                          struct mmul_pass pass) {
    const struct mmul_problem *p = &schedule->problem;
    struct mmul_range part = mmul_schedule_part(schedule, rank, pass.round);
    int64_t units = part.end - part.begin;
    if (content == MMUL_CONTENT_PIECES)
        return units * mmul_problem_split_unit_bytes(p, schedule->axis);
    if (content == MMUL_CONTENT_C_IN)
        return p->beta == 0 ? 0 : units * mmul_problem_result_unit_bytes(p, schedule->axis);
    return mmul_schedule_units(schedule, rank, pass) * (pass.end - pass.begin) *
           mmul_problem_result_each(p);
}

// Mapped contents are neither brought to a node nor fetched from it.
static bool is_mapped(const struct mmul_schedule *schedule, enum mmul_content content, int node) {
    unsigned maps = mmul_schedule_nodes(schedule)[node].maps;
    return (content == MMUL_CONTENT_PIECES &&
            (maps & mmul_maps_split_operand(schedule->axis)) != 0) ||
           (content == MMUL_CONTENT_C_IN && (maps & MMUL_MAPS_C_IN) != 0) ||
           (content == MMUL_CONTENT_RESULT && (maps & MMUL_MAPS_C) != 0);
}

int64_t mmul_content_bytes(const struct mmul_schedule *schedule, enum mmul_content content,
                           int node, struct mmul_pass pass) {
    int64_t bytes = 0;
    if (content == MMUL_CONTENT_PANEL)
        return mmul_schedule_panel_bytes(schedule, pass);
    for (int rank = 0; rank < schedule->size; rank++)
        if (mmul_schedule_ranks(schedule)[rank].node == node)
            bytes += rank_bytes(schedule, rank, content, pass);
    return bytes;
}

void mmul_transfer_node_bytes(const struct mmul_schedule *schedule,
                              const struct mmul_transfer *transfer, int64_t *bytes) {
    for (int node = 0; node < schedule->node_count; node++)
        bytes[node] = 0;
    for (int rank = 0; rank < schedule->size; rank++) {
        int node = mmul_schedule_ranks(schedule)[rank].node;
        if (node != 0 && !is_mapped(schedule, transfer->content, node))
            bytes[node] += rank_bytes(schedule, rank, transfer->content, transfer->pass);
    }
}

static int64_t bytes_on_node(const struct mmul_transfers *t, enum mmul_content content,
                             struct mmul_pass pass) {
    return content != MMUL_CONTENT_RESULT && is_mapped(t->schedule, content, t->node)
               ? 0
               : mmul_content_bytes(t->schedule, content, t->node, pass);
}

// ------------------------------------------------------------------------- transfers at a position

// Returns the position of a node on the path of a panel that begins at `first`. Root's panels
// follow the relay chain; panels of other nodes go around.
static int path_position(const struct mmul_transfers *t, int node, int first) {
    int count = t->schedule->node_count;
    return t->schedule->whole_is_distributed ? (node - first + count) % count
                                             : mmul_schedule_nodes(t->schedule)[node].chain_place;
}

// Finds the previous and the next node on a panel's path, among the nodes that load it.
static void find_neighbours(const struct mmul_transfers *t, struct mmul_pass pass, int first,
                            int *from, int *to) {
    int own = path_position(t, t->node, first);
    *from = t->node == first ? -1 : first;
    *to = -1;
    for (int node = 0; node < t->schedule->node_count; node++) {
        int place = path_position(t, node, first);
        if (node == t->node || node == first || !mmul_schedule_loads(t->schedule, node, pass))
            continue;
        if (place < own && place > path_position(t, *from, first))
            *from = node;
        if (place > own && (*to < 0 || place < path_position(t, *to, first)))
            *to = node;
    }
}

// Returns the node at which a position of a relay begins.
static int first_node(const struct mmul_transfers *t, int64_t position) {
    return t->schedule->whole_is_distributed
               ? mmul_schedule_ranks(t->schedule)[position % t->schedule->size].node
               : 0;
}

// Returns the rows of a part of a panel; all rows if the operand is not spread.
static struct mmul_range rows_at(const struct mmul_transfers *t, int64_t position) {
    return mmul_schedule_whole_rows(t->schedule, (int)(position % t->schedule->size),
                                    pass_at(t, position));
}

static bool any_other_node_has_bytes(const struct mmul_transfers *t, int64_t position) {
    struct mmul_pass pass = pass_at(t, position);
    enum mmul_content content = content_at(t->route, position);
    for (int rank = 0; rank < t->schedule->size; rank++) {
        int node = mmul_schedule_ranks(t->schedule)[rank].node;
        if (node != 0 && !is_mapped(t->schedule, content, node) &&
            rank_bytes(t->schedule, rank, content, pass) > 0)
            return true;
    }
    return false;
}

static bool is_relayed(const struct mmul_transfers *t, int64_t position) {
    struct mmul_pass pass = pass_at(t, position);
    int first = first_node(t, position), from, to;
    struct mmul_range rows = {0, 1};
    if (t->schedule->whole_is_distributed)
        rows = rows_at(t, position);
    if (rows.begin == rows.end)
        return false;
    if (t->node != first)
        return mmul_schedule_loads(t->schedule, t->node, pass);
    find_neighbours(t, pass, first, &from, &to);
    return to >= 0;
}

static bool is_loaded(const struct mmul_transfers *t, int64_t position) {
    struct mmul_range rows = {0, 1};
    if (t->schedule->whole_is_distributed && first_node(t, position) != t->node)
        return false;
    if (t->schedule->whole_is_distributed)
        rows = rows_at(t, position);
    return rows.begin < rows.end && mmul_schedule_loads(t->schedule, t->node, pass_at(t, position));
}

static bool has_transfer(const struct mmul_transfers *t, int64_t position) {
    switch (t->route) {
    case MMUL_ROUTE_SCATTER:
    case MMUL_ROUTE_GATHER:
        return any_other_node_has_bytes(t, position);
    case MMUL_ROUTE_RELAY:
        return is_relayed(t, position);
    case MMUL_ROUTE_READ:
        return bytes_on_node(t, content_at(t->route, position), pass_at(t, position)) > 0;
    case MMUL_ROUTE_LOAD:
        return is_loaded(t, position);
    case MMUL_ROUTE_STORE:
        // Passes end one by one, with or without a block.
        return true;
    default:
        return false;
    }
}

static int64_t find_next_position(const struct mmul_transfers *t, int64_t position) {
    while (position < t->end && !has_transfer(t, position))
        position++;
    return position;
}

// Returns the next pass whose panel is loaded here.
static int64_t find_loaded_pass(const struct mmul_transfers *t, int64_t pass) {
    int64_t passes = mmul_schedule_passes(t->schedule);
    while (pass < passes &&
           !mmul_schedule_loads(t->schedule, t->node, mmul_schedule_pass(t->schedule, pass)))
        pass++;
    return pass;
}

// Only root's node reads and writes files; every node has rows of a spread operand.
static bool node_takes_part(const struct mmul_transfers *t) {
    const struct mmul_schedule_node *own = &mmul_schedule_nodes(t->schedule)[t->node];
    if (is_of_network(t->route))
        return t->node == 0 || own->participates;
    return own->result_bytes > 0 &&
           (t->node == 0 || (t->route == MMUL_ROUTE_LOAD && t->schedule->whole_is_distributed));
}

// ------------------------------------------------------------------------------- the next transfer

struct mmul_product_arrivals mmul_product_arrivals(const struct mmul_schedule *schedule, int node,
                                                   const int64_t counters[static MMUL_COUNTERS]) {
    const int64_t *arrived = counters + MMUL_ARRIVED_COUNTERS;
    const bool is_root = node == 0;
    int64_t panels = arrived[is_root ? MMUL_ROUTE_LOAD : MMUL_ROUTE_RELAY];
    if (schedule->whole_is_distributed)
        panels = mmul_min(arrived[MMUL_ROUTE_LOAD], arrived[MMUL_ROUTE_RELAY]);
    return (struct mmul_product_arrivals){
        .rounds_loaded = arrived[is_root ? MMUL_ROUTE_READ : MMUL_ROUTE_SCATTER],
        .passes_loaded = panels,
        .results_stored = arrived[is_root ? MMUL_ROUTE_STORE : MMUL_ROUTE_GATHER]};
}

// A lane of a round is free when all ranks have computed the last round that used it.
static void assign_lane(const struct mmul_transfers *t, struct mmul_transfer *transfer) {
    int64_t lanes = node_of(t)->piece_lanes, round = transfer->pass.round;
    if (lanes == 0)
        return;
    transfer->slot = round % lanes;
    if (round >= lanes)
        transfer->waits[0] = (struct mmul_count){
            MMUL_PASSES_DONE, (round - lanes + 1) * mmul_schedule_panels(t->schedule)};
}

// Slots of panels are used in turn. A slot is free when its panel has been computed with and sent
// on. If another channel brings the last rows of a panel, that one sends it on.
static void assign_slot(struct mmul_transfers *t, struct mmul_transfer *transfer) {
    int64_t slots = node_of(t)->whole_slots;
    for (; t->seen < transfer->pass.index; t->seen++)
        t->loaded +=
            mmul_schedule_loads(t->schedule, t->node, mmul_schedule_pass(t->schedule, t->seen));
    transfer->slot = t->loaded % slots;
    if (t->loaded < slots)
        return;
    for (; t->before_oldest < t->loaded - slots; t->before_oldest++)
        t->oldest = find_loaded_pass(t, t->oldest + 1);
    transfer->waits[0] = (struct mmul_count){MMUL_PASSES_DONE, t->oldest + 1};
    if (t->route == MMUL_ROUTE_RELAY || t->schedule->whole_is_distributed)
        transfer->waits[1] =
            (struct mmul_count){mmul_sent_counter(MMUL_ROUTE_RELAY), t->oldest + 1};
}

// Sets offset and bytes of a part of a spread panel.
static void set_panel_part(const struct mmul_transfers *t, struct mmul_transfer *transfer) {
    struct mmul_range rows = rows_at(t, t->next);
    int64_t row_bytes = mmul_schedule_whole_row_bytes(t->schedule, transfer->pass);
    transfer->offset = rows.begin * row_bytes;
    transfer->bytes = (rows.end - rows.begin) * row_bytes;
}

// A block of C is complete when all ranks have computed its pass.
static void assign_result_slot(const struct mmul_transfers *t, struct mmul_transfer *transfer) {
    int64_t slots = node_of(t)->result_slots;
    transfer->slot = slots > 0 ? transfer->pass.index % slots : -1;
    transfer->in_place = (node_of(t)->maps & MMUL_MAPS_C) != 0;
    transfer->waits[0] = (struct mmul_count){MMUL_PASSES_DONE, transfer->pass.index + 1};
}

// Returns the rounds, or passes, before the list's next position.
static int64_t count_reached(const struct mmul_transfers *t) {
    return t->next / (is_of_rounds(t->route) ? 2 : parts_per_panel(t));
}

static bool take_product_transfer(struct mmul_transfers *t, struct mmul_transfer *transfer) {
    bool panel = t->next < t->end && content_at(t->route, t->next) == MMUL_CONTENT_PANEL;
    bool sends = is_of_network(t->route) && t->node == (panel ? first_node(t, t->next) : 0);
    if (t->next == t->end)
        return false;
    *transfer = (struct mmul_transfer){.route = t->route,
                                       .content = content_at(t->route, t->next),
                                       .pass = pass_at(t, t->next),
                                       .slot = -1,
                                       .from = -1,
                                       .to = -1};
    if (!sends || t->route == MMUL_ROUTE_RELAY)
        transfer->bytes = bytes_on_node(t, transfer->content, transfer->pass);
    if (panel && t->schedule->whole_is_distributed)
        set_panel_part(t, transfer);
    if (t->route == MMUL_ROUTE_RELAY)
        find_neighbours(t, transfer->pass, first_node(t, t->next), &transfer->from, &transfer->to);
    // Pieces go first: no rank starts without them.
    if (sends && panel) {
        if (t->node == 0)
            transfer->waits[0] = (struct mmul_count){mmul_arrived_counter(MMUL_ROUTE_SCATTER),
                                                     transfer->pass.round + 1};
    } else if (!sends && is_of_rounds(t->route)) {
        assign_lane(t, transfer);
    } else if (!sends && panel) {
        assign_slot(t, transfer);
    } else if (!sends) {
        assign_result_slot(t, transfer);
    }
    t->next = find_next_position(t, t->next + 1);
    t->reached = transfer->reached = count_reached(t);
    return true;
}

static int64_t product_buffer_bytes(const struct mmul_schedule *schedule, enum mmul_route route) {
    switch (route) {
    case MMUL_ROUTE_SCATTER:
    case MMUL_ROUTE_GATHER:
        return schedule->chunk_bytes;
    case MMUL_ROUTE_RELAY:
        return mmul_min(MMUL_PACKET_BYTES, schedule->chunk_bytes);
    default:
        return MMUL_FILE_STRETCH_BYTES;
    }
}

struct mmul_transfers mmul_transfers_make(const struct mmul_schedule *schedule, int node,
                                          enum mmul_route route) {
    struct mmul_transfers t = {.schedule = schedule, .node = node, .route = route};
    if (route >= MMUL_ROUTE_SEND)
        return t;
    t.take = take_product_transfer;
    t.total = is_of_rounds(route) ? schedule->rounds : mmul_schedule_passes(schedule);
    t.end = t.total * (is_of_rounds(route) ? 2 : parts_per_panel(&t));
    t.next = node_takes_part(&t) ? find_next_position(&t, 0) : t.end;
    t.reached = count_reached(&t);
    t.buffer_bytes = product_buffer_bytes(schedule, route);
    t.ends_in_values = schedule->whole_is_distributed;
    if (t.next < t.end && content_at(route, t.next) == MMUL_CONTENT_PANEL)
        t.oldest = find_loaded_pass(&t, 0);
    return t;
}

// ------------------------------------------------------------------------------------ moved values

static int node_count_of(const struct mmul_transfers *t) {
    return t->moving.plan->costs.node_count;
}

// Returns the node at the other end in this round.
static int peer_of(const struct mmul_transfers *t) {
    const int nodes = node_count_of(t);
    return (t->node + (t->route == MMUL_ROUTE_RECEIVE ? nodes - t->round : t->round)) % nodes;
}

static int64_t bytes_each(const struct mmul_transfers *t) {
    const struct mmul_program_plan *plan = t->moving.plan;
    const int place = t->moving.steps[t->move]->operands[0];
    return (int64_t)mmul_dtype_bytes(mmul_place_value(plan, place)->dtype);
}

// Returns the part of the move that the receiving node needs in this panel. A panel is a range of
// terms: columns of the left operand, rows of the right one.
static struct mmul_move find_window(const struct mmul_transfers *t, int to) {
    const struct mmul_move_set *moving = &t->moving;
    struct mmul_move move = mmul_program_step_move(moving->plan, moving->steps[t->move]);
    const struct mmul_shape s = move.shape;
    const bool left = move.to.kind == MMUL_PLACE_GRID_ROWS;
    if (moving->panels == 1)
        return move;
    const int first = mmul_program_plan_first_panel(moving->plan, to, moving->panels);
    const struct mmul_panel p =
        mmul_move_panel(left ? s.cols : s.rows, moving->panels, first, t->panel);
    move.window = left ? (struct mmul_region){0, 0, s.rows, p.begin, p.end}
                       : (struct mmul_region){0, p.begin, p.end, 0, s.cols};
    return move;
}

// Advances to the next round. Returns false after the last one.
static bool advance_round(struct mmul_transfers *t) {
    const bool copies = t->route == MMUL_ROUTE_COPY;
    if (++t->round < (copies ? 1 : node_count_of(t)))
        return true;
    t->round = copies ? -1 : 0;
    if (++t->move == t->moving.count) {
        t->move = 0;
        t->panel++;
    }
    return t->panel < t->moving.panels && advance_round(t);
}

// Starts the walk of this round. Returns false if it is empty: of the pieces that stay on a node,
// only those from or to files are listed.
static bool begin_round(struct mmul_transfers *t) {
    const int peer = peer_of(t), from = t->route == MMUL_ROUTE_RECEIVE ? peer : t->node,
              to = t->route == MMUL_ROUTE_RECEIVE ? t->node : peer;
    t->window = find_window(t, to);
    t->walk = mmul_move_walk(&t->window, from, to, MMUL_PART_BYTES / bytes_each(t));
    return t->route != MMUL_ROUTE_COPY || t->window.from.kind == MMUL_PLACE_FILE ||
           t->window.to.kind == MMUL_PLACE_FILE;
}

static bool find_next_piece(struct mmul_transfers *t) {
    // The list may have been copied.
    t->walk.move = &t->window;
    while (!t->is_open || !mmul_move_next(&t->walk, &t->piece)) {
        if (!advance_round(t))
            return false;
        t->is_open = begin_round(t);
    }
    return true;
}

static int64_t count_reached_panels(const struct mmul_transfers *t) {
    return t->has_piece ? t->panel : t->total;
}

static bool take_move_transfer(struct mmul_transfers *t, struct mmul_transfer *transfer) {
    const bool receives = t->route == MMUL_ROUTE_RECEIVE;
    if (!t->has_piece)
        return false;
    const int peer = peer_of(t);
    *transfer = (struct mmul_transfer){.route = t->route,
                                       .content = MMUL_CONTENT_PART,
                                       .bytes = mmul_region_count(t->piece.region) * bytes_each(t),
                                       .slot = -1,
                                       .from = receives ? peer : -1,
                                       .to = receives || peer == t->node ? -1 : peer,
                                       .from_file = t->window.from.kind == MMUL_PLACE_FILE,
                                       .move = t->move,
                                       .piece = t->piece};
    t->has_piece = find_next_piece(t);
    t->reached = transfer->reached = count_reached_panels(t);
    return true;
}

struct mmul_transfers mmul_transfers_of_moves(const struct mmul_move_set *moving, int node,
                                              enum mmul_route route) {
    struct mmul_transfers t = {.route = route, .node = node};
    if (route < MMUL_ROUTE_SEND || moving->count == 0)
        return t;
    t.take = take_move_transfer;
    t.total = moving->panels;
    t.buffer_bytes = MMUL_PART_BYTES;
    t.ends_in_values = true;
    t.moving = *moving;
    t.round = route == MMUL_ROUTE_COPY ? -1 : 0;
    t.has_piece = find_next_piece(&t);
    t.reached = count_reached_panels(&t);
    return t;
}

bool mmul_transfers_next(struct mmul_transfers *transfers, struct mmul_transfer *transfer) {
    return transfers->take != NULL && transfers->take(transfers, transfer);
}
