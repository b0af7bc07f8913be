// SPDX-License-Identifier: MIT
// Pieces of values that move as transfers: panel by panel, move by move, with one node after the other. In round s node
// i sends to node i + s and receives from node i - s, so that what a round waits for are earlier ones only.
#include "model/dtype.h"
#include "model/matrix.h"
#include "plan/lists/transfers.h"

static int node_count_of(const struct mmul_transfers *t) {
    return t->moving.plan->costs.node_count;
}

// The node at the other end in this round.
static int peer_of(const struct mmul_transfers *t) {
    const int nodes = node_count_of(t);
    return (t->node + (t->route == MMUL_ROUTE_RECEIVE ? nodes - t->round : t->round)) % nodes;
}

static int64_t bytes_each(const struct mmul_transfers *t) {
    const struct mmul_program_plan *plan = t->moving.plan;
    const int place = t->moving.steps[t->move]->operands[0];
    return (int64_t)mmul_dtype_bytes(plan->program->values[plan->places[place].value].dtype);
}

// What the receiving node wants of the move in this panel: terms, which are columns of the left operand
// and rows of the right one.
static struct mmul_move find_window(const struct mmul_transfers *t, int to) {
    const struct mmul_moving *moving = &t->moving;
    struct mmul_move move = mmul_program_plan_move(moving->plan, moving->steps[t->move]);
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

// Goes on; false: that was the last round of all.
static bool next_round(struct mmul_transfers *t) {
    const bool copies = t->route == MMUL_ROUTE_COPY;
    if (++t->round < (copies ? 1 : node_count_of(t)))
        return true;
    t->round = copies ? -1 : 0;
    if (++t->move == t->moving.count) {
        t->move = 0;
        t->panel++;
    }
    return t->panel < t->moving.panels && next_round(t);
}

// The walk of this round. False: there is nothing in it. Of what stays on a node only files are looked after here.
static bool open_round(struct mmul_transfers *t) {
    const int peer = peer_of(t), from = t->route == MMUL_ROUTE_RECEIVE ? peer : t->node,
              to = t->route == MMUL_ROUTE_RECEIVE ? t->node : peer;
    t->window = find_window(t, to);
    t->walk = mmul_move_walk(&t->window, from, to, MMUL_PART_BYTES / bytes_each(t));
    return t->route != MMUL_ROUTE_COPY || t->window.from.kind == MMUL_PLACE_FILE ||
           t->window.to.kind == MMUL_PLACE_FILE;
}

static bool find_piece(struct mmul_transfers *t) {
    t->walk.move = &t->window; // the list may have been copied
    while (!t->is_open || !mmul_move_next(&t->walk, &t->piece)) {
        if (!next_round(t))
            return false;
        t->is_open = open_round(t);
    }
    return true;
}

struct mmul_transfers mmul_transfers_of_moving(const struct mmul_moving *moving, int node,
                                               enum mmul_route route) {
    struct mmul_transfers t = {.route = route, .node = node, .moving = *moving};
    if (route < MMUL_ROUTE_SEND || moving->count == 0)
        return t;
    t.round = route == MMUL_ROUTE_COPY ? -1 : 0;
    t.has_piece = find_piece(&t);
    return t;
}

bool mmul_moving_next(struct mmul_transfers *transfers, struct mmul_transfer *transfer) {
    struct mmul_transfers *t = transfers;
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
                                       .move = t->move,
                                       .piece = t->piece};
    t->has_piece = find_piece(t);
    return true;
}
