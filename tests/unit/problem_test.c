// SPDX-License-Identifier: MIT
// Shapes that fit and shapes that do not; stretches of a split range compared with plain loops.
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "model/problem.h"

static struct mmul_problem_operand operand(int64_t batch, int64_t depth, int64_t rows, int64_t cols,
                                           enum mmul_dtype dtype, const char *name) {
    return (struct mmul_problem_operand){{batch, depth, rows, cols}, dtype, name};
}

struct fit_case {
    struct mmul_shape a, b;
    bool transpose_a, transpose_b;
    int64_t m, n, k, matrices;
    const char *error; // NULL: fits
};

static const struct fit_case fits[] = {
    {{1, 1, 5, 7}, {1, 1, 7, 3}, false, false, 5, 3, 7, 1, NULL},
    {{1, 1, 7, 5}, {1, 1, 7, 3}, true, false, 5, 3, 7, 1, NULL},
    {{1, 1, 5, 7}, {1, 1, 3, 7}, false, true, 5, 3, 7, 1, NULL},
    {{1, 1, 7, 5}, {1, 1, 3, 7}, true, true, 5, 3, 7, 1, NULL},
    {{2, 3, 5, 7}, {2, 1, 7, 3}, false, false, 5, 3, 7, 6, NULL},
    {{1, 3, 5, 7}, {2, 1, 7, 3}, false, false, 5, 3, 7, 6, NULL},
    {{1, 1, 4096, 1024},
     {1, 1, 2048, 512},
     false,
     false,
     0,
     0,
     0,
     0,
     "cannot multiply 'A.bin' (4096 x 1024) by 'B.bin' (2048 x 512): inner sizes 1024 and 2048 "
     "differ"},
    {{2, 1, 5, 7},
     {3, 1, 7, 3},
     false,
     false,
     0,
     0,
     0,
     0,
     "cannot multiply 'A.bin' (2 x 1 x 5 x 7) by 'B.bin' (3 x 1 x 7 x 3): batch sizes 2 and 3 "
     "differ"},
    {{1, 2, 5, 7},
     {1, 3, 7, 3},
     false,
     false,
     0,
     0,
     0,
     0,
     "cannot multiply 'A.bin' (2 x 5 x 7) by 'B.bin' (3 x 7 x 3): depths 2 and 3 differ"},
    {{1, 1, INT32_MAX, 1},
     {INT32_MAX, 1, 1, INT32_MAX},
     false,
     false,
     0,
     0,
     0,
     0,
     "result of 2147483647 x 1 x 2147483647 x 2147483647 has more elements than can be counted"},
};

static void test_shapes_fit_or_say_why(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof fits / sizeof fits[0]; i++) {
        const struct fit_case *c = &fits[i];
        struct mmul_problem p;
        struct mmul_error err;
        enum mmul_status status = mmul_problem_init(
            &(struct mmul_problem_request){
                .a = (struct mmul_problem_operand){c->a, MMUL_F32, "A.bin"},
                .b = (struct mmul_problem_operand){c->b, MMUL_F32, "B.bin"},
                .transpose_a = c->transpose_a,
                .transpose_b = c->transpose_b,
                .alpha = 1},
            &p, &err);
        if (c->error != NULL) {
            assert_int_equal(status, MMUL_ERR_DATA);
            assert_string_equal(err.text, c->error);
            continue;
        }
        assert_int_equal(status, MMUL_OK);
        assert_int_equal(p.m, c->m);
        assert_int_equal(p.n, c->n);
        assert_int_equal(p.k, c->k);
        assert_int_equal(p.matrices, c->matrices);
    }
}

static void test_result_dtype_is_the_common_half_type(void **state) {
    (void)state;
    static const struct {
        enum mmul_dtype a, b, result;
    } cases[] = {
        {MMUL_F32, MMUL_F32, MMUL_F32},    {MMUL_F16, MMUL_F16, MMUL_F16},
        {MMUL_BF16, MMUL_BF16, MMUL_BF16}, {MMUL_F16, MMUL_BF16, MMUL_F32},
        {MMUL_F16, MMUL_F32, MMUL_F32},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mmul_problem p;
        struct mmul_error err;
        assert_int_equal(
            mmul_problem_init(
                &(struct mmul_problem_request){.a = operand(1, 1, 2, 3, cases[i].a, "A"),
                                               .b = operand(1, 1, 3, 4, cases[i].b, "B"),
                                               .alpha = 1},
                &p, &err),
            MMUL_OK);
        assert_int_equal(p.c_dtype, cases[i].result);
    }
}

static void test_c_in_must_have_the_shape_of_c(void **state) {
    (void)state;
    struct mmul_problem p;
    struct mmul_error err;
    struct mmul_problem_operand a = operand(1, 1, 2, 3, MMUL_F32, "A");
    struct mmul_problem_operand b = operand(1, 1, 3, 4, MMUL_F32, "B");
    struct mmul_problem_operand wrong = operand(1, 1, 4, 2, MMUL_F32, "C.bin");
    struct mmul_problem_operand right = operand(1, 1, 2, 4, MMUL_F32, "C.bin");
    assert_int_equal(
        mmul_problem_init(&(struct mmul_problem_request){.a = a, .b = b, .alpha = 1, .beta = 2}, &p,
                          &err),
        MMUL_ERR_USAGE);
    assert_string_equal(err.text, "beta is 2 but there is no C to add");
    assert_int_equal(
        mmul_problem_init(
            &(struct mmul_problem_request){.a = a, .b = b, .c_in = &wrong, .alpha = 1, .beta = 2},
            &p, &err),
        MMUL_ERR_DATA);
    assert_string_equal(err.text, "cannot add 'C.bin' (4 x 2) to a result of 2 x 4: shapes differ");
    assert_int_equal(
        mmul_problem_init(
            &(struct mmul_problem_request){.a = a, .b = b, .c_in = &right, .alpha = 1, .beta = 2},
            &p, &err),
        MMUL_OK);
}

// Every unit of every part appears in exactly one stretch, in order.
static void test_stretches_cover_a_part(void **state) {
    (void)state;
    struct mmul_problem p;
    struct mmul_error err;
    assert_int_equal(
        mmul_problem_init(&(struct mmul_problem_request){.a = operand(2, 3, 5, 4, MMUL_F32, "A"),
                                                         .b = operand(1, 3, 4, 7, MMUL_F32, "B"),
                                                         .alpha = 1},
                          &p, &err),
        MMUL_OK);
    for (int axis = MMUL_ROWS; axis <= MMUL_COLS; axis++) {
        int64_t units = axis == MMUL_ROWS ? 5 : 7, total = 6 * units;
        assert_int_equal(mmul_problem_total(&p, axis), total);
        for (int64_t begin = 0; begin <= total; begin++)
            for (int64_t end = begin; end <= total; end++) {
                int64_t count = mmul_matrix_range_count(&p, axis, begin, end), unit = begin;
                for (int64_t i = 0; i < count; i++) {
                    struct mmul_matrix_range s = mmul_matrix_range_at(&p, axis, begin, end, i);
                    assert_true(s.begin < s.end && s.end <= units);
                    assert_int_equal(s.matrix * units + s.begin, unit);
                    unit += s.end - s.begin;
                }
                assert_int_equal(unit, end);
            }
    }
}

static void test_matrices_repeat_to_fill_a_stack(void **state) {
    (void)state;
    struct mmul_problem p;
    struct mmul_error err;
    assert_int_equal(
        mmul_problem_init(&(struct mmul_problem_request){.a = operand(2, 1, 5, 4, MMUL_F32, "A"),
                                                         .b = operand(1, 3, 4, 7, MMUL_F32, "B"),
                                                         .alpha = 1},
                          &p, &err),
        MMUL_OK);
    for (int64_t b = 0; b < 2; b++)
        for (int64_t d = 0; d < 3; d++) {
            assert_int_equal(mmul_problem_a_matrix(&p, b * 3 + d), b);
            assert_int_equal(mmul_problem_b_matrix(&p, b * 3 + d), d);
        }
}

// Compares the rectangle in the stored operand, for each axis and transposition.
static void test_a_stretch_has_its_rectangle_in_the_operand(void **state) {
    (void)state;
    const struct mmul_matrix_range s = {.matrix = 0, .begin = 1, .end = 3};
    for (int axis = MMUL_ROWS; axis <= MMUL_COLS; axis++)
        for (int transposed = 0; transposed < 2; transposed++) {
            struct mmul_problem p;
            struct mmul_error err;
            bool ta = axis == MMUL_ROWS && transposed, tb = axis == MMUL_COLS && transposed;
            struct mmul_problem_operand a =
                ta ? operand(1, 1, 4, 5, MMUL_F32, "A") : operand(1, 1, 5, 4, MMUL_F32, "A");
            struct mmul_problem_operand b =
                tb ? operand(1, 1, 7, 4, MMUL_F32, "B") : operand(1, 1, 4, 7, MMUL_F32, "B");
            assert_int_equal(
                mmul_problem_init(
                    &(struct mmul_problem_request){
                        .a = a, .b = b, .transpose_a = ta, .transpose_b = tb, .alpha = 1},
                    &p, &err),
                MMUL_OK);
            struct mmul_region r = mmul_matrix_range_operand(&p, axis, s);
            bool along_rows = (axis == MMUL_ROWS) != (transposed != 0);
            assert_int_equal(r.row_begin, along_rows ? 1 : 0);
            assert_int_equal(r.row_end, along_rows ? 3 : 4);
            assert_int_equal(r.col_begin, along_rows ? 0 : 1);
            assert_int_equal(r.col_end, along_rows ? 4 : 3);
            r = mmul_matrix_range_result(&p, axis, s);
            assert_int_equal(r.row_end - r.row_begin, axis == MMUL_ROWS ? 2 : 5);
            assert_int_equal(r.col_end - r.col_begin, axis == MMUL_ROWS ? 7 : 2);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes_fit_or_say_why),
        cmocka_unit_test(test_result_dtype_is_the_common_half_type),
        cmocka_unit_test(test_c_in_must_have_the_shape_of_c),
        cmocka_unit_test(test_stretches_cover_a_part),
        cmocka_unit_test(test_matrices_repeat_to_fill_a_stack),
        cmocka_unit_test(test_a_stretch_has_its_rectangle_in_the_operand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
