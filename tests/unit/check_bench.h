// SPDX-License-Identifier: MIT
//
// Products for the tests of the result check. Correct ones come from OpenBLAS, from a loop with one
// float32 accumulator per element (the roughest correct kernel) and from a loop in double. Every
// stored row of A, B and C_in ends with NaN beyond its length, so reading there would show.
// CHECK_TEST_COUNT sets the number of trials.
//
// The check judges lines: rows of C, or columns in panels by way of the transposed product. `cross`
// numbers the elements of a line.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "model/check.h"
#include "model/dtype.h"

enum { PADDING = 3 };

enum kind { UNIT, SIGNED, NORMAL, INTEGER, ROW_SCALED, COL_SCALED, SMALL, LARGE, SPARSE, CONSTANT };
enum { KIND_COUNT = CONSTANT + 1 };

enum maker { BLAS, SEQUENTIAL, DOUBLE };

// A product and its memory: a, b are float32 copies of the operands of `product`.
struct bench {
    struct mmul_product product;
    float *a, *b, *c_in, *c;
    void *a_narrow, *b_narrow;
    struct mmul_check *check;
    unsigned char *wrong; // a flag per line
    bool columns;         // true: lines are columns
    int64_t panel;        // lines judged at once
    struct mmul_error err;
};

static inline int trials(void) {
    const char *text = getenv("CHECK_TEST_COUNT");
#ifdef __SANITIZE_ADDRESS__
    int usual = 20; // the sanitizer makes trials ten times as slow
#else
    int usual = 100;
#endif
    return text != NULL ? atoi(text) : usual;
}

static inline double unit_at(uint64_t seed, int64_t at) {
    return (double)(mmul_random_at(seed, (uint64_t)at) >> 40) * 0x1p-24;
}

static inline int64_t below(uint64_t seed, int64_t at, int64_t bound) {
    return (int64_t)(unit_at(seed, at) * (double)bound);
}

static inline double normal_at(uint64_t seed, int64_t at) {
    double radius = sqrt(-2 * log(unit_at(seed, 2 * at) + 0x1p-25));
    return radius * cos(6.283185307179586 * unit_at(seed, 2 * at + 1));
}

static inline double value_at(enum kind kind, uint64_t seed, int64_t row, int64_t col, int64_t at) {
    switch (kind) {
    case UNIT:
        return unit_at(seed, at);
    case SIGNED:
        return 2 * unit_at(seed, at) - 1;
    case NORMAL:
        return normal_at(seed, at);
    case INTEGER:
        return floor(9 * unit_at(seed, at)) - 4;
    case ROW_SCALED:
        return ldexp(unit_at(seed, at), (int)(below(seed + 1, row, 41) - 20));
    case COL_SCALED:
        return ldexp(normal_at(seed, at), (int)(below(seed + 1, col, 41) - 20));
    case SMALL:
        return 1e-30 * unit_at(seed, at);
    case LARGE:
        return 1e18 * normal_at(seed, at);
    case SPARSE:
        return unit_at(seed + 1, at) < 0.05 ? normal_at(seed, at) : 0;
    case CONSTANT:
        return 0.1 + 0.3 * unit_at(seed, 0);
    }
    return 0;
}

// Makes (rows, cols) with PADDING columns of NaN, rounded through `dtype`.
static inline float *make_matrix(enum kind kind, uint64_t seed, int64_t rows, int64_t cols,
                                 enum mmul_dtype dtype, void **narrow) {
    int64_t ld = cols + PADDING, count = rows * ld;
    float *matrix = malloc((size_t)count * sizeof *matrix);
    *narrow = malloc((size_t)count * sizeof *matrix);
    for (int64_t e = 0; e < count; e++) {
        int64_t row = e / ld, col = e % ld;
        matrix[e] = col < cols ? (float)value_at(kind, seed, row, col, e) : NAN;
    }
    mmul_dtype_narrow(dtype, matrix, count, *narrow);
    mmul_dtype_widen(dtype, *narrow, count, matrix);
    return matrix;
}

static inline float *empty_matrix(int64_t rows, int64_t cols) {
    return calloc((size_t)(rows * (cols + PADDING)), sizeof(float));
}

// `shape` gives sizes, transposes, dtypes, alpha and beta.
static inline void setup(struct bench *bench, struct mmul_product shape, enum kind kind_a,
                         enum kind kind_b, uint64_t seed) {
    int64_t m = shape.m, n = shape.n, k = shape.k;
    int64_t a_rows = shape.transpose_a ? k : m, a_cols = shape.transpose_a ? m : k;
    int64_t b_rows = shape.transpose_b ? n : k, b_cols = shape.transpose_b ? k : n;
    void *unused;
    *bench = (struct bench){.product = shape};
    bench->a = make_matrix(kind_a, seed, a_rows, a_cols, shape.a_dtype, &bench->a_narrow);
    bench->b = make_matrix(kind_b, seed + 10, b_rows, b_cols, shape.b_dtype, &bench->b_narrow);
    bench->c_in = make_matrix(NORMAL, seed + 20, m, n, MMUL_F32, &unused);
    free(unused);
    bench->c = empty_matrix(m, n);
    bench->wrong = calloc((size_t)(m > n ? m : n), 1);
    bench->panel = m;
    struct mmul_product *product = &bench->product;
    product->a = bench->a_narrow;
    product->b = bench->b_narrow;
    product->c_in = bench->c_in;
    product->c = bench->c;
    product->lda = a_cols + PADDING;
    product->ldb = b_cols + PADDING;
    product->ldc = product->ldc_in = n + PADDING;
    assert_int_equal(mmul_check_create(n, k, &bench->check, &bench->err), MMUL_OK);
}

static inline void judge_in_columns(struct bench *bench, int64_t panel) {
    mmul_check_destroy(bench->check);
    bench->columns = true;
    bench->panel = panel;
    assert_int_equal(
        mmul_check_create(bench->product.m, bench->product.k, &bench->check, &bench->err), MMUL_OK);
}

// `shape` is the product as the check sees it: m lines of n elements. If lines are columns, its A
// is the product's B.
static inline void setup_lines(struct bench *bench, struct mmul_product shape, enum kind kind_a,
                               enum kind kind_b, uint64_t seed, bool columns) {
    struct mmul_product stored = shape;
    if (!columns) {
        setup(bench, shape, kind_a, kind_b, seed);
        return;
    }
    stored.m = shape.n;
    stored.n = shape.m;
    stored.transpose_a = shape.transpose_b;
    stored.transpose_b = shape.transpose_a;
    stored.a_dtype = shape.b_dtype;
    stored.b_dtype = shape.a_dtype;
    setup(bench, stored, kind_b, kind_a, seed);
    judge_in_columns(bench, 1 + below(seed, 99, shape.m));
}

static inline struct mmul_product judged_product(const struct bench *bench) {
    return bench->columns ? mmul_product_transpose(&bench->product) : bench->product;
}

static inline void teardown(struct bench *bench) {
    void *blocks[] = {bench->a,        bench->b,        bench->c_in, bench->c,
                      bench->a_narrow, bench->b_narrow, bench->wrong};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        free(blocks[i]);
    mmul_check_destroy(bench->check);
    assert_int_equal(mmul_live_bytes(), 0);
}

static inline float *a_at(const struct bench *bench, int64_t i, int64_t p) {
    int64_t ld = bench->product.lda;
    return bench->a + (bench->product.transpose_a ? p * ld + i : i * ld + p);
}

static inline float *b_at(const struct bench *bench, int64_t p, int64_t j) {
    int64_t ld = bench->product.ldb;
    return bench->b + (bench->product.transpose_b ? j * ld + p : p * ld + j);
}

static inline float *c_at(const struct bench *bench, int64_t i, int64_t j) {
    return bench->c + i * bench->product.ldc + j;
}

static inline float *line_at(const struct bench *bench, int64_t line, int64_t cross) {
    return bench->columns ? c_at(bench, cross, line) : c_at(bench, line, cross);
}

// Returns an element of the operand that is common to all lines.
static inline float *cross_at(const struct bench *bench, int64_t p, int64_t cross) {
    return bench->columns ? a_at(bench, cross, p) : b_at(bench, p, cross);
}

static inline void multiply_blas(struct bench *bench) {
    const struct mmul_product *product = &bench->product;
    for (int64_t i = 0; i < product->m && product->beta != 0; i++) {
        memcpy(c_at(bench, i, 0), bench->c_in + i * product->ldc_in,
               (size_t)product->n * sizeof(float));
    }
    cblas_sgemm(CblasRowMajor, product->transpose_a ? CblasTrans : CblasNoTrans,
                product->transpose_b ? CblasTrans : CblasNoTrans, (int)product->m, (int)product->n,
                (int)product->k, product->alpha, bench->a, (int)product->lda, bench->b,
                (int)product->ldb, product->beta, bench->c, (int)product->ldc);
}

// One accumulator per element, float32 or double.
static inline void multiply_loop(struct bench *bench, bool in_double) {
    const struct mmul_product *product = &bench->product;
    for (int64_t i = 0; i < product->m; i++) {
        for (int64_t j = 0; j < product->n; j++) {
            double sum = 0;
            float rough = 0;
            for (int64_t p = 0; p < product->k; p++) {
                float a = *a_at(bench, i, p), b = *b_at(bench, p, j);
                sum += (double)a * (double)b;
                rough += a * b;
            }
            float c_in = product->beta != 0 ? bench->c_in[i * product->ldc_in + j] : 0;
            *c_at(bench, i, j) =
                in_double ? (float)((double)product->alpha * sum + (double)product->beta * c_in)
                          : product->alpha * rough + product->beta * c_in;
        }
    }
}

static inline void multiply(struct bench *bench, enum maker maker) {
    if (maker == BLAS)
        multiply_blas(bench);
    else
        multiply_loop(bench, maker == DOUBLE);
}

static inline int64_t count_wrong(struct bench *bench, uint64_t seed) {
    const struct mmul_product judged = judged_product(bench);
    assert_int_equal(mmul_check_begin(bench->check, &judged, seed, &bench->err), MMUL_OK);
    memset(bench->wrong, 2, (size_t)judged.m);
    int64_t count = 0, marked = 0;
    for (int64_t begin = 0; begin < judged.m; begin += bench->panel) {
        int64_t end = judged.m - begin < bench->panel ? judged.m : begin + bench->panel;
        const struct mmul_product panel = mmul_product_rows(&judged, begin, end);
        count += mmul_check_rows(bench->check, &panel, 0, panel.m, bench->wrong + begin);
    }
    for (int64_t i = 0; i < judged.m; i++) {
        assert_in_range(bench->wrong[i], 0, 1);
        marked += bench->wrong[i];
    }
    assert_int_equal(count, marked);
    return count;
}

// Returns the root mean square of rows [row_begin, row_end) and columns [col_begin, col_end) of C.
static inline float c_rms(struct bench *bench, int64_t row_begin, int64_t row_end,
                          int64_t col_begin, int64_t col_end) {
    double squares = 0;
    for (int64_t i = row_begin; i < row_end; i++)
        for (int64_t j = col_begin; j < col_end; j++)
            squares += (double)*c_at(bench, i, j) * (double)*c_at(bench, i, j);
    return (float)sqrt(squares / (double)((row_end - row_begin) * (col_end - col_begin)));
}
