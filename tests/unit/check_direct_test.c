// SPDX-License-Identifier: MIT
//
// Products with an inner range of one to four terms: the check recomputes each element. It finds an
// element that is a few units off, in exactly its line, and raises no alarm on correct products.
#include "check_bench.h"

static double size_of(const struct bench *bench, int64_t i, int64_t j) {
    double size = 0;
    for (int64_t p = 0; p < bench->product.k; p++)
        size += fabs((double)*a_at(bench, i, p) * (double)*b_at(bench, p, j));
    const double added = bench->product.beta != 0
                             ? bench->product.beta * bench->c_in[i * bench->product.ldc_in + j]
                             : 0;
    return fabs(bench->product.alpha) * size + fabs(added);
}

static void an_error_of_a_few_units_is_found_in_exactly_its_line(void **state) {
    (void)state;
    static const enum mmul_dtype types[] = {MMUL_F32, MMUL_F16, MMUL_BF16};
    for (int variant = 0; variant < 4 * 2 * 2 * 2 * KIND_COUNT; variant++) {
        const int kind = variant / 32;
        struct mmul_product shape = {.m = 37,
                                     .n = 301,
                                     .k = 1 + variant % 4,
                                     .transpose_a = variant / 4 % 2,
                                     .transpose_b = variant / 8 % 2,
                                     .a_dtype = types[variant % 3],
                                     .b_dtype = types[variant / 3 % 3],
                                     .alpha = variant % 5 == 0 ? -0.5 : 1,
                                     .beta = variant % 7 == 0 ? 0.5 : 0};
        struct bench bench;
        setup_lines(&bench, shape, kind == LARGE ? SIGNED : (enum kind)kind, (enum kind)kind,
                    (uint64_t)variant, variant / 16 % 2 == 1);
        multiply(&bench, variant % 2 ? SEQUENTIAL : BLAS);
        assert_int_equal(count_wrong(&bench, 5), 0);
        const int64_t line = 21, cross = 290, i = bench.columns ? cross : line,
                      j = bench.columns ? line : cross;
        float *c = c_at(&bench, i, j);
        const double size = size_of(&bench, i, j);
        const float right = *c;
        if (size < 1e-25 || size > 1e37)
            goto next;
        *c = right + (float)(16 * 0x1p-24 * size);
        assert_int_equal(count_wrong(&bench, 5), 1);
        assert_int_equal(bench.wrong[line], 1);
        *c = NAN;
        assert_int_equal(count_wrong(&bench, 5), 1);
next:
        teardown(&bench);
    }
}

// A column times one number, stored without gaps, shared among threads.
static void run_parts(int parts, mmul_work *work, void *context) {
    for (int part = parts - 1; part >= 0; part--)
        work(context, part);
}

static void a_long_column_is_shared_among_threads(void **state) {
    (void)state;
    enum { ROWS = 300001 };
    float *a = malloc(ROWS * sizeof *a), *c = malloc(ROWS * sizeof *c), b = 1.25F;
    unsigned char *wrong = malloc(ROWS);
    for (int64_t i = 0; i < ROWS; i++) {
        a[i] = (float)value_at(NORMAL, 1, i, 0, i);
        c[i] = a[i] * b;
    }
    const struct mmul_product column = {.m = ROWS,
                                        .n = 1,
                                        .k = 1,
                                        .alpha = 1,
                                        .a = a,
                                        .lda = 1,
                                        .b = &b,
                                        .ldb = 1,
                                        .c = c,
                                        .ldc = 1},
                              transposed = mmul_product_transpose(&column);
    const struct mmul_product *products[] = {&column, &transposed};
    for (int t = 0; t < 2; t++) {
        struct mmul_check *check;
        struct mmul_error err;
        const struct mmul_product *p = products[t];
        assert_int_equal(mmul_check_create(p->n, 1, &check, &err), MMUL_OK);
        mmul_check_set_parallel(check, (struct mmul_parallel){3, run_parts});
        assert_int_equal(mmul_check_begin(check, p, 1, &err), MMUL_OK);
        assert_int_equal(mmul_check_rows(check, p, 0, p->m, wrong), 0);
        c[250000] *= 1.00001F;
        c[7] = -c[7];
        assert_int_equal(mmul_check_rows(check, p, 0, p->m, wrong), t == 0 ? 2 : 1);
        assert_int_equal(wrong[t == 0 ? 250000 : 0], 1);
        c[250000] = a[250000] * b;
        c[7] = a[7] * b;
        mmul_check_destroy(check);
    }
    free(a);
    free(c);
    free(wrong);
}

// A (1, 2) times B (2, 1), and the value of C to judge.
struct class_case {
    float a[2], b[2], c;
    bool legal;
};

static void nan_inf_and_flushed_numbers_are_compared_by_class(void **state) {
    (void)state;
    static const struct class_case cases[] = {
        {{NAN, 1}, {1, 1}, NAN, true},
        {{NAN, 1}, {1, 1}, 2, false},
        {{NAN, 1}, {1, 1}, INFINITY, false},
        {{INFINITY, 1}, {-2, 5}, -INFINITY, true},
        {{INFINITY, 1}, {-2, 5}, INFINITY, false},
        {{INFINITY, 1}, {-2, 5}, NAN, false},
        {{INFINITY, 1}, {-2, 5}, 3e38F, false},
        {{INFINITY, 1}, {0, 5}, NAN, true},
        {{INFINITY, 1}, {0, 5}, 5, false},
        {{INFINITY, -INFINITY}, {1, 1}, NAN, true},
        {{INFINITY, -INFINITY}, {1, 1}, INFINITY, false},
        {{INFINITY, 1}, {1e-40F, 5}, NAN, true}, // the device may flush 1e-40 to 0
        {{INFINITY, 1}, {1e-40F, 5}, INFINITY, true},
        {{1e20F, 1}, {1e20F, 1}, INFINITY, true},
        {{1e20F, 1}, {1e20F, 1}, NAN, true}, // an intermediate result overflows
        {{1e20F, 1}, {1e20F, 1}, 2e38F, false},
        {{1e10F, 1}, {1e20F, 1}, INFINITY, false},
        {{1e-30F, 0}, {1e-10F, 0}, 0, true}, // 1e-40, flushed to 0
        {{1e-30F, 0}, {1e-10F, 0}, 1e-36F, false},
        {{1e-40F, 0}, {1e3F, 0}, 0, true},
        {{1e-40F, 0}, {1e3F, 0}, 1e-30F, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct class_case *x = &cases[i];
        const struct mmul_product product = {.m = 1,
                                             .n = 1,
                                             .k = 2,
                                             .alpha = 1,
                                             .a = x->a,
                                             .lda = 2,
                                             .b = x->b,
                                             .ldb = 1,
                                             .c = (void *)&x->c,
                                             .ldc = 1};
        struct mmul_check *check;
        struct mmul_error err;
        unsigned char wrong;
        assert_int_equal(mmul_check_create(1, 2, &check, &err), MMUL_OK);
        assert_int_equal(mmul_check_begin(check, &product, 1, &err), MMUL_OK);
        if (mmul_check_rows(check, &product, 0, 1, &wrong) != !x->legal)
            fail_msg("case %zu", i);
        mmul_check_destroy(check);
    }
}

static void float64_is_judged_by_its_own_unit(void **state) {
    (void)state;
    double a[] = {0.1, 1e200}, b[] = {3, 7e-201}, c = 0.1 * 3 + 1e200 * 7e-201;
    const struct mmul_product product = {.m = 1,
                                         .n = 1,
                                         .k = 2,
                                         .alpha = 1,
                                         .a = a,
                                         .a_dtype = MMUL_F64,
                                         .lda = 2,
                                         .b = b,
                                         .b_dtype = MMUL_F64,
                                         .ldb = 1,
                                         .c = &c,
                                         .ldc = 1};
    struct mmul_check *check;
    struct mmul_error err;
    unsigned char wrong;
    assert_int_equal(mmul_check_create(1, 2, &check, &err), MMUL_OK);
    assert_int_equal(mmul_check_begin(check, &product, 1, &err), MMUL_OK);
    assert_int_equal(mmul_check_rows(check, &product, 0, 1, &wrong), 0);
    c *= 1 + 1e-14;
    assert_int_equal(mmul_check_rows(check, &product, 0, 1, &wrong), 1);
    mmul_check_destroy(check);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_of_a_few_units_is_found_in_exactly_its_line),
        cmocka_unit_test(a_long_column_is_shared_among_threads),
        cmocka_unit_test(nan_inf_and_flushed_numbers_are_compared_by_class),
        cmocka_unit_test(float64_is_judged_by_its_own_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
