// SPDX-License-Identifier: MIT
//
// The check of a product with its blocks on a mesh of ranks (model/check.h, "one of many blocks"),
// with loops in place of ranks. The ranks' sums equal plain loops in double. A correct product
// needs no second pass. Every error that the check of a single block finds is found here, too, in
// any block.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "model/check.h"

enum { M = 37, N = 41, K = 300, ROWS = 3, COLS = 2 };

// Offsets of the blocks of C, and of the parts of the inner range that each rank reads.
static const int64_t row_offsets[] = {0, 5, 5, M}, col_offsets[] = {0, 29, N};
static const int64_t b_offsets[] = {0, 140, 141, K}, a_offsets[] = {0, 100, K};

struct mesh {
    bool transposed; // A and B are stored as their transposes
    float a[M * K], b[K * N], c[M * N];
    struct mmul_check *check;
    double sizes[N], bx[K], squares[N], residuals[M], norms[M];
};

static double a_at(const struct mesh *x, int64_t i, int64_t p) {
    return x->a[x->transposed ? p * M + i : i * K + p];
}

static double b_at(const struct mesh *x, int64_t p, int64_t j) {
    return x->b[x->transposed ? j * K + p : p * N + j];
}

// Returns the part of the product with these rows and columns of C and terms of the inner range.
static struct mmul_product part_of(const struct mesh *x, int64_t i, int64_t i_end, int64_t j,
                                   int64_t j_end, int64_t p, int64_t p_end) {
    return (struct mmul_product){.transpose_a = x->transposed,
                                 .transpose_b = x->transposed,
                                 .m = i_end - i,
                                 .n = j_end - j,
                                 .k = p_end - p,
                                 .alpha = 1,
                                 .a = x->a + (x->transposed ? p * M + i : i * K + p),
                                 .lda = x->transposed ? M : K,
                                 .b = x->b + (x->transposed ? j * K + p : p * N + j),
                                 .ldb = x->transposed ? K : N,
                                 .c = (float *)(uintptr_t)x->c + i * N + j,
                                 .ldc = N};
}

static struct mmul_product block_of(const struct mesh *x, int row, int col) {
    return part_of(x, row_offsets[row], row_offsets[row + 1], col_offsets[col],
                   col_offsets[col + 1], 0, K);
}

static struct mmul_check_part place_of(const struct mesh *x, int col, bool has_squares) {
    return (struct mmul_check_part){
        N, K, col_offsets[col], 100 + (uint64_t)col, x->sizes, has_squares ? x->squares : NULL};
}

static void add_to_sum(double *sum, double *mine, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        sum[i] += mine[i];
        mine[i] = 0;
    }
}

// Runs all three rounds of all ranks.
static void sum_over_ranks(struct mesh *x) {
    double vector[K] = {0}, other[N] = {0};
    memset(x->sizes, 0, sizeof x->sizes);
    memset(x->bx, 0, sizeof x->bx);
    memset(x->squares, 0, sizeof x->squares);
    memset(x->residuals, 0, sizeof x->residuals);
    memset(x->norms, 0, sizeof x->norms);
    for (int round = 0; round < 3; round++) {
        struct mesh before = *x;
        for (int row = 0; row < ROWS; row++)
            for (int col = 0; col < COLS; col++) {
                const struct mmul_product of_b =
                    part_of(x, 0, 0, col_offsets[col], col_offsets[col + 1], b_offsets[row],
                            b_offsets[row + 1]);
                const struct mmul_product of_a =
                    part_of(x, row_offsets[row], row_offsets[row + 1], col_offsets[col],
                            col_offsets[col + 1], a_offsets[col], a_offsets[col + 1]);
                const struct mmul_check_part place = place_of(&before, col, round == 2);
                if (round == 0) {
                    mmul_check_part_sizes(x->check, &of_b, other);
                    add_to_sum(x->sizes + col_offsets[col], other, of_b.n);
                } else if (round == 1) {
                    mmul_check_part_project(x->check, &of_b, &place, vector, other);
                    add_to_sum(x->bx + b_offsets[row], vector, of_b.k);
                    add_to_sum(x->squares + col_offsets[col], other, of_b.n);
                } else {
                    (void)mmul_check_part_begin(x->check, &of_a, &place);
                    mmul_check_part_rows(x->check, &of_a, before.bx + a_offsets[col], vector,
                                         other);
                    add_to_sum(x->residuals + row_offsets[row], vector, of_a.m);
                    add_to_sum(x->norms + row_offsets[row], other, of_a.m);
                }
            }
    }
}

// Returns true if the rank would inspect this row of its block.
static bool is_doubted(struct mesh *x, int row, int col, int64_t i) {
    const struct mmul_product block = block_of(x, row, col);
    const struct mmul_check_part place = place_of(x, col, true);
    return !mmul_check_part_begin(x->check, &block, &place) ||
           !mmul_check_part_is_right(x->check, &block, x->residuals[i], x->norms[i]);
}

static int count_doubted(struct mesh *x) {
    int doubted = 0;
    for (int row = 0; row < ROWS; row++)
        for (int col = 0; col < COLS; col++)
            for (int64_t i = row_offsets[row]; i < row_offsets[row + 1]; i++)
                doubted += is_doubted(x, row, col, i);
    return doubted;
}

// Checks a block alone, with the same x; sets `wrong` for the block's rows.
static int64_t check_alone(struct mesh *x, int row, int col, unsigned char *wrong) {
    const struct mmul_product block = block_of(x, row, col);
    struct mmul_error err;
    assert_int_equal(mmul_check_begin(x->check, &block, 100 + (uint64_t)col, &err), MMUL_OK);
    return mmul_check_rows(x->check, &block, 0, block.m, wrong);
}

static float number_at(uint64_t seed, int64_t at) {
    return (float)((double)(mmul_random_at(seed, (uint64_t)at) >> 40) * 0x1p-23 - 1);
}

// Computes C with one float accumulator per element, the roughest correct kernel.
static void multiply(struct mesh *x) {
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            float sum = 0;
            for (int64_t p = 0; p < K; p++)
                sum += (float)a_at(x, i, p) * (float)b_at(x, p, j);
            x->c[i * N + j] = sum;
        }
}

static struct mesh *make_mesh(uint64_t seed, bool transposed) {
    struct mesh *x = calloc(1, sizeof *x);
    struct mmul_error err;
    x->transposed = transposed;
    for (int64_t e = 0; e < M * K; e++)
        x->a[e] = number_at(seed, e);
    for (int64_t e = 0; e < K * N; e++)
        x->b[e] = number_at(seed + 1, e);
    multiply(x);
    assert_int_equal(mmul_check_create(K, K, &x->check, &err), MMUL_OK);
    return x;
}

static void destroy_mesh(struct mesh *x) {
    mmul_check_destroy(x->check);
    free(x);
}

// ---------------------------------------------------------------------------------------- tests

static void sums_of_ranks_equal_plain_loops(void **state) {
    (void)state;
    for (int transposed = 0; transposed < 2; transposed++) {
        struct mesh *x = make_mesh(10, transposed);
        x->c[3 * N + 30] += 1;
        sum_over_ranks(x);
        for (int64_t j = 0; j < N; j++) {
            double squares = 0;
            for (int64_t p = 0; p < K; p++)
                squares += b_at(x, p, j) * b_at(x, p, j);
            assert_true(fabs(squares - x->squares[j]) < 1e-9);
        }
        for (int64_t i = 0; i < M; i++) {
            double norm = 0, wrong = 0;
            for (int64_t p = 0; p < K; p++)
                norm += a_at(x, i, p) * a_at(x, i, p);
            assert_true(fabs(norm - x->norms[i]) < 1e-9);
            for (int64_t j = 0; j < N; j++) {
                double exact = 0;
                for (int64_t p = 0; p < K; p++)
                    exact += a_at(x, i, p) * b_at(x, p, j);
                wrong += fabs(x->c[i * N + j] - exact);
            }
            // |x_j| is in [0.5, 1]
            assert_true(fabs(x->residuals[i]) <= wrong + 1e-9);
            assert_true(i != 3 || fabs(x->residuals[i]) >= 0.49);
        }
        destroy_mesh(x);
    }
}

static void correct_products_are_read_once(void **state) {
    (void)state;
    for (uint64_t seed = 20; seed < 40; seed++) {
        struct mesh *x = make_mesh(seed, seed % 2 == 0);
        sum_over_ranks(x);
        assert_int_equal(count_doubted(x), 0);
        destroy_mesh(x);
    }
}

// Columns of B range from 1e-6 to 1e6.
static void columns_of_any_size_count_alike(void **state) {
    (void)state;
    struct mesh *x = make_mesh(50, false);
    for (int64_t e = 0; e < K * N; e++)
        x->b[e] *= powf(10, (float)(e % N % 13) - 6);
    multiply(x);
    sum_over_ranks(x);
    assert_int_equal(count_doubted(x), 0);
    for (int64_t j = 0; j < N; j++) {
        int64_t i = j % M;
        float kept = x->c[i * N + j];
        x->c[i * N + j] += 0.01F * sqrtf((float)x->squares[j]);
        sum_over_ranks(x);
        assert_true(count_doubted(x) > 0);
        x->c[i * N + j] = kept;
    }
    destroy_mesh(x);
}

// Tries every element with errors around the detection limit.
static void errors_found_in_a_single_block_are_found(void **state) {
    (void)state;
    static const float errors[] = {1e-4F, 5e-4F, 1e-3F, 1.5e-3F, 2e-3F, 1e-2F, 1, 1e30F};
    struct mesh *x = make_mesh(60, false);
    int found = 0, passed = 0;
    for (int row = 0; row < ROWS; row++)
        for (int col = 0; col < COLS; col++)
            for (int64_t i = row_offsets[row]; i < row_offsets[row + 1]; i++)
                for (int64_t j = col_offsets[col]; j < col_offsets[col + 1]; j++) {
                    unsigned char wrong[M] = {0};
                    float kept = x->c[i * N + j];
                    float error = errors[(i + j) % 8];
                    x->c[i * N + j] += i % 2 == 0 ? error : -error;
                    int64_t alone = check_alone(x, row, col, wrong);
                    sum_over_ranks(x);
                    bool doubted = is_doubted(x, row, col, i);
                    found += alone > 0;
                    passed += alone == 0;
                    assert_true(alone == 0 || (wrong[i - row_offsets[row]] && doubted));
                    // the check of a single block detects large errors
                    assert_true(error < 1e-2F || alone == 1);
                    x->c[i * N + j] = kept;
                }
    assert_true(found > 300 && passed > 100);
    destroy_mesh(x);
}

// NaN and Inf enter no common sum: each rank inspects its own block.
static void nan_and_inf_are_judged_by_the_rank_of_the_block(void **state) {
    (void)state;
    const float values[] = {NAN, INFINITY, -INFINITY};
    for (int v = 0; v < 3; v++) {
        struct mesh *x = make_mesh(70, false);
        float kept = x->c[7 * N + 8];
        x->c[7 * N + 8] = values[v];
        sum_over_ranks(x);
        assert_true(is_doubted(x, 2, 0, 7) && !is_doubted(x, 2, 0, 8));
        x->c[7 * N + 8] = kept;
        x->a[7 * K + 290] = values[v];
        sum_over_ranks(x);
        assert_true(is_doubted(x, 2, 0, 7) && is_doubted(x, 2, 1, 7) && !is_doubted(x, 2, 1, 8));
        x->a[7 * K + 290] = 0;
        x->b[290 * N + 3] = values[v];
        sum_over_ranks(x);
        assert_true(is_doubted(x, 0, 0, 0) && is_doubted(x, 2, 0, M - 1));
        destroy_mesh(x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_ranks_equal_plain_loops),
        cmocka_unit_test(correct_products_are_read_once),
        cmocka_unit_test(columns_of_any_size_count_alike),
        cmocka_unit_test(errors_found_in_a_single_block_are_found),
        cmocka_unit_test(nan_and_inf_are_judged_by_the_rank_of_the_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
