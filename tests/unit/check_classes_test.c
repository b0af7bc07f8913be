// SPDX-License-Identifier: MIT
//
// The result check at the edges: NaN, Inf, overflow, tiny numbers, alpha = 0, and its memory.
#include "check_bench.h"

#include <float.h>

// ------------------------------------------------------------------------------------ NaN, Inf

#define INF INFINITY

struct place {
    int64_t row, col;
    float value;
};

// Elements put into A (4 x 9), B (9 x 400) and C_in (4 x 400), and one put into the correct C.
// Unset entries write 0 at (0, 0) of A and B, which does no harm.
struct class_case {
    struct place a[2], b[2], c_in;
    float beta;
    // an error: row c.row, or column c.col, must be found; `legal`: nothing may be found
    struct place c;
    bool legal;
};

static const struct class_case class_cases[] = {
    // One NaN: all of the row or column is NaN.
    {.a = {{1, 2, NAN}}, .c = {1, 399, 0}},
    {.a = {{1, 2, NAN}}, .c = {1, 7, INF}},
    {.b = {{2, 5, NAN}}, .c = {3, 5, 1}},
    {.b = {{2, 5, NAN}}, .c = {3, 6, NAN}},
    {.b = {{2, 5, NAN}}, .c = {3, 6, 1}},
    // An Inf keeps its sign through the product.
    {.a = {{1, 2, INF}}, .b = {{2, 3, 2}}, .c = {1, 3, -INF}},
    {.a = {{1, 2, INF}}, .b = {{2, 3, 2}}, .c = {1, 3, NAN}},
    {.a = {{1, 2, INF}}, .b = {{2, 3, 2}}, .c = {1, 3, 3e38F}},
    {.a = {{0, 2, -3}}, .b = {{2, 3, INF}}, .c = {0, 3, INF}},
    {.a = {{0, 2, -3}}, .b = {{2, 3, INF}}, .c = {0, 4, INF}},
    {.a = {{1, 2, INF}}, .b = {{2, 3, -INF}}, .c = {1, 3, INF}},
    // Inf 0 and Inf - Inf are NaN; a subnormal number times Inf may count as Inf 0.
    {.a = {{1, 2, INF}}, .b = {{2, 3, 0}}, .c = {1, 3, INF}},
    {.a = {{1, 2, INF}, {1, 4, INF}}, .b = {{2, 3, 1}, {4, 3, -1}}, .c = {1, 3, INF}},
    {.a = {{1, 2, 1}, {1, 4, 1}}, .b = {{2, 3, INF}, {4, 3, -INF}}, .c = {1, 3, -INF}},
    {.a = {{1, 2, INF}}, .b = {{2, 3, 1e-40F}}, .c = {1, 3, NAN}, .legal = true},
    // C_in: not read if beta is 0, otherwise a term like any other; the rest of its row is still
    // judged.
    {.c_in = {2, 6, NAN}, .beta = 0, .c = {2, 6, NAN}},
    {.c_in = {2, 6, NAN}, .beta = 1, .c = {2, 6, 1}},
    {.c_in = {2, 6, NAN}, .beta = 1, .c = {2, 7, 9}},
    {.c_in = {2, 6, INF}, .beta = -1, .c = {2, 6, INF}},
    {.c_in = {2, 6, INF}, .beta = 1, .a = {{2, 1, INF}}, .b = {{1, 6, -1}}, .c = {2, 6, INF}},
    // Overflow: legal only where it can happen; the rest of the row is still judged.
    {.a = {{1, 2, 1e20F}}, .b = {{2, 3, 1e20F}}, .c = {0, 3, INF}},
    {.a = {{1, 2, 1e20F}}, .b = {{2, 3, 1e20F}}, .c = {1, 4, INF}},
    {.a = {{1, 2, 1e20F}}, .b = {{2, 3, 1e20F}}, .c = {1, 3, -2e38F}},
    {.a = {{1, 2, 1e20F}}, .b = {{2, 3, 1e20F}}, .c = {1, 4, -1e20F}},
    {.a = {{1, 2, 1e20F}}, .b = {{2, 3, 1e20F}}, .c = {1, 3, NAN}, .legal = true},
};

static void set_up_class_case(struct bench *bench, const struct class_case *at, int variant) {
    struct mmul_product shape = {.m = 4, .n = 400, .k = 9, .alpha = 1, .beta = at->beta};
    shape.transpose_a = variant % 2 != 0;
    shape.transpose_b = variant / 2 % 2 != 0;
    setup(bench, shape, NORMAL, NORMAL, 9);
    if (variant >= 4)
        judge_in_columns(bench, 57);
    for (int put = 0; put < 2; put++) {
        *a_at(bench, at->a[put].row, at->a[put].col) = at->a[put].value;
        *b_at(bench, at->b[put].row, at->b[put].col) = at->b[put].value;
    }
    bench->c_in[at->c_in.row * bench->product.ldc_in + at->c_in.col] = at->c_in.value;
    bench->product.a = bench->a;
    bench->product.b = bench->b;
    multiply(bench, SEQUENTIAL);
}

static void assert_class_case(size_t number, int variant) {
    const struct class_case *at = &class_cases[number];
    struct bench bench;
    set_up_class_case(&bench, at, variant);
    int64_t before = count_wrong(&bench, 10);
    *c_at(&bench, at->c.row, at->c.col) = at->c.value;
    int64_t after = count_wrong(&bench, 11);
    if (before != 0 || after != !at->legal)
        print_message("# case %zu.%d\n", number, variant);
    assert_int_equal(before, 0);
    assert_int_equal(after, !at->legal);
    assert_int_equal(bench.wrong[bench.columns ? at->c.col : at->c.row], !at->legal);
    teardown(&bench);
}

static void nan_and_inf_are_judged_by_class(void **state) {
    (void)state;
    for (size_t number = 0; number < sizeof class_cases / sizeof class_cases[0]; number++)
        for (int variant = 0; variant < 8; variant++)
            assert_class_case(number, variant);
}

// More lines with NaN than the check compares element by element: the rest of each line is judged
// by its sum.
static void a_column_of_nan_in_c_in_leaves_the_rest_judged(void **state) {
    (void)state;
    for (int columns = 0; columns < 2; columns++) {
        struct bench bench;
        struct mmul_product shape = {.m = 20, .n = 400, .k = 9, .alpha = -2, .beta = 1};
        setup_lines(&bench, shape, NORMAL, NORMAL, 21, columns);
        for (int64_t line = 0; line < shape.m; line++)
            bench.c_in[line_at(&bench, line, 123) - bench.c] = NAN;
        multiply(&bench, SEQUENTIAL);
        assert_int_equal(count_wrong(&bench, 22), 0);
        *line_at(&bench, 19, 399) += 0.01F;
        assert_int_equal(count_wrong(&bench, 23), 1);
        assert_int_equal(bench.wrong[19], 1);
        teardown(&bench);
    }
}

// More NaN or Inf than the check lists: most elements are Inf - Inf, and all of C is judged by
// class.
static void matrices_full_of_nan_or_inf_are_judged(void **state) {
    (void)state;
    static const float values[] = {NAN, INF, -INF};
    for (int64_t variant = 0; variant < 24; variant++) {
        struct bench bench;
        struct mmul_product shape = {
            .m = 30, .n = 40, .k = 20, .alpha = -1, .transpose_b = variant % 2 != 0};
        setup(&bench, shape, NORMAL, UNIT, 12);
        bool in_a = variant / 2 % 2 != 0, columns = variant >= 12;
        float *full = in_a ? bench.a : bench.b;
        int64_t count = in_a ? 30 * bench.product.lda : shape.transpose_b ? 40 * 23 : 20 * 43;
        for (int64_t e = 0; e < count; e++)
            full[e] = values[variant / 4 % 3];
        memcpy(in_a ? bench.a_narrow : bench.b_narrow, full, (size_t)count * sizeof(float));
        if (columns)
            judge_in_columns(&bench, 9);
        multiply(&bench, SEQUENTIAL);
        assert_int_equal(count_wrong(&bench, 13), 0);
        *c_at(&bench, 17, 21) = 5;
        assert_int_equal(count_wrong(&bench, 14), 1);
        assert_int_equal(bench.wrong[columns ? 21 : 17], 1);
        teardown(&bench);
    }
}

// --------------------------------------------------------------------------------------- limits

static void subnormal_numbers_may_be_flushed_to_zero(void **state) {
    (void)state;
    static const float sizes[][2] = {{1e-20F, 1e-19F}, {1e-39F, 1e30F}, {1e30F, 1e-39F}};
    for (size_t variant = 0; variant < 6; variant++) {
        struct bench bench;
        size_t s = variant % 3;
        struct mmul_product shape = {.m = 20, .n = 50, .k = 30, .alpha = 1};
        setup(&bench, shape, UNIT, UNIT, 15);
        if (variant >= 3)
            judge_in_columns(&bench, 50);
        for (int64_t e = 0; e < 20 * bench.product.lda; e++)
            ((float *)bench.a_narrow)[e] *= sizes[s][0];
        for (int64_t e = 0; e < 30 * bench.product.ldb; e++)
            ((float *)bench.b_narrow)[e] *= sizes[s][1];
        assert_int_equal(count_wrong(&bench, 16), 0); // C is all zeros
        *c_at(&bench, 3, 4) = 1e-3F;
        assert_int_equal(count_wrong(&bench, 17), 1);
        teardown(&bench);
    }
}

static void alpha_0_makes_every_element_beta_c_in(void **state) {
    (void)state;
    static const float betas[] = {0, 1, -0.3F};
    static const enum mmul_dtype types[] = {MMUL_F32, MMUL_F16, MMUL_BF16}; // C in its file
    for (int variant = 0; variant < 18; variant++) {
        struct bench bench;
        struct mmul_product shape = {
            .m = 7, .n = 50, .k = 9, .beta = betas[variant / 2 % 3], .c_dtype = types[variant / 6]};
        setup_lines(&bench, shape, UNIT, UNIT, 18, variant % 2 != 0);
        bench.product.a = bench.product.b = NULL;
        bench.c_in[line_at(&bench, 2, 5) - bench.c] = INF;
        bench.c_in[line_at(&bench, 3, 6) - bench.c] = NAN;
        for (int64_t line = 0; line < shape.m; line++) {
            for (int64_t cross = 0; cross < shape.n; cross++) {
                float *c = line_at(&bench, line, cross),
                      scaled = shape.beta * bench.c_in[c - bench.c];
                *c = shape.beta != 0 ? scaled : -0.0F;
                if (shape.c_dtype != MMUL_F32) {
                    uint16_t half;
                    mmul_dtype_narrow(shape.c_dtype, c, 1, &half);
                    mmul_dtype_widen(shape.c_dtype, &half, 1, c);
                }
            }
        }
        assert_int_equal(count_wrong(&bench, 19), 0);
        float *spoiled = line_at(&bench, 4, 8);
        *spoiled = nextafterf(*spoiled, INF);
        assert_int_equal(count_wrong(&bench, 19), 1);
        assert_int_equal(bench.wrong[4], 1);
        *line_at(&bench, 3, 6) = 1;
        assert_int_equal(count_wrong(&bench, 20), 2);
        teardown(&bench);
    }
}

static void memory_equals_the_plan(void **state) {
    (void)state;
    struct mmul_check *check = NULL;
    struct mmul_error err = {0};
    assert_int_equal(mmul_check_create(1000, 77, &check, &err), MMUL_OK);
    assert_in_range(mmul_live_bytes(), mmul_check_bytes(1000, 77), mmul_check_bytes(1000, 77) + 64);
    struct mmul_product large = {.m = 1, .n = 1000, .k = 78, .alpha = 1};
    assert_int_equal(mmul_check_begin(check, &large, 1, &err), MMUL_ERR_INTERNAL);
    assert_string_equal(err.text,
                        "cannot check a product with n = 1000, k = 78: room for 1000 and 77");
    mmul_check_destroy(check);
    mmul_check_destroy(NULL);
    assert_int_equal(mmul_live_bytes(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nan_and_inf_are_judged_by_class),
        cmocka_unit_test(a_column_of_nan_in_c_in_leaves_the_rest_judged),
        cmocka_unit_test(matrices_full_of_nan_or_inf_are_judged),
        cmocka_unit_test(subnormal_numbers_may_be_flushed_to_zero),
        cmocka_unit_test(alpha_0_makes_every_element_beta_c_in),
        cmocka_unit_test(memory_equals_the_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
