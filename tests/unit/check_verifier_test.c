// SPDX-License-Identifier: MIT
//
// Checks and repairs blocks of a result, panel after panel; a block that stays wrong is an error.
// Operands are small integers, so a repaired block equals the naive sums exactly.
#include "base/status.h"
#include "verifier_rank.h"

#include "model/check_state.h"

// Two errors in a line that cancel for the first random x stay hidden, but not in a block that has
// another wrong line.
static void cancelling_errors_are_found_beside_other_errors(void **state) {
    (void)state;
    for (int variant = 0; variant < 2; variant++) {
        enum mmul_axis axis = variant != 0 ? MMUL_COLS : MMUL_ROWS;
        struct bench bench;
        struct rank rank;
        struct mmul_check *first = NULL;
        unsigned char wrong[PANEL];
        setup(&bench, shape_for(axis, 0), INTEGER, INTEGER, 4);
        start_rank(&rank, &bench, axis);
        const struct mmul_product block = panel_of(&bench, axis, 0);
        const struct mmul_product transposed =
            axis == MMUL_ROWS ? mmul_product_transpose(&block) : block;
        compute_block(&rank, &block);
        assert_int_equal(mmul_check_create(PIECE, K, &first, &rank.err), MMUL_OK);
        assert_int_equal(mmul_check_begin(first, &transposed, rank.verifier.seed, &rank.err),
                         MMUL_OK);
        int64_t along = axis == MMUL_ROWS ? block.ldc : 1,
                across = axis == MMUL_ROWS ? 1 : block.ldc;
        c_of(&block)[7 * across + 30 * along] += 100;
        c_of(&block)[7 * across + 50 * along] -= (float)(100 * first->x[30] / first->x[50]);
        assert_int_equal(mmul_check_rows(first, &transposed, 0, PANEL, wrong), 0); // hidden indeed
        c_of(&block)[11 * across + 40 * along] += 1;
        assert_int_equal(check_block(&rank, &block), MMUL_OK);
        assert_int_equal(rank.verifier.lines_wrong, 2);
        for (int64_t begin = PANEL; begin < UNITS; begin += PANEL) {
            const struct mmul_product rest = panel_of(&bench, axis, begin);
            compute_block(&rank, &rest);
            assert_int_equal(check_block(&rank, &rest), MMUL_OK);
        }
        assert_exact(&bench);
        mmul_check_destroy(first);
        stop_rank(&rank);
        teardown(&bench);
    }
}

static void a_block_that_no_device_repairs_is_an_error(void **state) {
    (void)state;
    struct bench bench;
    struct rank rank;
    setup(&bench, shape_for(MMUL_ROWS, 0), INTEGER, INTEGER, 1);
    start_rank(&rank, &bench, MMUL_ROWS);
    const struct mmul_product block = panel_of(&bench, MMUL_ROWS, 0);
    compute_block(&rank, &block);
    c_of(&block)[5] += 1;
    assert_int_equal(check_block(&rank, &block), MMUL_OK);
    assert_non_null(strstr(mmul_text_get(&rank.context.warnings), "1 wrong column in rows 7-68"));
    c_of(&block)[5] += 1;
    assert_int_equal(check_block(&rank, &block),
                     MMUL_ERR_WRONG); // the reference device was the last one
    assert_string_equal(rank.err.text, "rank 3: result is wrong in rows 7-68 of matrix 2, also "
                                       "after a second computation");
    assert_string_equal(rank.err.hint, "suspect the memory or the processor of that machine");
    stop_rank(&rank);
    teardown(&bench);
}

// Counts the calls of `watch_repair`, which refuses from number `refuses_from` on.
struct watch {
    int calls, refuses_from;
    int64_t done, total;
};

static enum mmul_status watch_repair(void *context, int64_t done, int64_t total,
                                     struct mmul_error *err) {
    struct watch *watch = context;
    watch->done = done;
    watch->total = total;
    if (++watch->calls < watch->refuses_from)
        return MMUL_OK;
    return mmul_fail(err, MMUL_ERR_DATA, "'B.bin' was written to");
}

// The verifier calls `watch_repair` before and after it recomputes a block. The device is replaced
// only if neither call refuses.
static void the_watch_can_stop_a_repair_before_a_device_is_replaced(void **state) {
    (void)state;
    for (int refuses_from = 1; refuses_from <= 3; refuses_from++) {
        struct bench bench;
        struct rank rank;
        struct watch watch = {.refuses_from = refuses_from};
        setup(&bench, shape_for(MMUL_ROWS, 0), INTEGER, INTEGER, 1);
        start_rank(&rank, &bench, MMUL_ROWS);
        rank.verifier.watch = (struct mmul_verifier_callback){watch_repair, &watch};
        const struct mmul_product block = panel_of(&bench, MMUL_ROWS, 0);
        compute_block(&rank, &block);
        assert_int_equal(check_block(&rank, &block), MMUL_OK);
        assert_int_equal(watch.calls, 0);
        spoil_lines(&block, MMUL_ROWS);
        enum mmul_status status = check_block(&rank, &block);
        assert_int_equal(status, refuses_from < 3 ? MMUL_ERR_DATA : MMUL_OK);
        assert_int_equal(watch.calls, refuses_from < 3 ? refuses_from : 2);
        assert_int_equal(watch.total, refuses_from == 1 ? 4 : PANEL);
        assert_int_equal(watch.done, refuses_from == 1 ? 0 : PANEL);
        assert_int_equal(rank.context.replacements, refuses_from < 3 ? 0 : 1);
        stop_rank(&rank);
        teardown(&bench);
    }
}

static void assert_computed_and_right(struct rank *rank, const struct mmul_product *block) {
    compute_block(rank, block);
    assert_int_equal(check_block(rank, block), MMUL_OK);
    assert_int_equal(rank->context.replacements, 0);
}

// Two pieces in turn. A verifier of two caches both projections, a verifier of one projects each
// time. The test changes the first piece without notice: a cached projection then reports a wrong
// result.
static void as_many_projections_are_cached_as_requested(void **state) {
    (void)state;
    for (int count = 1; count <= 2; count++) {
        struct bench bench;
        struct rank rank;
        setup(&bench, shape_for(MMUL_ROWS, 0), INTEGER, INTEGER, 2);
        start_rank(&rank, &bench, MMUL_ROWS);
        const struct mmul_verifier_request request = {.axis = MMUL_ROWS,
                                                      .piece_units_max = PIECE,
                                                      .panel_units_max = PANEL,
                                                      .k_max = K,
                                                      .piece_count = count,
                                                      .seed = 5};
        assert_int_equal(mmul_verifier_init(&rank.verifier, &rank.room, &request, &rank.err),
                         MMUL_OK);
        struct mmul_product one = panel_of(&bench, MMUL_ROWS, 0), other = one;
        one.m = PIECE / 2;
        other.m = PIECE / 2 - 1;
        assert_computed_and_right(&rank, &one);
        assert_computed_and_right(&rank, &other);
        ((float *)bench.a_narrow)[1] += 2;
        compute_block(&rank, &one);
        // a result that looks wrong is projected anew
        assert_int_equal(check_block(&rank, &one), MMUL_OK);
        assert_int_equal(rank.verifier.lines_wrong > 0, count == 2);
        assert_int_equal(rank.context.replacements, count == 2);
        stop_rank(&rank);
        teardown(&bench);
    }
}

// A persistent piece is projected once and shared by the next verifier, until its memory is
// declared to hold another piece. The test shows this by changing its numbers without notice. The
// cached sums still find wrong lines.
static void a_persistent_piece_is_projected_once(void **state) {
    (void)state;
    enum { LASTS, IS_FORGOTTEN, DOES_NOT_LAST, WAYS };
    for (int variant = 0; variant < 16 * WAYS; variant++) {
        enum mmul_axis axis = variant / 8 % 2 != 0 ? MMUL_COLS : MMUL_ROWS;
        const int way = variant / 16;
        struct bench bench;
        struct rank rank;
        setup(&bench, shape_for(axis, variant), INTEGER, INTEGER, 2);
        start_rank(&rank, &bench, axis);
        struct mmul_verifier_request request = {.axis = axis,
                                                .piece_units_max = PIECE,
                                                .panel_units_max = PANEL,
                                                .k_max = K,
                                                .piece_count = 1,
                                                .cached_count = way == DOES_NOT_LAST ? 0 : 2,
                                                .seed = 5};
        float *piece = axis == MMUL_ROWS ? bench.a_narrow : bench.b_narrow;
        for (int turn = 0; turn < 3; turn++) {
            assert_int_equal(mmul_verifier_init(&rank.verifier, &rank.room, &request, &rank.err),
                             MMUL_OK);
            const struct mmul_product block = panel_of(&bench, axis, turn * PANEL);
            compute_block(&rank, &block);
            piece[1] += turn == 1 ? 2 : 0; // C does not follow this change
            if (turn == 1 && way == IS_FORGOTTEN)
                mmul_verifier_invalidate_memory(&rank.room, piece, piece + 1);
            if (turn == 2)
                spoil_lines(&block, axis);
            assert_int_equal(check_block(&rank, &block), MMUL_OK);
            const bool is_found = turn == 2 || (turn == 1 && way != LASTS);
            assert_int_equal(rank.verifier.lines_wrong > 0, is_found);
            assert_true(turn < 2 || rank.verifier.lines_wrong == 4);
            piece[1] -= turn == 1 ? 2 : 0;
            if (turn == 1 && is_found)
                break; // the last device has taken over
        }
        stop_rank(&rank);
        teardown(&bench);
    }
}

// A piece at another place, or of another size or leading dimension, is noticed. Other numbers at
// the same place must be announced, otherwise the old sums judge them.
static void a_projection_is_reused_until_the_piece_changes(void **state) {
    (void)state;
    for (int variant = 0; variant < 2; variant++) {
        enum mmul_axis axis = variant != 0 ? MMUL_COLS : MMUL_ROWS;
        struct bench bench;
        struct rank rank;
        setup(&bench, shape_for(axis, variant != 0 ? 2 : 0), INTEGER, INTEGER, 2);
        start_rank(&rank, &bench, axis);
        struct mmul_product block = panel_of(&bench, axis, 0);
        const void **piece = axis == MMUL_ROWS ? &block.a : &block.b; // starts at another unit
        int64_t *units = axis == MMUL_ROWS ? &block.m : &block.n;
        float *first = axis == MMUL_ROWS ? bench.a_narrow : bench.b_narrow;
        assert_computed_and_right(&rank, &block);
        first[1] += 2;
        mmul_verifier_invalidate(&rank.verifier);
        assert_computed_and_right(&rank, &block);
        *units -= 5;
        assert_computed_and_right(&rank, &block);
        *piece = first + bench.product.lda;
        assert_computed_and_right(&rank, &block);
        *units = PIECE / 2;
        assert_computed_and_right(&rank, &block);
        *(axis == MMUL_ROWS ? &block.lda : &block.ldb) *= 2;
        assert_computed_and_right(&rank, &block);
        *(axis == MMUL_ROWS ? &block.lda : &block.ldb) /= 2;
        assert_computed_and_right(&rank, &block);
        *units = PIECE - 1; // one more than before: its last unit counts
        compute_block(&rank, &block);
        c_of(&block)[axis == MMUL_ROWS ? (PIECE - 2) * block.ldc : PIECE - 2] += 1;
        assert_int_equal(check_block(&rank, &block), MMUL_OK);
        assert_int_equal(rank.verifier.lines_wrong, 1);
        first[bench.product.lda + 1] += 2;
        compute_block(&rank, &block);
        assert_int_equal(check_block(&rank, &block), MMUL_ERR_WRONG);
        stop_rank(&rank);
        teardown(&bench);
    }
}

static void blocks_with_alpha_0_are_checked_and_repaired(void **state) {
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        enum mmul_axis axis = variant / 2 != 0 ? MMUL_COLS : MMUL_ROWS;
        struct bench bench;
        struct rank rank;
        struct mmul_product shape = shape_for(axis, variant % 2 * 4);
        shape.alpha = 0;
        setup(&bench, shape, INTEGER, INTEGER, 3);
        bench.product.a = bench.product.b = NULL;
        start_rank(&rank, &bench, axis);
        for (int64_t begin = 0; begin < UNITS; begin += PANEL) {
            struct mmul_product block = panel_of(&bench, axis, begin);
            block.a = block.b = NULL;
            compute_block(&rank, &block);
            if (begin == PANEL)
                spoil_lines(&block, axis);
            assert_int_equal(check_block(&rank, &block), MMUL_OK);
        }
        assert_exact(&bench);
        assert_int_equal(rank.verifier.lines_checked, UNITS);
        assert_int_equal(rank.verifier.lines_wrong, 4);
        stop_rank(&rank);
        teardown(&bench);
    }
}

// Two stages that multiply at the same place: cached sums of one are not used by the other.
static void verifiers_do_not_share_cached_sums(void **state) {
    (void)state;
    struct bench bench;
    struct rank rank;
    setup(&bench, shape_for(MMUL_ROWS, 0), INTEGER, INTEGER, 2);
    start_rank(&rank, &bench, MMUL_ROWS);
    struct mmul_product product = panel_of(&bench, MMUL_ROWS, 0);
    assert_computed_and_right(&rank, &product);
    ((float *)bench.a_narrow)[1] += 2;
    const struct mmul_verifier_request request = {.axis = MMUL_ROWS,
                                                  .piece_units_max = PIECE,
                                                  .panel_units_max = PANEL,
                                                  .k_max = K,
                                                  .piece_count = 1,
                                                  .seed = 5};
    assert_int_equal(mmul_verifier_init(&rank.verifier, &rank.room, &request, &rank.err), MMUL_OK);
    struct mmul_verifier first = rank.verifier;
    assert_computed_and_right(&rank, &product);
    ((float *)bench.a_narrow)[1] += 2;
    compute_block(&rank, &product);
    const struct mmul_verifier_block block = {.product = &product, .place = "a block"};
    assert_int_equal(check_product(&first, &rank, &block), MMUL_OK);
    assert_int_equal(first.lines_wrong, 0);
    assert_int_equal(rank.context.replacements, 0);
    stop_rank(&rank);
    teardown(&bench);
}

static void memory_equals_the_promised_size(void **state) {
    (void)state;
    struct mmul_verifier verifier;
    struct mmul_verifier_memory room = {0};
    struct mmul_error err;
    struct mmul_verifier_request request = {
        .piece_units_max = 500, .panel_units_max = 300, .k_max = 70, .piece_count = 3};
    assert_int_equal(mmul_verifier_init(&verifier, &room, &request, &err), MMUL_OK);
    int64_t promised = 3 * mmul_check_bytes(500, 70) + 300;
    assert_in_range(mmul_live_bytes(), promised, promised + 512);
    int64_t live = mmul_live_bytes();
    request.panel_units_max = 200; // another size, which fits
    assert_int_equal(mmul_verifier_init(&verifier, &room, &request, &err), MMUL_OK);
    assert_int_equal(mmul_live_bytes(), live);
    request.k_max = 71; // and one that does not
    assert_int_equal(mmul_verifier_init(&verifier, &room, &request, &err), MMUL_OK);
    promised = 3 * mmul_check_bytes(500, 71) + 300;
    assert_in_range(mmul_live_bytes(), promised, promised + 512);
    live = mmul_live_bytes();
    request.cached_count = 1000; // persistent pieces
    assert_int_equal(mmul_verifier_init(&verifier, &room, &request, &err), MMUL_OK);
    assert_true(room.size.cached_count > 1);
    const int64_t saved = mmul_live_bytes() - live;
    assert_in_range(saved, 2 * mmul_check_saved_count(500, 71) * 8,
                    mmul_check_bytes(500, 71) / 2 + room.size.cached_count * 160);
    mmul_verifier_room_fini(&room);
    mmul_verifier_room_fini(&room);
    assert_int_equal(mmul_live_bytes(), 0);
}

// A wide product of few terms and a narrow one of many take turns in the room of the larger one.
// Room reserved for many short pieces does not hold as many long ones.
static void memory_is_that_of_the_largest_stage(void **state) {
    (void)state;
    enum { MANY = 200000, FEW = 3 };
    struct mmul_verifier verifier;
    struct mmul_verifier_memory room = {0};
    struct mmul_error err;
    const struct mmul_verifier_request wide = {.piece_units_max = MANY,
                                               .panel_units_max = FEW,
                                               .k_max = FEW,
                                               .piece_count = 1},
                                       deep = {.piece_units_max = FEW,
                                               .panel_units_max = FEW,
                                               .k_max = MANY,
                                               .piece_count = 1,
                                               .cached_count = 1},
                                       small = {.piece_units_max = FEW,
                                                .panel_units_max = FEW,
                                                .k_max = FEW,
                                                .piece_count = 1,
                                                .cached_count = 500};
    const int64_t one = mmul_check_bytes(MANY, FEW), other = mmul_check_bytes(FEW, MANY),
                  largest = one > other ? one : other;
    assert_int_equal(mmul_verifier_init(&verifier, &room, &wide, &err), MMUL_OK);
    assert_int_equal(mmul_verifier_init(&verifier, &room, &deep, &err), MMUL_OK);
    assert_int_equal(mmul_verifier_init(&verifier, &room, &small, &err), MMUL_OK);
    assert_in_range(mmul_live_bytes(), largest, largest + largest / 2 + (int64_t)500 * 160);
    mmul_verifier_room_fini(&room);
    assert_int_equal(mmul_live_bytes(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancelling_errors_are_found_beside_other_errors),
        cmocka_unit_test(a_block_that_no_device_repairs_is_an_error),
        cmocka_unit_test(the_watch_can_stop_a_repair_before_a_device_is_replaced),
        cmocka_unit_test(as_many_projections_are_cached_as_requested),
        cmocka_unit_test(a_persistent_piece_is_projected_once),
        cmocka_unit_test(a_projection_is_reused_until_the_piece_changes),
        cmocka_unit_test(blocks_with_alpha_0_are_checked_and_repaired),
        cmocka_unit_test(verifiers_do_not_share_cached_sums),
        cmocka_unit_test(memory_equals_the_promised_size),
        cmocka_unit_test(memory_is_that_of_the_largest_stage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
