// SPDX-License-Identifier: MIT
// Meshes of ranks: shares that give no rank much more than its speed justifies. Bytes that nodes
// send and receive, compared with a walk over the pieces of moves.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "model/matrix.h"
#include "plan/parts/mesh.h"
#include "plan/parts/moves.h"
#include "schedules.h"

enum { MOST = 12 };

struct machine {
    int size, nodes, rows;
    int rank_node[MOST];
    double rates[MOST];
    double slowest; // upper bound: time with the best shares, relative to perfect shares
};

static const struct machine MACHINES[] = {
    {1, 1, 1, {0}, {3}, 1.0001},
    {4, 4, 2, {0, 1, 2, 3}, {1, 1, 1, 1}, 1.0001},
    {4, 4, 2, {0, 1, 2, 3}, {2, 4, 3, 6}, 1.0001}, // an outer product
    {4, 2, 2, {0, 0, 1, 1}, {11, 3.3, 3.8, 3.3}, 1.12},
    {4, 2, 2, {0, 1, 0, 1}, {5, 1, 1, 1}, 1.7},
    {5, 3, 2, {0, 0, 1, 1, 2}, {1, 1, 1, 1, 1}, 1.2501}, // one rank is idle
    {6, 3, 2, {0, 0, 1, 1, 2, 2}, {1, 2, 3, 2, 4, 6}, 1.0001},
    {6, 6, 3, {0, 1, 2, 3, 4, 5}, {0, 1, 1, 1, 1, 1}, 1.3},
    {12, 4, 4, {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}, {9, 9, 3, 9, 9, 3, 3, 3, 3, 3, 3, 3}, 1.09},
};

static struct mmul_mesh_request make_request(const struct machine *m) {
    return (struct mmul_mesh_request){m->size, m->nodes, m->rank_node, m->rates};
}

static double sum_of(const double *shares, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += shares[i];
    return sum;
}

static void shares_follow_the_speeds(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof MACHINES / sizeof *MACHINES; i++) {
        const struct machine *m = &MACHINES[i];
        const struct mmul_mesh_request request = make_request(m);
        struct mmul_mesh mesh;
        struct mmul_error err;
        double most = 0;
        assert_int_equal(mmul_mesh_init(&mesh, &request, &err), MMUL_OK);
        assert_true(mmul_mesh_set(&mesh, &request, m->rows, m->size / m->rows, 0));
        assert_true(fabs(sum_of(mesh.row_shares, mesh.rows) - 1) < 1e-12);
        assert_true(fabs(sum_of(mesh.col_shares, mesh.cols) - 1) < 1e-12);
        for (int rank = 0; rank < mesh.rows * mesh.cols; rank++) {
            double share = mesh.row_shares[rank / mesh.cols] * mesh.col_shares[rank % mesh.cols];
            assert_true(share == 0 || m->rates[rank] > 0);
            if (share > 0)
                most = fmax(most, share / m->rates[rank]);
        }
        if (most * sum_of(m->rates, m->size) > m->slowest)
            fail_msg("machine %d: %.4f of the ideal", (int)i, most * sum_of(m->rates, m->size));
        assert_true(mmul_mesh_set(&mesh, &request, m->rows, m->size / m->rows, 1));
        int busy = 0;
        for (int row = 0; row < mesh.rows; row++)
            busy += mesh.row_shares[row] > 0;
        for (int row = 0; row < mesh.rows; row++)
            assert_true(mesh.row_shares[row] == 0 || fabs(mesh.row_shares[row] * busy - 1) < 1e-12);
        mmul_mesh_fini(&mesh);
    }
}

static void a_mesh_that_no_rank_can_fill_is_refused(void **state) {
    (void)state;
    static const int rank_node[] = {0, 0, 0, 0, 1};
    static const double rates[] = {0, 0, 0, 0, 1};
    const struct mmul_mesh_request request = {5, 2, rank_node, rates};
    struct mmul_mesh mesh;
    struct mmul_error err;
    assert_int_equal(mmul_mesh_init(&mesh, &request, &err), MMUL_OK);
    assert_false(mmul_mesh_set(&mesh, &request, 2, 2, 0));
    assert_true(mmul_mesh_set(&mesh, &request, 5, 1, 0));
    assert_true(mesh.row_shares[4] == 1);
    mmul_mesh_fini(&mesh);
}

static int64_t count_moved(const struct mmul_move *move, int from, int to) {
    struct mmul_move_walk walk = mmul_move_walk(move, from, to, 1 << 20);
    struct mmul_move_piece piece;
    int64_t elements = 0;
    while (mmul_move_next(&walk, &piece))
        elements += mmul_region_count(piece.region);
    return elements;
}

// Not all rates allow shares that are whole numbers of `units`. The offsets are derived from the
// shares, and counts differ by their rounding.
static void check_nodes(const struct machine *m, const struct mmul_mesh *mesh, bool rows) {
    enum { SIDE = 100000 };
    int64_t row_offsets[MOST + 1], col_offsets[MOST + 1];
    struct mmul_error err;
    const struct mmul_shape shape = {1, 1, SIDE, SIDE};
    mmul_split_offsets(SIDE, mesh->rows, mesh->row_shares, MMUL_SPLIT_EXACT, row_offsets, &err);
    mmul_split_offsets(SIDE, mesh->cols, mesh->col_shares, MMUL_SPLIT_EXACT, col_offsets, &err);
    struct mmul_move move = {.shape = shape,
                             .from = {.kind = MMUL_PLACE_GRID,
                                      .row_parts = mesh->rows,
                                      .col_parts = mesh->cols,
                                      .row_offsets = row_offsets,
                                      .col_offsets = col_offsets},
                             .size = m->size,
                             .node_count = m->nodes,
                             .rank_node = m->rank_node};
    move.to = move.from;
    move.to.kind = rows ? MMUL_PLACE_GRID_ROWS : MMUL_PLACE_GRID_COLS;
    *(rows ? &move.to.col_offsets : &move.to.row_offsets) = NULL;
    for (int node = 0; node < m->nodes; node++) {
        const struct mmul_mesh_node *n = &mesh->nodes[node];
        double sent = 0, taken = 0, all = (double)SIDE * SIDE;
        for (int other = 0; other < m->nodes; other++) {
            sent += other != node ? (double)count_moved(&move, node, other) : 0;
            taken += other != node ? (double)count_moved(&move, other, node) : 0;
        }
        assert_true(fabs(sent / all - (rows ? n->row_sends : n->col_sends)) < 1e-4);
        assert_true(fabs(taken / all - ((rows ? n->rows : n->cols) - n->block)) < 1e-4);
    }
}

static void bytes_of_nodes_equal_a_walk_over_moves(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof MACHINES / sizeof *MACHINES; i++) {
        const struct machine *m = &MACHINES[i];
        const struct mmul_mesh_request request = make_request(m);
        struct mmul_mesh mesh;
        struct mmul_error err;
        assert_int_equal(mmul_mesh_init(&mesh, &request, &err), MMUL_OK);
        for (int rows = 1; rows <= m->size; rows++)
            for (int even = 0; even < 2; even++) {
                if (!mmul_mesh_set(&mesh, &request, rows, m->size / rows, even))
                    continue;
                check_nodes(m, &mesh, true);
                check_nodes(m, &mesh, false);
            }
        mmul_mesh_fini(&mesh);
    }
}

static void candidates_are_nearly_full_meshes(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 5, 12, 17};
    static const char *const expected[] = {"1x1 ", "1x2 2x1 ", "1x5 2x2 5x1 ",
                                           "1x12 2x6 3x4 4x3 6x2 12x1 ", "1x17 3x5 4x4 5x3 17x1 "};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char text[160] = "";
        for (int rows = 1; rows <= sizes[i]; rows++)
            if (mmul_mesh_is_candidate(sizes[i], rows))
                snprintf(text + strlen(text), sizeof text - strlen(text), "%dx%d ", rows,
                         sizes[i] / rows);
        assert_string_equal(text, expected[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(shares_follow_the_speeds, assert_no_live_bytes),
        cmocka_unit_test_teardown(a_mesh_that_no_rank_can_fill_is_refused, assert_no_live_bytes),
        cmocka_unit_test_teardown(bytes_of_nodes_equal_a_walk_over_moves, assert_no_live_bytes),
        cmocka_unit_test_teardown(candidates_are_nearly_full_meshes, assert_no_live_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
