// SPDX-License-Identifier: MIT
// Placements, and moves between every pair of them, carried out on plain arrays: the received value
// equals the sent one, and no byte crosses the network twice to the same node.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "model/matrix.h"
#include "plan/parts/deal.h"
#include "plan/parts/moves.h"

enum { RANKS = 6, ELEMENTS = 128, KINDS = MMUL_PLACEMENTS, BLOCKS = 6 };

struct machine {
    int size, nodes;
    int rank_node[RANKS];
    double weights[RANKS];
    int grid_rows;
};

static const struct machine MACHINES[] = {
    {1, 1, {0}, {1}, 1},
    {2, 1, {0, 0}, {1, 3}, 1},
    {2, 2, {0, 1}, {2, 1}, 2},
    {3, 2, {0, 1, 0}, {1, 0, 2}, 1},
    {3, 3, {0, 1, 2}, {5, 1, 1}, 3},
    {5, 3, {0, 1, 1, 2, 0}, {1, 0, 4, 2, 2}, 1},
    {5, 2, {0, 0, 1, 1, 1}, {0, 1, 1, 1, 0}, 2}, // one rank has no block of the 2 x 2 grid
    {4, 2, {0, 0, 1, 1}, {3, 1, 1, 2}, 2},       // nodes are rows of the grid
    {4, 2, {0, 1, 0, 1}, {1, 1, 2, 1}, 2},       // nodes are columns of the grid
    {6, 3, {0, 0, 1, 1, 2, 2}, {1, 2, 3, 1, 1, 1}, 2},
    {6, 6, {0, 1, 2, 3, 4, 5}, {1, 0, 3, 1, 1, 1}, 2},
};

static const struct mmul_shape SHAPES[] = {
    {1, 1, 7, 5}, {1, 1, 1, 1}, {2, 3, 5, 4}, {1, 2, 3, 11}, {1, 1, 13, 1}};

static int count_holders(const struct machine *m, enum mmul_placement_kind kind) {
    return kind == MMUL_PLACE_FILE ? 1 : kind == MMUL_PLACE_REPLICATE ? m->nodes : m->size;
}

// Returns the index of a holder's array: the node if the value is replicated, otherwise the rank.
static int holder_of(enum mmul_placement_kind kind, int rank, int node) {
    return kind == MMUL_PLACE_FILE ? 0 : kind == MMUL_PLACE_REPLICATE ? node : rank;
}

struct offsets {
    int64_t rows[RANKS + 1], cols[RANKS + 1];
    int64_t first[RANKS + 1], blocks[BLOCKS]; // cyclic
};

// Blocks of `width` columns; the last one may be narrower.
static void deal_cols(const struct machine *m, int64_t cols, int64_t width, struct offsets *o,
                      struct mmul_placement *p) {
    const int64_t count = (cols + width - 1) / width;
    struct mmul_error err;
    assert_true(count <= BLOCKS);
    assert_int_equal(mmul_deal_blocks(count, m->size, m->weights, o->first, o->blocks, &err),
                     MMUL_OK);
    o->cols[0] = 0;
    for (int r = 0; r < m->size; r++) {
        o->cols[r + 1] = o->cols[r];
        for (int64_t i = o->first[r]; i < o->first[r + 1]; i++)
            o->cols[r + 1] += o->blocks[i] == count - 1 ? cols - o->blocks[i] * width : width;
    }
    p->col_parts = m->size;
    p->col_offsets = o->cols;
    p->dealt = (struct mmul_dealt_blocks){width, o->first, o->blocks};
}

static struct mmul_placement make_placement(const struct machine *m, struct mmul_shape shape,
                                            enum mmul_placement_kind kind, struct offsets *o) {
    struct mmul_placement p = {.kind = kind, .row_parts = 1, .col_parts = 1};
    struct mmul_error err;
    int64_t matrices = mmul_shape_matrices(shape);
    bool grid = mmul_placement_is_mesh(kind);
    if (grid) {
        p.row_parts = m->grid_rows;
        p.col_parts = m->size / m->grid_rows;
    }
    if (kind == MMUL_PLACE_ROWS || (grid && kind != MMUL_PLACE_GRID_COLS)) {
        p.row_parts = grid ? m->grid_rows : m->size;
        p.row_offsets = o->rows;
        mmul_split_offsets(matrices * shape.rows, p.row_parts, m->weights, MMUL_SPLIT_EXACT,
                           o->rows, &err);
    }
    if (kind == MMUL_PLACE_COLS || (grid && kind != MMUL_PLACE_GRID_ROWS)) {
        const double *weights = grid && m->grid_rows == 2 ? m->weights + 1 : m->weights;
        p.col_parts = grid ? m->size / m->grid_rows : m->size;
        p.col_offsets = o->cols;
        mmul_split_offsets(grid ? shape.cols : matrices * shape.cols, p.col_parts, weights,
                           MMUL_SPLIT_EXACT, o->cols, &err);
    }
    if (kind == MMUL_PLACE_CYCLIC) // blocks of 2 columns; wider than narrow matrices
        deal_cols(m, shape.cols, shape.cols < 3 ? 7 : 2, o, &p);
    return p;
}

// ------------------------------------------------------------------------------ plain arrays

static int value_at(int64_t element) {
    return (int)(element * 7 % 19) - 9;
}

static int64_t element_at(struct mmul_shape s, int64_t matrix, int64_t i, int64_t j) {
    return (matrix * s.rows + i) * s.cols + j;
}

// Returns the position of an element in a part, by counting through its rectangles; -1 if absent.
static int64_t find_position(const struct mmul_placement *p, struct mmul_shape s, int rank,
                             int64_t element) {
    if (p->kind == MMUL_PLACE_REPLICATE) { // the holder is a node
        if (!mmul_placement_covers_node(p, rank))
            return -1;
        rank = -1;
    }
    struct mmul_part_range part = mmul_placement_part(p, s, rank);
    int64_t at = 0, offset;
    for (int64_t t = part.matrix_begin; t < part.matrix_end; t++) {
        struct mmul_region stored = mmul_placement_region(p, s, rank, t, &offset);
        assert_int_equal(offset, at);
        for (int64_t i = stored.row_begin; i < stored.row_end; i++) {
            int64_t col = stored.col_begin;
            for (int64_t k = 0; k < mmul_placement_rectangles(p, rank); k++) {
                const struct mmul_region r = mmul_placement_rectangle(p, s, rank, t, k);
                assert_int_equal(mmul_placement_stored(p, rank, r).col_begin, col);
                for (int64_t j = r.col_begin; j < r.col_end; j++, col++, at++)
                    if (element_at(s, t, i, j) == element)
                        return at;
            }
            assert_int_equal(col, stored.col_end);
        }
    }
    assert_int_equal(at, part.elements);
    return -1;
}

// Returns a holder's summand of an element: summands differ, and add up to the value.
static int summand(const struct machine *m, int rank, int64_t element) {
    int others = 0;
    for (int r = 1; r < m->size; r++)
        others += (int)((element + r) * 3 % 7);
    return rank > 0 ? (int)((element + rank) * 3 % 7) : value_at(element) - others;
}

struct world {
    const struct machine *machine;
    struct mmul_move move;
    int from[RANKS][ELEMENTS], to[RANKS][ELEMENTS];
    int written[RANKS][ELEMENTS];        // number of writes
    int crossed[RANKS][RANKS][ELEMENTS]; // from node, to node: number of network crossings
    int64_t count;
};

static void fill_world(struct world *w) {
    const enum mmul_placement_kind kind = w->move.from.kind;
    for (int h = 0; h < count_holders(w->machine, kind); h++)
        for (int64_t e = 0; e < w->count; e++) {
            int64_t at = find_position(&w->move.from, w->move.shape, h, e);
            if (at >= 0)
                w->from[h][at] =
                    kind == MMUL_PLACE_PARTIAL ? summand(w->machine, h, e) : value_at(e);
        }
}

// Returns the node's contribution to an element.
static int fetch_element(const struct world *w, const struct mmul_move_piece *piece, int node,
                         int64_t e) {
    const struct mmul_move *move = &w->move;
    int sum = 0;
    for (int r = 0; piece->is_sum && r < w->machine->size; r++)
        if (w->machine->rank_node[r] == node)
            sum += w->from[r][find_position(&move->from, move->shape, r, e)];
    int holder = holder_of(move->from.kind, piece->from_rank, node);
    return piece->is_sum ? sum
                         : w->from[holder][find_position(&move->from, move->shape, holder, e)];
}

static void carry_pieces(struct world *w, int from_node, int to_node, int64_t most) {
    const struct mmul_move *move = &w->move;
    struct mmul_move_walk walk = mmul_move_walk(move, from_node, to_node, most);
    struct mmul_move_piece piece;
    while (mmul_move_next(&walk, &piece)) {
        const struct mmul_region r = piece.region;
        assert_true(mmul_region_count(r) > 0 && mmul_region_count(r) <= most);
        for (int64_t i = r.row_begin; i < r.row_end; i++)
            for (int64_t j = r.col_begin; j < r.col_end; j++) {
                int64_t e = element_at(move->shape, r.matrix, i, j);
                int holder = holder_of(move->to.kind, piece.to_rank, to_node);
                int64_t at = find_position(&move->to, move->shape, holder, e);
                assert_true(at >= 0);
                w->to[holder][at] += fetch_element(w, &piece, from_node, e);
                w->written[holder][at]++;
                w->crossed[from_node][to_node][e] += from_node != to_node;
            }
    }
}

// ---------------------------------------------------------------------------------- expectations

static bool node_has(const struct world *w, const struct mmul_placement *p, int node, int64_t e) {
    if (p->kind == MMUL_PLACE_FILE)
        return node == w->machine->rank_node[0];
    if (mmul_placement_is_whole(p->kind))
        return mmul_placement_covers_node(p, node);
    for (int r = 0; r < w->machine->size; r++)
        if (w->machine->rank_node[r] == node && find_position(p, w->move.shape, r, e) >= 0)
            return true;
    return false;
}

// Copies on a node share one memory: that of its first rank.
static bool is_own(const struct machine *m, const struct mmul_placement *p, int holder) {
    if (mmul_placement_is_whole(p->kind))
        return true;
    return mmul_placement_first_copy(p, m->rank_node, holder, m->rank_node[holder]) == holder;
}

static void check_values(const struct world *w) {
    const struct mmul_placement *to = &w->move.to;
    int nodes = w->move.from.kind == MMUL_PLACE_PARTIAL ? w->machine->nodes : 1;
    for (int64_t e = 0; e < w->count; e++) {
        int sum = 0, found = 0;
        for (int h = 0; h < count_holders(w->machine, to->kind); h++) {
            int64_t at = find_position(to, w->move.shape, h, e);
            if (at < 0 || !is_own(w->machine, to, h))
                continue;
            found++;
            sum += w->to[h][at];
            if (to->kind == MMUL_PLACE_PARTIAL)
                continue;
            assert_int_equal(w->to[h][at], value_at(e));
            assert_int_equal(w->written[h][at], nodes);
        }
        assert_true(found > 0);
        if (to->kind == MMUL_PLACE_PARTIAL)
            assert_int_equal(sum, value_at(e));
    }
}

static void check_traffic(const struct world *w) {
    const struct mmul_move *move = &w->move;
    bool sums = move->from.kind == MMUL_PLACE_PARTIAL;
    for (int64_t e = 0; e < w->count; e++)
        for (int to = 0; to < w->machine->nodes; to++) {
            bool needs =
                move->to.kind != MMUL_PLACE_PARTIAL && node_has(w, &move->to, to, e) &&
                !(move->from.kind != MMUL_PLACE_PARTIAL && node_has(w, &move->from, to, e));
            int crossed = 0;
            for (int from = 0; from < w->machine->nodes; from++) {
                crossed += w->crossed[from][to][e];
                if (sums)
                    assert_int_equal(w->crossed[from][to][e], needs && from != to);
            }
            if (!sums)
                assert_int_equal(crossed, needs);
        }
}

static void move_one(const struct machine *m, const struct mmul_move *move, int64_t most) {
    static struct world w;
    const struct mmul_shape shape = move->shape;
    w = (struct world){.machine = m, .move = *move};
    w.count = mmul_shape_matrices(shape) * shape.rows * shape.cols;
    fill_world(&w);
    for (int stage = 0; stage < m->nodes; stage++)
        for (int node = 0; node < m->nodes; node++)
            carry_pieces(&w, node, (node + stage) % m->nodes, most);
    check_values(&w);
    check_traffic(&w);
}

static void move_every_pair(const struct machine *m, struct mmul_shape shape, int64_t most) {
    for (int from = 0; from < KINDS; from++)
        for (int to = 0; to < KINDS; to++) {
            struct offsets a, b;
            if (from == MMUL_PLACE_PARTIAL && to == MMUL_PLACE_PARTIAL)
                continue; // ranks that have the data already move nothing
            const struct mmul_move move = {
                .shape = shape,
                .from = make_placement(m, shape, (enum mmul_placement_kind)from, &a),
                .to = make_placement(m, shape, (enum mmul_placement_kind)to, &b),
                .size = m->size,
                .node_count = m->nodes,
                .rank_node = m->rank_node};
            move_one(m, &move, most);
        }
}

static void every_pair_of_placements_is_moved(void **state) {
    (void)state;
    static const int64_t most[] = {1, 3, 17, ELEMENTS};
    for (size_t m = 0; m < sizeof MACHINES / sizeof *MACHINES; m++)
        for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++)
            for (size_t i = 0; i < sizeof most / sizeof *most; i++)
                move_every_pair(&MACHINES[m], SHAPES[s], most[i]);
}

// A group of some of the ranks.
struct rank_group {
    struct machine machine; // the other ranks have weight 0
    bool ranks[RANKS], ranks_of_nodes[RANKS], nodes[RANKS];
    struct mmul_holders holders;
};

static void make_group(const struct machine *m, unsigned bits, struct rank_group *t) {
    *t = (struct rank_group){.machine = *m};
    t->holders = (struct mmul_holders){t->ranks, t->ranks_of_nodes, t->nodes, -1, 0, m->size};
    for (int r = 0; r < m->size; r++) {
        t->ranks[r] = bits >> r & 1;
        t->machine.weights[r] = t->ranks[r] ? 1 + r % 3 : 0;
        t->nodes[m->rank_node[r]] |= t->ranks[r];
        t->holders.count += t->ranks[r];
        if (t->ranks[r] && t->holders.first < 0)
            t->holders.first = r;
    }
    for (int r = 0; r < m->size; r++)
        t->ranks_of_nodes[r] = t->nodes[m->rank_node[r]];
}

static void move_between_groups(const struct machine *m, unsigned from_bits, unsigned to_bits) {
    static const enum mmul_placement_kind kinds[] = {
        MMUL_PLACE_FILE, MMUL_PLACE_ROWS, MMUL_PLACE_COLS, MMUL_PLACE_REPLICATE, MMUL_PLACE_CYCLIC};
    enum { COUNT = sizeof kinds / sizeof *kinds, MOST = 5 };
    const struct mmul_shape shape = {1, 2, 3, 11};
    struct rank_group from, to;
    struct offsets a, b;
    make_group(m, from_bits, &from);
    make_group(m, to_bits, &to);
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < COUNT; j++) {
            struct mmul_move move = {.shape = shape,
                                     .from = make_placement(&from.machine, shape, kinds[i], &a),
                                     .to = make_placement(&to.machine, shape, kinds[j], &b),
                                     .size = m->size,
                                     .node_count = m->nodes,
                                     .rank_node = m->rank_node};
            move.from.holders = i > 0 ? &from.holders : NULL;
            move.to.holders = j > 0 ? &to.holders : NULL;
            move_one(m, &move, MOST);
        }
}

static void every_pair_of_groups_is_moved(void **state) {
    (void)state;
    for (size_t m = 0; m < sizeof MACHINES / sizeof *MACHINES && MACHINES[m].size <= 5; m++)
        for (unsigned from = 1; from < 1U << MACHINES[m].size; from++)
            for (unsigned to = 1; to < 1U << MACHINES[m].size; to++)
                move_between_groups(&MACHINES[m], from, to);
}

// Thousands of ranks: a node walks only its own pieces.
static void a_node_walks_only_its_own_pieces(void **state) {
    (void)state;
    enum { MANY = 4096 };
    static int rank_node[MANY];
    static int64_t offsets[MANY + 1];
    static double weights[MANY];
    struct mmul_error err;
    for (int r = 0; r < MANY; r++) {
        rank_node[r] = r / 4;
        weights[r] = 1 + r % 3;
    }
    const struct mmul_shape shape = {1, 1, 262144, 262144};
    assert_int_equal(mmul_split_offsets(shape.rows, MANY, weights, MMUL_SPLIT_EXACT, offsets, &err),
                     MMUL_OK);
    const struct mmul_move move = {
        .shape = shape,
        .from = {.kind = MMUL_PLACE_ROWS,
                 .row_parts = MANY,
                 .col_parts = 1,
                 .row_offsets = offsets},
        .to = {.kind = MMUL_PLACE_COLS, .row_parts = 1, .col_parts = MANY, .col_offsets = offsets},
        .size = MANY,
        .node_count = MANY / 4,
        .rank_node = rank_node};
    int64_t elements = 0,
            expected = (offsets[404] - offsets[400]) * (offsets[2004] - offsets[2000]);
    struct mmul_move_walk walk = mmul_move_walk(&move, 100, 500, 1 << 20);
    struct mmul_move_piece piece;
    while (mmul_move_next(&walk, &piece))
        elements += mmul_region_count(piece.region);
    assert_int_equal(elements, expected);
}

static void expect_text(const char *expected, struct mmul_placement placement) {
    char text[96];
    assert_string_equal(mmul_placement_format(&placement, text), expected);
}

static void placements_are_printed(void **state) {
    (void)state;
    static const int64_t rows[] = {0, 2050, 3075, 4096}, cols[] = {0, 3, 9};
    static const int64_t many[] = {0, 1, 2, 3, 4, 5, 6};
    char text[96];
    expect_text("rows 0 2050 3075 4096",
                (struct mmul_placement){
                    .kind = MMUL_PLACE_ROWS, .row_parts = 3, .col_parts = 1, .row_offsets = rows});
    expect_text("grid 0 2050 3075 4096 x 0 3 9", (struct mmul_placement){.kind = MMUL_PLACE_GRID,
                                                                         .row_parts = 3,
                                                                         .col_parts = 2,
                                                                         .row_offsets = rows,
                                                                         .col_offsets = cols});
    expect_text("grid cols 0 3 9", (struct mmul_placement){.kind = MMUL_PLACE_GRID_COLS,
                                                           .row_parts = 3,
                                                           .col_parts = 2,
                                                           .col_offsets = cols});
    expect_text("grid rows of 6 x 2 parts", (struct mmul_placement){.kind = MMUL_PLACE_GRID_ROWS,
                                                                    .row_parts = 6,
                                                                    .col_parts = 2,
                                                                    .row_offsets = many});
    expect_text("cols in 6 parts",
                (struct mmul_placement){
                    .kind = MMUL_PLACE_COLS, .row_parts = 1, .col_parts = 6, .col_offsets = many});
    expect_text("grid of 6 x 2 parts", (struct mmul_placement){.kind = MMUL_PLACE_GRID,
                                                               .row_parts = 6,
                                                               .col_parts = 2,
                                                               .row_offsets = many,
                                                               .col_offsets = cols});
    expect_text("cyclic 2 0 3 9", (struct mmul_placement){.kind = MMUL_PLACE_CYCLIC,
                                                          .row_parts = 1,
                                                          .col_parts = 2,
                                                          .col_offsets = cols,
                                                          .dealt = {.cols = 2}});
    expect_text("cyclic 64 in 6 parts", (struct mmul_placement){.kind = MMUL_PLACE_CYCLIC,
                                                                .row_parts = 1,
                                                                .col_parts = 6,
                                                                .col_offsets = many,
                                                                .dealt = {.cols = 64}});
    expect_text("replicate", (struct mmul_placement){.kind = MMUL_PLACE_REPLICATE});
    const bool some[] = {false, true, false, true, true};
    struct mmul_holders holders = {.ranks = some, .first = 1, .count = 3, .size = 5};
    const struct mmul_placement whole = {.kind = MMUL_PLACE_REPLICATE, .holders = &holders};
    assert_string_equal(mmul_placement_format(&whole, text), "replicate on 1 3 4");
    holders.count = 100;
    assert_string_equal(mmul_placement_format(&whole, text), "replicate on 100 ranks");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_placements_is_moved),
        cmocka_unit_test(every_pair_of_groups_is_moved),
        cmocka_unit_test(a_node_walks_only_its_own_pieces),
        cmocka_unit_test(placements_are_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
