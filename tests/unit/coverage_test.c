// SPDX-License-Identifier: MIT
// Coverage: missing lines of random sets of regions, against a map of single elements.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "io/coverage.h"
#include "model/matrix.h"

enum { ROWS = 6, COLS = 5, MATRICES = 4, REGIONS = 9 };

static int64_t draw(uint64_t *state, int64_t count) {
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (int64_t)(*state >> 33) % count;
}

// Draws a region; most have whole lines, so that some lines are complete.
static struct mmul_region draw_region(uint64_t *state, struct mmul_shape s) {
    struct mmul_region r = {.matrix = draw(state, mmul_shape_matrices(s))};
    r.row_begin = draw(state, s.rows);
    r.row_end = r.row_begin + 1 + draw(state, s.rows - r.row_begin);
    r.col_begin = draw(state, s.cols);
    r.col_end = r.col_begin + 1 + draw(state, s.cols - r.col_begin);
    const int64_t kind = draw(state, 3);
    if (kind == 0 || draw(state, 4) == 0) {
        r.col_begin = 0;
        r.col_end = s.cols;
    }
    if (kind == 1 || draw(state, 4) == 0) {
        r.row_begin = 0;
        r.row_end = s.rows;
    }
    return r;
}

static bool covered[MATRICES][ROWS][COLS];

// Returns true if all elements of a row, a column or a matrix are covered.
static bool is_complete(enum mmul_selection_axis axis, struct mmul_shape s, int64_t line) {
    bool all = true;
    for (int64_t t = 0; t < mmul_shape_matrices(s); t++)
        for (int64_t row = 0; row < s.rows; row++)
            for (int64_t col = 0; col < s.cols; col++)
                if (line == (axis == MMUL_SELECT_ROWS ? row : axis == MMUL_SELECT_COLS ? col : t))
                    all &= covered[t][row][col];
    return all;
}

static void check_missing(enum mmul_selection_axis axis, struct mmul_shape s,
                          const struct mmul_region *regions, int64_t count) {
    struct mmul_missing missing;
    struct mmul_error err;
    bool listed[ROWS + COLS + MATRICES] = {false};
    int64_t lines = 0;
    assert_int_equal(mmul_coverage_missing(axis, s, regions, count, &missing, &err), MMUL_OK);
    assert_int_equal(missing.total, axis == MMUL_SELECT_ROWS   ? s.rows
                                    : axis == MMUL_SELECT_COLS ? s.cols
                                                               : mmul_shape_matrices(s));
    for (int64_t i = 0; i < missing.count; i++) {
        assert_true(missing.segments[i].begin < missing.segments[i].end);
        if (i > 0) // neighbours are one segment
            assert_true(missing.segments[i - 1].end < missing.segments[i].begin);
        for (int64_t line = missing.segments[i].begin; line < missing.segments[i].end; line++)
            listed[line] = true;
    }
    for (int64_t line = 0; line < missing.total; line++) {
        assert_int_equal(listed[line], !is_complete(axis, s, line));
        lines += listed[line];
    }
    assert_int_equal(missing.lines, lines);
    mmul_free(missing.segments);
}

static void missing_lines_are_those_not_covered(void **state) {
    (void)state;
    uint64_t seed = 44;
    int64_t complete = 0;
    for (int i = 0; i < 20000; i++) {
        struct mmul_region regions[REGIONS];
        const bool is_stack = i % 3 == 0;
        const struct mmul_shape s = {1, is_stack ? MATRICES : 1, 1 + draw(&seed, ROWS),
                                     1 + draw(&seed, COLS)};
        const int64_t count = draw(&seed, REGIONS + 1);
        memset(covered, 0, sizeof covered);
        for (int64_t j = 0; j < count; j++) {
            const struct mmul_region r = regions[j] = draw_region(&seed, s);
            for (int64_t row = r.row_begin; row < r.row_end; row++)
                for (int64_t col = r.col_begin; col < r.col_end; col++)
                    covered[r.matrix][row][col] = true;
        }
        if (is_stack) {
            check_missing(MMUL_SELECT_MATRICES, s, regions, count);
        } else {
            check_missing(MMUL_SELECT_ROWS, s, regions, count);
            check_missing(MMUL_SELECT_COLS, s, regions, count);
        }
        complete += is_complete(is_stack ? MMUL_SELECT_MATRICES : MMUL_SELECT_ROWS, s, 0);
    }
    assert_in_range(complete, 5000, 18000); // the cases are of both kinds
}

static void mark(bool map[MATRICES][ROWS][COLS], const struct mmul_region *r) {
    for (int64_t row = r->row_begin; row < r->row_end; row++)
        for (int64_t col = r->col_begin; col < r->col_end; col++)
            map[r->matrix][row][col] = true;
}

// A union has the elements of both regions and no other ones. Regions are joined if it is a region
// that begins with the first.
static void joined_regions_have_the_elements_of_both(void **state) {
    (void)state;
    const struct mmul_shape s = {1, 2, ROWS, COLS};
    uint64_t seed = 45;
    int64_t joined = 0;
    for (int i = 0; i < 200000; i++) {
        bool expected[MATRICES][ROWS][COLS] = {{{false}}},
             found[MATRICES][ROWS][COLS] = {{{false}}};
        struct mmul_region x = draw_region(&seed, s);
        const struct mmul_region y = draw_region(&seed, s), before = x;
        mark(expected, &x);
        if (mmul_region_join(&x, &y)) {
            mark(expected, &y);
            joined++;
        } else {
            const bool follows =
                x.matrix == y.matrix && ((x.col_begin == y.col_begin && x.col_end == y.col_end &&
                                          x.row_end == y.row_begin) ||
                                         (x.row_begin == y.row_begin && x.row_end == y.row_end &&
                                          x.col_end == y.col_begin));
            assert_false(follows);
            assert_memory_equal(&x, &before, sizeof x);
        }
        mark(found, &x);
        assert_memory_equal(found, expected, sizeof found);
    }
    assert_in_range(joined, 1000, 100000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_lines_are_those_not_covered),
        cmocka_unit_test(joined_regions_have_the_elements_of_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
