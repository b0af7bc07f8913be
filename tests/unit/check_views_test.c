// SPDX-License-Identifier: MIT
//
// Views of a product: its transpose and a range of its rows refer to the same numbers in the same
// memory. A product and its transpose are judged alike, and columns in place are judged like rows
// of a written copy of C^T.
#include "check_bench.h"

// ------------------------------------------------------------------------------------- numbers

// (m, n, k) of the first product; prime, so that no leading dimension fits by chance.
enum { M = 5, N = 7, K = 11 };

static float element(const void *data, enum mmul_dtype dtype, int64_t at) {
    float value;
    mmul_dtype_widen(dtype, (const char *)data + at * (int64_t)mmul_dtype_bytes(dtype), 1, &value);
    return value;
}

// Computes C from the fields of a product into `c`, which has the layout of product->c.
static void multiply_by_fields(const struct mmul_product *p, float *c) {
    const float *c_in = p->c_in;
    for (int64_t i = 0; i < p->m; i++) {
        for (int64_t j = 0; j < p->n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < p->k; l++) {
                int64_t a_at = p->transpose_a ? l * p->lda + i : i * p->lda + l;
                int64_t b_at = p->transpose_b ? j * p->ldb + l : l * p->ldb + j;
                sum += (double)element(p->a, p->a_dtype, a_at) *
                       (double)element(p->b, p->b_dtype, b_at);
            }
            int64_t at = p->transpose_c ? j * p->ldc + i : i * p->ldc + j;
            int64_t in_at = p->transpose_c ? j * p->ldc_in + i : i * p->ldc_in + j;
            c[at] = (float)((double)p->alpha * sum + (double)(p->beta * c_in[in_at]));
        }
    }
}

static struct mmul_product variant_shape(int variant) {
    return (struct mmul_product){.m = M,
                                 .n = N,
                                 .k = K,
                                 .alpha = 2,
                                 .beta = 3,
                                 .transpose_a = variant % 2 != 0,
                                 .transpose_b = variant / 2 % 2 != 0,
                                 .a_dtype = variant / 4 % 2 != 0 ? MMUL_BF16 : MMUL_F32,
                                 .b_dtype = variant / 8 % 2 != 0 ? MMUL_F16 : MMUL_F32};
}

static void a_transposed_view_refers_to_the_same_numbers(void **state) {
    (void)state;
    for (int variant = 0; variant < 16; variant++) {
        struct bench bench;
        setup(&bench, variant_shape(variant), INTEGER, INTEGER, (uint64_t)variant);
        bench.product.ldc_in = N + PADDING;
        float *seen = empty_matrix(M, N);
        const struct mmul_product transposed = mmul_product_transpose(&bench.product);
        const struct mmul_product twice = mmul_product_transpose(&transposed);
        assert_int_equal(transposed.m, N);
        assert_int_equal(transposed.n, M);
        assert_true(transposed.transpose_c);
        multiply_by_fields(&bench.product, bench.c);
        multiply_by_fields(&transposed, seen);
        assert_memory_equal(seen, bench.c, M * (N + PADDING) * sizeof *seen);
        assert_memory_equal(&twice.m, &bench.product.m, 3 * sizeof twice.m);
        assert_false(twice.transpose_c);
        multiply_by_fields(&twice, seen);
        assert_memory_equal(seen, bench.c, M * (N + PADDING) * sizeof *seen);
        free(seen);
        teardown(&bench);
    }
}

// Rows [2, 4) of the product and of its transpose (columns): those change, nothing else.
static void a_view_of_some_rows_refers_to_the_same_memory(void **state) {
    (void)state;
    for (int variant = 0; variant < 32; variant++) {
        struct bench bench;
        bool columns = variant >= 16;
        setup(&bench, variant_shape(variant), INTEGER, INTEGER, (uint64_t)variant);
        float *seen = empty_matrix(M, N);
        bench.columns = columns;
        const struct mmul_product judged = judged_product(&bench);
        const struct mmul_product rows = mmul_product_rows(&judged, 2, 4);
        multiply_by_fields(&judged, bench.c);
        multiply_by_fields(&rows, seen + ((float *)rows.c - bench.c));
        for (int64_t i = 0; i < M; i++) {
            for (int64_t j = 0; j < N; j++) {
                int64_t line = columns ? j : i, at = i * bench.product.ldc + j;
                assert_true(seen[at] == (line == 2 || line == 3 ? bench.c[at] : 0));
            }
        }
        free(seen);
        teardown(&bench);
    }
}

static void views_of_a_product_without_operands_have_none(void **state) {
    (void)state;
    float c[6];
    const struct mmul_product none = {.m = 2, .n = 3, .k = 4, .c = c, .ldc = 3};
    const struct mmul_product transposed = mmul_product_transpose(&none);
    const struct mmul_product row = mmul_product_rows(&none, 1, 2);
    const struct mmul_product column = mmul_product_rows(&transposed, 1, 2);
    assert_null(transposed.a);
    assert_null(row.a);
    assert_null(row.c_in);
    assert_null(column.a);
    assert_ptr_equal(row.c, c + 3);
    assert_ptr_equal(column.c, c + 1);
}

// ------------------------------------------------------------------------------------ verdicts

static void put_value(struct bench *bench, uint64_t seed, float value) {
    float *matrices[] = {
        a_at(bench, below(seed, 1, bench->product.m), below(seed, 2, bench->product.k)),
        b_at(bench, below(seed, 3, bench->product.k), below(seed, 4, bench->product.n)),
        bench->c_in + below(seed, 5, bench->product.m) * bench->product.ldc_in +
            below(seed, 6, bench->product.n)};
    *matrices[below(seed, 7, 3)] = value;
}

// Draws a product, sometimes with NaN, Inf or alpha 0; most have a wrong element at (*i, *j).
// Returns true if there is one.
static bool draw_case(struct bench *bench, uint64_t seed, int64_t *i, int64_t *j) {
    static const float special[] = {NAN, INFINITY, -INFINITY};
    struct mmul_product shape = {.m = 1 + below(seed, 10, 90),
                                 .n = 1 + below(seed, 11, 90),
                                 .k = 1 + below(seed, 12, 50),
                                 .alpha = below(seed, 13, 8) == 0 ? 0 : -1.5F,
                                 .beta = below(seed, 14, 2) != 0 ? 0.5F : 0,
                                 .transpose_a = below(seed, 15, 2) != 0,
                                 .transpose_b = below(seed, 16, 2) != 0};
    setup(bench, shape, (enum kind)below(seed, 17, INTEGER + 1), NORMAL, seed);
    bench->product.a = bench->a;
    bench->product.b = bench->b;
    for (int count = 0; count < 3 && below(seed, 18, 3) == 0; count++)
        put_value(bench, seed + 100 * (uint64_t)count, special[below(seed, 19 + count, 3)]);
    multiply(bench, DOUBLE);
    if (shape.alpha == 0) {
        for (int64_t at = 0; at < shape.m * bench->product.ldc; at++)
            bench->c[at] = shape.beta != 0 ? shape.beta * bench->c_in[at] : 0;
        bench->product.a = bench->product.b = NULL;
    }
    *i = below(seed, 30, shape.m);
    *j = below(seed, 31, shape.n);
    float *spoiled = c_at(bench, *i, *j);
    bool wrong = isfinite(*spoiled) && fabsf(*spoiled) < 1e10F && below(seed, 32, 4) != 0;
    if (wrong)
        *spoiled += 3 + fabsf(*spoiled);
    return wrong;
}

static void rows_and_columns_are_judged_alike(void **state) {
    (void)state;
    int wrong_count = 0;
    for (int number = 0; number < 5 * trials(); number++) {
        struct bench bench;
        int64_t i, j;
        bool wrong = draw_case(&bench, (uint64_t)number, &i, &j);
        int64_t rows = count_wrong(&bench, (uint64_t)number);
        bool row_found = bench.wrong[i] == 1;
        judge_in_columns(&bench, 1 + below((uint64_t)number, 40, bench.product.n));
        int64_t cols = count_wrong(&bench, (uint64_t)number);
        bool column_found = bench.wrong[j] == 1;
        if (rows != wrong || cols != wrong)
            print_message("# case %d: %d rows, %d columns\n", number, (int)rows, (int)cols);
        assert_int_equal(rows, wrong);
        assert_int_equal(cols, wrong);
        assert_true(row_found == wrong && column_found == wrong);
        wrong_count += wrong;
        teardown(&bench);
    }
    assert_true(wrong_count > trials());
}

// For any error: flags of columns equal those of the rows of a written copy of C^T (and C_in^T).
static void columns_are_judged_like_rows_of_a_transposed_copy(void **state) {
    (void)state;
    for (int number = 0; number < trials(); number++) {
        struct bench bench;
        int64_t i, j;
        draw_case(&bench, 7000 + (uint64_t)number, &i, &j);
        int64_t m = bench.product.m, n = bench.product.n;
        for (j = 0; j < n && number % 2 != 0; j += 2)
            *c_at(&bench, i, j) *= 1.01F;
        judge_in_columns(&bench, 1 + number % n);
        int64_t count = count_wrong(&bench, (uint64_t)number);
        struct mmul_product copied = judged_product(&bench);
        float *c = malloc((size_t)(2 * m * n) * sizeof *c), *c_in = c + m * n;
        for (int64_t at = 0; at < m * n; at++) {
            c[at] = *c_at(&bench, at % m, at / m);
            c_in[at] = bench.c_in[at % m * bench.product.ldc_in + at / m];
        }
        copied.transpose_c = false;
        copied.c = c;
        copied.c_in = c_in;
        copied.ldc = copied.ldc_in = m;
        unsigned char *wrong = calloc((size_t)n, 1);
        assert_int_equal(mmul_check_begin(bench.check, &copied, (uint64_t)number, &bench.err),
                         MMUL_OK);
        assert_int_equal(mmul_check_rows(bench.check, &copied, 0, n, wrong), count);
        assert_memory_equal(wrong, bench.wrong, (size_t)n);
        free(wrong);
        free(c);
        teardown(&bench);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transposed_view_refers_to_the_same_numbers),
        cmocka_unit_test(a_view_of_some_rows_refers_to_the_same_memory),
        cmocka_unit_test(views_of_a_product_without_operands_have_none),
        cmocka_unit_test(rows_and_columns_are_judged_alike),
        cmocka_unit_test(columns_are_judged_like_rows_of_a_transposed_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
