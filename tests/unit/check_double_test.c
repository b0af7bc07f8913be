// SPDX-License-Identifier: MIT
// The check of products in float64. Correct products pass with any order of sums. An element off by
// far less than float32 resolves is found, and so is one computed in float32. Numbers with squares
// beyond a double raise no alarm; lines with such numbers are judged by samples.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "model/check.h"

// Operands as they are drawn; `a_scale` and `b_scale` multiply A and B.
struct trial {
    int64_t m, n, k;
    double low, alpha, beta, a_scale, b_scale;
    bool transpose_a, transpose_b;
};

struct bench {
    struct mmul_product product;
    double *a, *b, *c, *c_in;
    unsigned char *wrong;
    struct mmul_check *check;
};

static double *draw(int64_t count, double low, double scale, uint64_t seed) {
    double *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    for (int64_t e = 0; e < count; e++)
        values[e] =
            scale * (low + (1 - low) * (double)(mmul_random_at(seed, (uint64_t)e) >> 11) * 0x1p-53);
    return values;
}

static double a_at(const struct bench *t, int64_t i, int64_t p) {
    return t->a[t->product.transpose_a ? p * t->product.lda + i : i * t->product.lda + p];
}

static double b_at(const struct bench *t, int64_t p, int64_t j) {
    return t->b[t->product.transpose_b ? j * t->product.ldb + p : p * t->product.ldb + j];
}

// Multiplies with one accumulator per element: the roughest correct way.
static void multiply(struct bench *t) {
    const struct mmul_product *p = &t->product;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = 0;
            for (int64_t q = 0; q < p->k; q++)
                sum += a_at(t, i, q) * b_at(t, q, j);
            t->c[i * p->ldc + j] = p->alpha * sum + p->beta * t->c_in[i * p->ldc_in + j];
        }
}

static void setup(struct bench *t, const struct trial *r, uint64_t seed) {
    struct mmul_error err;
    t->a = draw(r->m * r->k, r->low, r->a_scale, seed);
    t->b = draw(r->k * r->n, r->low, r->b_scale, seed + 1);
    t->c_in = draw(r->m * r->n, r->low, 1, seed + 2);
    t->c = malloc((size_t)(r->m * r->n) * sizeof *t->c);
    t->wrong = malloc((size_t)r->m);
    t->product = (struct mmul_product){.transpose_a = r->transpose_a,
                                       .transpose_b = r->transpose_b,
                                       .m = r->m,
                                       .n = r->n,
                                       .k = r->k,
                                       .alpha = r->alpha,
                                       .beta = r->beta,
                                       .a = t->a,
                                       .a_dtype = MMUL_F64,
                                       .lda = r->transpose_a ? r->m : r->k,
                                       .b = t->b,
                                       .b_dtype = MMUL_F64,
                                       .ldb = r->transpose_b ? r->k : r->n,
                                       .c_in = t->c_in,
                                       .ldc_in = r->n,
                                       .c = t->c,
                                       .ldc = r->n};
    assert_int_equal(mmul_check_create(r->n, r->k, &t->check, &err), MMUL_OK);
    multiply(t);
}

static void teardown(struct bench *t) {
    mmul_check_destroy(t->check);
    free(t->a);
    free(t->b);
    free(t->c);
    free(t->c_in);
    free(t->wrong);
    assert_int_equal(mmul_live_bytes(), 0);
}

static int64_t count_wrong(struct bench *t, uint64_t seed) {
    struct mmul_error err;
    assert_int_equal(mmul_check_begin(t->check, &t->product, seed, &err), MMUL_OK);
    return mmul_check_rows(t->check, &t->product, 0, t->product.m, t->wrong);
}

static const struct trial trials[] = {
    {37, 41, 53, -1, 1, 0, 1, 1, false, false},
    {37, 300, 200, -1, -2.5, 0.1, 1, 1, true, false},
    {20, 2000, 3, -1, 1, 0, 1, 1, false, true},
    {3, 20000, 1, 0, 1, 0, 1, 1, false, false},
    {20, 300, 4000, 0, 1, 0, 1, 1, true, true},
    {11, 900, 901, 1, 0.1, 0, 1, 1, false, false},
    {20, 70, 90, -1, 1, 0, 1e-170, 1, true, true},
    {20, 70, 90, -1, 1, 0, 1, 1e-170, false, true},
    {20, 70, 90, -1, 1, 0, 1e200, 1e-9, false, false},
    {20, 70, 90, -1, 1, 0, 1e-9, 1e200, true, false},
};
// errors are found in the first JUDGED trials
enum { TRIALS = sizeof trials / sizeof *trials, JUDGED = 6 };

static void correct_products_pass(void **state) {
    (void)state;
    for (int i = 0; i < TRIALS; i++) {
        struct bench t;
        setup(&t, &trials[i], 10 * (uint64_t)i);
        for (uint64_t seed = 0; seed < 20; seed++)
            assert_int_equal(count_wrong(&t, seed), 0);
        teardown(&t);
    }
}

// Off by a relative 1e-9, which float32 cannot represent.
static void a_slip_is_found(void **state) {
    (void)state;
    for (int i = 0; i < JUDGED; i++) {
        struct bench t;
        setup(&t, &trials[i], 10 * (uint64_t)i);
        const struct mmul_product *p = &t.product;
        for (int64_t row = 0; row < p->m; row += 2)
            t.c[row * p->ldc + (row * 13 + 5) % p->n] *= 1 + 1e-9;
        assert_int_equal(count_wrong(&t, 3), (p->m + 1) / 2);
        for (int64_t row = 0; row < p->m; row++)
            assert_int_equal(t.wrong[row], row % 2 == 0);
        teardown(&t);
    }
}

static void elements_computed_in_float32_are_found(void **state) {
    (void)state;
    for (int i = 0; i < JUDGED; i++) {
        struct bench t;
        setup(&t, &trials[i], 10 * (uint64_t)i);
        for (int64_t e = 0; e < t.product.m * t.product.n; e++)
            t.c[e] = (float)t.c[e];
        assert_int_equal(count_wrong(&t, 5), t.product.m);
        teardown(&t);
    }
}

// A correct product passes. With every second row spoiled in these columns, exactly those rows are
// found.
static void expect_wrong_rows(struct bench *t, int64_t first_col, int64_t end_col) {
    const struct mmul_product *p = &t->product;
    multiply(t);
    for (uint64_t seed = 0; seed < 20; seed++)
        assert_int_equal(count_wrong(t, seed), 0);
    for (int64_t i = 0; i < p->m; i += 2)
        for (int64_t j = first_col; j < end_col; j++)
            t->c[i * p->ldc + j] *= 1 + 1e-9;
    for (uint64_t seed = 0; seed < 20; seed++) {
        assert_int_equal(count_wrong(t, seed), (p->m + 1) / 2);
        for (int64_t i = 0; i < p->m; i++)
            assert_int_equal(t->wrong[i], i % 2 == 0);
    }
}

static void lines_with_overflowing_squares_are_judged_by_samples(void **state) {
    (void)state;
    struct bench t;
    for (int i = JUDGED + 2; i < TRIALS; i++) { // all rows, all columns
        setup(&t, &trials[i], 10 * (uint64_t)i);
        expect_wrong_rows(&t, 0, t.product.n);
        teardown(&t);
    }
    setup(&t, &trials[0], 11); // one element of B, hence one column of C
    t.b[4 * t.product.ldb + 6] = 1e160;
    expect_wrong_rows(&t, 6, 7);
    expect_wrong_rows(&t, 7, 8);
    teardown(&t);
    setup(&t, &trials[1], 12); // C_in
    for (int64_t e = 0; e < t.product.m * t.product.n; e++)
        t.c_in[e] *= 1e200;
    expect_wrong_rows(&t, 0, t.product.n);
    teardown(&t);
    setup(&t, &trials[0],
          14); // only squares of C and of its errors overflow: sums judge all columns
    for (int64_t e = 0; e < t.product.m * t.product.k; e++)
        t.a[e] *= 1e100;
    for (int64_t e = 0; e < t.product.k * t.product.n; e++)
        t.b[e] *= 1e100;
    for (int64_t j = 0; j < t.product.n; j++)
        expect_wrong_rows(&t, j, j + 1);
    teardown(&t);
    setup(&t, &trials[0], 13); // sums that overflow on the way prove nothing
    for (int64_t e = 0; e < t.product.m * t.product.k; e++)
        t.a[e] *= 1e308;
    multiply(&t);
    for (int64_t e = 0; e < t.product.m * t.product.n; e += 3)
        t.c[e] = INFINITY;
    assert_int_equal(count_wrong(&t, 1), 0);
    teardown(&t);
}

// The check's own sums round as much as a product with a short inner range, for any random x.
static void correct_products_pass_with_many_seeds(void **state) {
    (void)state;
    enum { M = 350, N = 64, SEEDS = 10000 };
    static double a[M], b[N], c[M * N];
    static unsigned char wrong[M];
    struct mmul_check *check;
    struct mmul_error err;
    for (int j = 0; j < N; j++)
        b[j] = 0.5 + (double)(mmul_random_at(3, (uint64_t)j) >> 11) * 0x1p-53;
    for (int i = 0; i < M; i++) {
        a[i] = 0.5 + (double)(mmul_random_at(4, (uint64_t)i) >> 11) * 0x1p-53;
        for (int j = 0; j < N; j++)
            c[i * N + j] = a[i] * b[j];
    }
    const struct mmul_product p = {.m = M,
                                   .n = N,
                                   .k = 1,
                                   .alpha = 1,
                                   .a = a,
                                   .a_dtype = MMUL_F64,
                                   .lda = 1,
                                   .b = b,
                                   .b_dtype = MMUL_F64,
                                   .ldb = N,
                                   .c = c,
                                   .ldc = N};
    assert_int_equal(mmul_check_create(N, 1, &check, &err), MMUL_OK);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        assert_int_equal(mmul_check_begin(check, &p, seed, &err), MMUL_OK);
        assert_int_equal(mmul_check_rows(check, &p, 0, M, wrong), 0);
    }
    mmul_check_destroy(check);
}

static void nan_and_infinity_stay_where_they_belong(void **state) {
    (void)state;
    struct bench t;
    setup(&t, &trials[1], 7);
    t.a[3 * t.product.lda + 5] = NAN; // transposed: row 5 of op(A)
    t.b[4 * t.product.ldb + 6] = INFINITY;
    multiply(&t);
    assert_int_equal(count_wrong(&t, 1), 0);
    t.c[5 * t.product.ldc + 1] = 1;
    t.c[7 * t.product.ldc + 6] = 1e308;
    assert_int_equal(count_wrong(&t, 1), 2);
    teardown(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(correct_products_pass),
        cmocka_unit_test(a_slip_is_found),
        cmocka_unit_test(elements_computed_in_float32_are_found),
        cmocka_unit_test(lines_with_overflowing_squares_are_judged_by_samples),
        cmocka_unit_test(correct_products_pass_with_many_seeds),
        cmocka_unit_test(nan_and_infinity_stay_where_they_belong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
