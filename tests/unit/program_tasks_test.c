// SPDX-License-Identifier: MIT
// Lists of a program's steps. Blocks of a rank: the walk skips runs of equal blocks without losing
// any; any lines of a task map to the blocks that contain them. Pieces of moves: each node receives
// the pieces that the others send.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "clusters.h"
#include "model/matrix.h"
#include "plan/lists/tasks.h"
#include "plan/lists/transfers.h"
#include "plan/program/program_make.h"

static int generate(struct mmul_program *p, struct mmul_shape shape,
                    enum mmul_placement_kind kind) {
    const struct mmul_generated made = {MMUL_GENERATE_INTEGER, 1, shape};
    struct mmul_error err;
    int value;
    assert_int_equal(mmul_program_generate(p, made, NULL, &value, &err), MMUL_OK);
    assert_int_equal(mmul_program_place(p, value, kind, NULL, &value, &err), MMUL_OK);
    return value;
}

static int apply(struct mmul_program *p, const char *operation, int x, int y) {
    const struct mmul_call call = {
        .operation = operation, .operands = {x, y}, .operand_count = y < 0 ? 1 : 2};
    struct mmul_error err;
    int value;
    if (mmul_program_apply(p, &call, NULL, &value, &err) != MMUL_OK)
        fail_msg("%s", err.text);
    return value;
}

// Compares skipped blocks with those of a walk that skips nothing. Returns their number.
static int64_t compare_walks(const struct mmul_program_plan *plan,
                             const struct mmul_program_step *step, int rank) {
    struct mmul_block_walk all = mmul_step_blocks(plan, step, rank), some = all;
    struct mmul_block block, of_all;
    int64_t count = 0;
    while (mmul_blocks_next(&some, &block)) {
        const int64_t alike = 1 + mmul_blocks_skip_alike(&some, &block);
        for (int64_t i = 0; i < alike; i++) {
            assert_true(mmul_blocks_next(&all, &of_all));
            assert_memory_equal(&block, &of_all, sizeof block);
            block.at.matrix++;
            block.line += some.by_cols ? block.at.col_end - block.at.col_begin
                                       : block.at.row_end - block.at.row_begin;
        }
        count++;
    }
    assert_false(mmul_blocks_next(&all, &of_all));
    assert_int_equal(some.line, all.line);
    return count;
}

// Checks that the only task covers the whole of the rank, and that any two parts of its lines are
// blocks that add up to it.
static void compare_tasks(const struct mmul_program_plan *plan,
                          const struct mmul_program_step *step, int rank) {
    const struct mmul_tasks tasks = mmul_tasks_of_step(plan, step, rank);
    const struct mmul_task task = mmul_tasks_at(&tasks, 0);
    struct mmul_block_walk walk = mmul_step_blocks(plan, step, rank);
    struct mmul_block block;
    int64_t elements = 0;
    assert_int_equal(tasks.count, 1);
    assert_int_equal(task.line_end, tasks.positions);
    while (mmul_blocks_next(&walk, &block))
        elements += mmul_region_count(block.at);
    assert_int_equal(elements, tasks.positions * tasks.width);
    for (int64_t cut = 0; cut <= tasks.positions; cut++) {
        const struct mmul_range parts[] = {{0, cut}, {cut, tasks.positions}};
        int64_t line = 0, matrix = -1, first = 0;
        for (int i = 0; i < 2; i++) {
            walk = mmul_task_blocks(&tasks, &task, parts[i]);
            while (mmul_blocks_next(&walk, &block)) {
                if (mmul_region_count(block.at) == 0)
                    continue;
                assert_int_equal(block.line, line);
                assert_true(block.at.matrix > matrix ||
                            (walk.by_cols ? block.at.col_begin : block.at.row_begin) == first);
                line += walk.by_cols ? block.at.col_end - block.at.col_begin
                                     : block.at.row_end - block.at.row_begin;
                matrix = block.at.matrix;
                first = walk.by_cols ? block.at.col_end : block.at.row_end;
            }
            assert_int_equal(line, parts[i].end);
        }
    }
}

static void equal_blocks_are_skipped_without_loss(void **state) {
    (void)state;
    static const enum mmul_placement_kind kinds[] = {MMUL_PLACE_ROWS, MMUL_PLACE_COLS,
                                                     MMUL_PLACE_REPLICATE, MMUL_PLACE_GRID};
    const double weights[] = {1, 2, 0.5, 3, 1, 1, 7};
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (int size = 1; size <= 7; size++) {
            struct mmul_cluster *cluster = make_cluster(size, 2);
            struct mmul_program *p;
            struct mmul_program_plan *plan;
            struct mmul_error err;
            assert_int_equal(mmul_program_create(&p, &err), MMUL_OK);
            const int x = generate(p, (struct mmul_shape){3, 5, 7, 6}, kinds[kind]),
                      y = generate(p, (struct mmul_shape){3, 5, 6, 11}, kinds[kind]);
            (void)apply(p, "relu", x, -1);
            (void)apply(p, "matmul", x, y);
            const struct mmul_job_options options = {.keeps_values = true};
            const struct mmul_program_request request = {
                .program = p, .cluster = cluster, .weights = weights, .options = &options};
            if (mmul_program_plan_make(&request, &plan, &err) != MMUL_OK)
                fail_msg("%s", err.text);
            for (int i = 0; i < plan->step_count; i++)
                for (int rank = 0; plan->steps[i].kind != MMUL_STEP_MOVE && rank < size; rank++) {
                    assert_in_range(compare_walks(plan, &plan->steps[i], rank), 0, 3);
                    compare_tasks(plan, &plan->steps[i], rank);
                }
            mmul_program_plan_destroy(plan);
            mmul_program_destroy(p);
            mmul_cluster_destroy(cluster);
        }
}

// ------------------------------------------------------------------------------------------ pieces

// Finds the next transfer to, or from, that node.
static bool next_with(struct mmul_transfers *list, int peer, struct mmul_transfer *transfer) {
    while (mmul_transfers_next(list, transfer))
        if ((list->route == MMUL_ROUTE_SEND ? transfer->to : transfer->from) == peer)
            return true;
    return false;
}

// Returns the number of elements that travel.
static int64_t compare_ends(const struct mmul_move_set *moving, int from, int to) {
    struct mmul_transfers out = mmul_transfers_of_moves(moving, from, MMUL_ROUTE_SEND),
                          in = mmul_transfers_of_moves(moving, to, MMUL_ROUTE_RECEIVE);
    struct mmul_transfer sent, received;
    int64_t elements = 0, sum = 0;
    while (next_with(&out, to, &sent)) {
        assert_true(next_with(&in, from, &received));
        assert_memory_equal(&sent.piece, &received.piece, sizeof sent.piece);
        assert_true(sent.move == received.move && sent.bytes == received.bytes);
        elements += mmul_region_count(sent.piece.region);
    }
    assert_false(next_with(&in, from, &received));
    // Same order as the pieces of the move between the two nodes, with or without panels.
    for (int i = 0; i < moving->count; i++) {
        const struct mmul_move move = mmul_program_step_move(moving->plan, moving->steps[i]);
        struct mmul_move_walk walk = mmul_move_walk(&move, from, to, 1 << 20);
        struct mmul_move_piece piece;
        while (mmul_move_next(&walk, &piece))
            sum += mmul_region_count(piece.region);
    }
    assert_int_equal(elements, sum);
    return elements;
}

// Checks that a list's counter grows panel by panel, up to all panels. Within a panel transfers go
// round by round: in each round all nodes send, each to a different node.
static void check_counts(const struct mmul_move_set *moving, int node, enum mmul_route route) {
    struct mmul_transfers list = mmul_transfers_of_moves(moving, node, route);
    struct mmul_transfer transfer = {0};
    int64_t before = list.reached;
    const int nodes = moving->plan->costs.node_count;
    int move = 0, round = 0;
    bool any = false;
    while (mmul_transfers_next(&list, &transfer)) {
        const int ahead =
            (route == MMUL_ROUTE_SEND ? transfer.to - node + nodes : node - transfer.from + nodes) %
            nodes;
        assert_true(ahead > 0);
        assert_true(ahead >= round || transfer.move != move || moving->panels > 1);
        round = ahead;
        move = transfer.move;
        any = true;
        assert_true(transfer.reached >= before);
        before = transfer.reached;
    }
    assert_int_equal(before, moving->panels);
    if (any)
        assert_int_equal(before, list.reached);
}

static void nodes_receive_the_pieces_that_others_send(void **state) {
    (void)state;
    static const enum mmul_placement_kind kinds[] = {MMUL_PLACE_ROWS, MMUL_PLACE_COLS,
                                                     MMUL_PLACE_REPLICATE, MMUL_PLACE_GRID};
    int64_t travelled = 0;
    int joined = 0;
    for (int i = 0; i < 4 * 4 * 7; i++) {
        const double weights[] = {1, 2, 0.5, 3, 1, 1, 7};
        struct mmul_cluster *cluster = make_cluster(1 + i % 7, 2);
        struct mmul_program *p;
        struct mmul_program_plan *plan;
        struct mmul_error err;
        int z;
        assert_int_equal(mmul_program_create(&p, &err), MMUL_OK);
        const int x = generate(p, (struct mmul_shape){1, 1, 1500, 1000}, kinds[i / 7 % 4]),
                  y = generate(p, (struct mmul_shape){1, 1, 1000, 1200}, kinds[i / 28]);
        z = apply(p, "matmul", x, y);
        assert_int_equal(mmul_program_place(p, z, MMUL_PLACE_GRID, NULL, &z, &err), MMUL_OK);
        assert_int_equal(mmul_program_place(p, x, kinds[i / 28], NULL, &z, &err), MMUL_OK);
        const struct mmul_job_options options = {.keeps_values = true};
        const struct mmul_program_request request = {
            .program = p, .cluster = cluster, .weights = weights, .options = &options};
        if (mmul_program_plan_make(&request, &plan, &err) != MMUL_OK)
            fail_msg("%s", err.text);
        for (int s = 0; s < plan->step_count; s++) {
            struct mmul_move_set moving = {.plan = plan, .panels = 1};
            if (plan->steps[s].kind == MMUL_STEP_MOVE && !plan->steps[s].joined)
                moving.steps[moving.count++] = &plan->steps[s];
            else if (plan->steps[s].kind != MMUL_STEP_MOVE)
                moving.count = mmul_program_joined_moves(plan, s, moving.steps);
            if (plan->steps[s].kind != MMUL_STEP_MOVE && moving.count > 0)
                moving.panels = 3;
            joined += moving.count == 2;
            for (int from = 0; moving.count > 0 && from < plan->costs.node_count; from++) {
                check_counts(&moving, from, MMUL_ROUTE_SEND);
                check_counts(&moving, from, MMUL_ROUTE_RECEIVE);
                for (int to = 0; to < plan->costs.node_count; to++)
                    if (to != from)
                        travelled += compare_ends(&moving, from, to);
            }
        }
        mmul_program_plan_destroy(plan);
        mmul_program_destroy(p);
        mmul_cluster_destroy(cluster);
    }
    assert_true(travelled > 10000 && joined > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_blocks_are_skipped_without_loss),
                                       cmocka_unit_test(nodes_receive_the_pieces_that_others_send)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
