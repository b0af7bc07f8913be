// SPDX-License-Identifier: MIT
//
// A block with an error is recomputed as a whole, even if the check saw only a part of the errors.
// Operands are small integers, so a repaired block equals the naive sums exactly.
#include "verifier_rank.h"

// Spoils an element of another line by less than the check can detect.
static void spoil_below_tolerance(const struct mmul_product *block) {
    float *element = &c_of(block)[15 * block->ldc + 15];
    *element += 4 * (nextafterf(*element, INFINITY) - *element);
}

static void all_of_a_panel_with_wrong_lines_is_computed_again(void **state) {
    (void)state;
    for (int variant = 0; variant < 16; variant++) {
        enum mmul_axis axis = variant / 8 != 0 ? MMUL_COLS : MMUL_ROWS;
        struct bench bench;
        struct rank rank;
        setup(&bench, shape_for(axis, variant), INTEGER, INTEGER, (uint64_t)variant);
        start_rank(&rank, &bench, axis);
        for (int64_t begin = 0; begin < UNITS; begin += PANEL) {
            const struct mmul_product block = panel_of(&bench, axis, begin);
            compute_block(&rank, &block);
            if (begin == PANEL) {
                spoil_below_tolerance(&block);
                assert_int_equal(check_block(&rank, &block), MMUL_OK);
                assert_int_equal(rank.verifier.lines_wrong, 0);
                spoil_lines(&block, axis);
            }
            assert_int_equal(check_block(&rank, &block), MMUL_OK);
        }
        assert_exact(&bench);
        assert_int_equal(rank.verifier.lines_checked, UNITS + PANEL);
        assert_int_equal(rank.verifier.lines_wrong, 4);
        assert_int_equal(rank.verifier.lines_recomputed, PANEL);
        assert_int_equal(rank.worker.products, 5 + 4); // the CPU with another blocking
        assert_int_equal(rank.context.replacements, 1);
        assert_non_null(strstr(mmul_text_get(&rank.context.warnings),
                               axis == MMUL_ROWS ? "'reference': 4 wrong columns in rows "
                                                   "7-68 of matrix 2\n"
                                                 : "'reference': 4 wrong rows in rows "
                                                   "7-68 of matrix 2\n"));
        stop_rank(&rank);
        teardown(&bench);
    }
}

// The CPU errs with the other blocking, too: plain loops recompute the wrong lines, and no others.
static void lines_that_stay_wrong_are_recomputed_by_plain_loops(void **state) {
    (void)state;
    for (int variant = 0; variant < 16; variant++) {
        enum mmul_axis axis = variant / 8 != 0 ? MMUL_COLS : MMUL_ROWS;
        struct bench bench;
        struct rank rank;
        setup(&bench, shape_for(axis, variant), INTEGER, INTEGER, (uint64_t)variant);
        start_rank(&rank, &bench, axis);
        mmul_device_close(rank.context.device);
        strcpy(rank.context.device_name, "faulty:corrupt=*:cpu");
        assert_int_equal(
            mmul_device_open(rank.context.device_name, &rank.context.device, &rank.err), MMUL_OK);
        for (int64_t begin = 0; begin < UNITS; begin += PANEL) {
            const struct mmul_product block = panel_of(&bench, axis, begin);
            compute_block(&rank, &block);
            assert_int_equal(check_block(&rank, &block), MMUL_OK);
        }
        assert_exact(&bench);
        assert_int_equal(rank.verifier.blocks_recomputed, 1);
        assert_in_range(rank.verifier.lines_recomputed, PANEL + 1, PANEL + 4); // four parts
        assert_int_equal(rank.context.replacements, 1);
        assert_string_equal(rank.context.device_name, "reference");
        stop_rank(&rank);
        teardown(&bench);
    }
}

// The check inspects a part of a block that may be wrong; the whole block is recomputed.
static void an_error_in_a_part_recomputes_its_block(void **state) {
    (void)state;
    for (int variant = 0; variant < 16; variant++) {
        enum mmul_axis axis = variant / 8 != 0 ? MMUL_COLS : MMUL_ROWS;
        struct bench bench;
        struct rank rank;
        setup(&bench, shape_for(axis, variant), INTEGER, INTEGER, (uint64_t)variant);
        start_rank(&rank, &bench, axis);
        for (int64_t begin = 0; begin < UNITS; begin += PANEL) {
            const struct mmul_product product = panel_of(&bench, axis, begin),
                                      part = mmul_product_rows(&product, 3, 5);
            const struct mmul_verifier_block block = {&product, &part, "a block"};
            compute_block(&rank, &product);
            if (begin == PANEL) {
                spoil_below_tolerance(&product);
                c_of(&product)[product.ldc + 2] += 1; // outside of the part
            }
            mmul_verifier_invalidate(&rank.verifier);
            assert_int_equal(check_product(&rank.verifier, &rank, &block), MMUL_OK);
            assert_int_equal(rank.verifier.lines_wrong, 0);
            if (begin == PANEL)
                c_of(&product)[4 * product.ldc + 3] += 1;
            mmul_verifier_invalidate(&rank.verifier);
            assert_int_equal(check_product(&rank.verifier, &rank, &block), MMUL_OK);
            assert_int_equal(rank.verifier.lines_wrong, begin == PANEL ? 2 : 0);
            rank.verifier.lines_wrong = 0;
        }
        assert_exact(&bench);
        stop_rank(&rank);
        teardown(&bench);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_a_panel_with_wrong_lines_is_computed_again),
        cmocka_unit_test(lines_that_stay_wrong_are_recomputed_by_plain_loops),
        cmocka_unit_test(an_error_in_a_part_recomputes_its_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
