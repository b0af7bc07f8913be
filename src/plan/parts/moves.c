// SPDX-License-Identifier: MIT
// Intersects the parts of the holders of one node with those of another, matrix by matrix. Each
// non-empty intersection is a piece. Copies no data.
#include "plan/parts/moves.h"

#include "base/integer.h"
#include "model/matrix.h"

enum { WHOLE = -1, NOBODY = -2 };

// Returns true if the node holds anything of the whole value that this move reads (or writes).
static bool holds_whole(const struct mmul_move *move, const struct mmul_placement *placement,
                        int node) {
    return placement->kind == MMUL_PLACE_FILE ? node == move->rank_node[0]
                                              : mmul_placement_covers_node(placement, node);
}

// Returns the node that sends a whole value to a node without it. Receivers use the holders in
// turn.
static int find_sender(const struct mmul_move *move, int to_node) {
    int count = 0, node = -1;
    for (int i = 0; i < move->node_count; i++)
        count += mmul_placement_covers_node(&move->from, i);
    for (int left = count > 0 ? to_node % count : -1; left >= 0;)
        left -= mmul_placement_covers_node(&move->from, ++node);
    return node;
}

static int first_copy(const struct mmul_move *move, const struct mmul_placement *placement,
                      int rank, int node) {
    return mmul_placement_first_copy(placement, move->rank_node, rank, node);
}

// Returns true if this rank sends its part to a node. One of the copies of a part is sent: the
// receiving node's own, else receivers use the copies in turn.
static bool sends_part(const struct mmul_move *move, int rank, int from_node, int to_node) {
    const struct mmul_part_copies copies = mmul_placement_copies(&move->from, rank);
    if (first_copy(move, &move->from, rank, from_node) != rank)
        return false;
    if (copies.count == 1)
        return true;
    if (move->to.kind == MMUL_PLACE_PARTIAL)
        return rank == copies.first;
    if (from_node == to_node)
        return true;
    const int sender = copies.first + to_node % copies.count * copies.step;
    return first_copy(move, &move->from, rank, to_node) < 0 && move->rank_node[sender] == from_node;
}

// Returns true if any bytes go from one node to the other.
static bool exchanges_bytes(const struct mmul_move *move, int from_node, int to_node) {
    enum mmul_placement_kind from = move->from.kind, to = move->to.kind;
    if (mmul_placement_is_whole(from) && !holds_whole(move, &move->from, from_node))
        return false;
    // The holder keeps its part; of many copies root's node keeps its own.
    if (to == MMUL_PLACE_PARTIAL)
        return from_node == to_node &&
               (from != MMUL_PLACE_REPLICATE ||
                from_node == move->rank_node[mmul_placement_first(&move->from)]);
    if (mmul_placement_is_whole(to) && !holds_whole(move, &move->to, to_node))
        return false;
    if (from != MMUL_PLACE_REPLICATE)
        return true;
    return from_node ==
           (holds_whole(move, &move->from, to_node) ? to_node : find_sender(move, to_node));
}

// Returns the next holder after `rank` on the sending node, or none after the last one.
static int next_source(const struct mmul_move_walk *w, int rank) {
    const struct mmul_move *move = w->move;
    if (mmul_placement_is_whole(move->from.kind))
        return rank == NOBODY ? WHOLE : NOBODY;
    for (int next = rank == NOBODY ? 0 : rank + 1; next < move->size; next++)
        if (move->rank_node[next] == w->from_node &&
            sends_part(move, next, w->from_node, w->to_node))
            return next;
    return NOBODY;
}

// Returns the receiver after `rank` of the part of `from_rank`. Into summands each rank receives
// its own part, and root receives a part without a rank.
static int next_target(const struct mmul_move_walk *w, int rank) {
    const struct mmul_move *move = w->move;
    if (move->to.kind == MMUL_PLACE_PARTIAL)
        return rank != NOBODY          ? NOBODY
               : w->from_rank == WHOLE ? mmul_placement_first(&move->to)
                                       : w->from_rank;
    if (mmul_placement_is_whole(move->to.kind))
        return rank == NOBODY ? WHOLE : NOBODY;
    for (int next = rank == NOBODY ? 0 : rank + 1; next < move->size; next++)
        if (move->rank_node[next] == w->to_node &&
            first_copy(move, &move->to, next, w->to_node) == next)
            return next;
    return NOBODY;
}

static struct mmul_part_range part_from(const struct mmul_move_walk *w) {
    return mmul_placement_part(&w->move->from, w->move->shape, w->from_rank);
}

static struct mmul_part_range part_to(const struct mmul_move_walk *w) {
    return mmul_placement_part(&w->move->to, w->move->shape, w->to_rank);
}

static void advance_pair(struct mmul_move_walk *w) {
    w->to_rank = w->from_rank != NOBODY ? next_target(w, w->to_rank) : NOBODY;
    if (w->to_rank == NOBODY) {
        w->from_rank = next_source(w, w->from_rank);
        if (w->from_rank != NOBODY)
            w->to_rank = next_target(w, NOBODY);
    }
    w->pair = 0;
    if (w->from_rank != NOBODY && w->to_rank != NOBODY)
        w->matrix = mmul_max(part_from(w).matrix_begin, part_to(w).matrix_begin);
}

struct mmul_move_walk mmul_move_walk(const struct mmul_move *move, int from_node, int to_node,
                                     int64_t most_elements) {
    struct mmul_move_walk w = {.move = move,
                               .from_node = from_node,
                               .to_node = to_node,
                               .most_elements = most_elements,
                               .from_rank = NOBODY,
                               .to_rank = NOBODY};
    if (exchanges_bytes(move, from_node, to_node))
        advance_pair(&w);
    return w;
}

static struct mmul_region intersect(struct mmul_region a, struct mmul_region b) {
    return (struct mmul_region){a.matrix, mmul_max(a.row_begin, b.row_begin),
                                mmul_min(a.row_end, b.row_end), mmul_max(a.col_begin, b.col_begin),
                                mmul_min(a.col_end, b.col_end)};
}

// Returns the common region of the current rectangles of both holders; may be empty. `to_count`:
// rectangles of the receiver.
static struct mmul_region common_region(const struct mmul_move_walk *w, int64_t to_count) {
    const struct mmul_move *move = w->move;
    const struct mmul_region both =
        intersect(mmul_placement_rectangle(&move->from, move->shape, w->from_rank, w->matrix,
                                           w->pair / to_count),
                  mmul_placement_rectangle(&move->to, move->shape, w->to_rank, w->matrix,
                                           w->pair % to_count));
    struct mmul_region r = move->window.row_end == 0 ? both : intersect(both, move->window);
    r.matrix = w->matrix;
    return r;
}

static bool is_empty(struct mmul_region region) {
    return region.row_begin >= region.row_end || region.col_begin >= region.col_end;
}

// Writes the next rectangle to `rest`. Returns false if there is none.
static bool find_rectangle(struct mmul_move_walk *w) {
    while (w->from_rank != NOBODY && w->to_rank != NOBODY) {
        const int64_t end = mmul_min(part_from(w).matrix_end, part_to(w).matrix_end);
        const int64_t to_count = mmul_placement_rectangles(&w->move->to, w->to_rank),
                      pairs = to_count * mmul_placement_rectangles(&w->move->from, w->from_rank);
        for (; w->matrix < end; w->matrix++) {
            while (w->pair < pairs) {
                w->rest = common_region(w, to_count);
                w->col = w->rest.col_begin;
                w->pair++;
                if (!is_empty(w->rest))
                    return true;
            }
            w->pair = 0;
        }
        advance_pair(w);
    }
    return false;
}

bool mmul_move_next(struct mmul_move_walk *walk, struct mmul_move_piece *piece) {
    struct mmul_move_walk *w = walk;
    if (is_empty(w->rest) && !find_rectangle(w))
        return false;
    // As many whole rows as fit, or a part of one row if not even one fits.
    int64_t width = w->rest.col_end - w->rest.col_begin;
    *piece = (struct mmul_move_piece){.region = w->rest,
                                      .from_rank = w->from_rank,
                                      .to_rank = w->to_rank,
                                      .is_sum = w->move->from.kind == MMUL_PLACE_PARTIAL};
    struct mmul_region *r = &piece->region;
    if (width <= w->most_elements) {
        r->row_end = mmul_min(r->row_end, r->row_begin + w->most_elements / width);
        w->rest.row_begin = r->row_end;
        return true;
    }
    r->row_end = r->row_begin + 1;
    r->col_begin = w->col;
    r->col_end = mmul_min(w->rest.col_end, w->col + w->most_elements);
    w->col = r->col_end;
    if (w->col == w->rest.col_end) {
        w->col = w->rest.col_begin;
        w->rest.row_begin++;
    }
    return true;
}
