// SPDX-License-Identifier: MIT
// Second look at a row whose sum is beyond the tolerance: decides if it is wrong or if its numbers
// round in an unusual way. If the terms of an element are all alike (constant matrices), each
// addition rounds the same way, and the error grows with k instead of sqrt(k). But the signs of x
// are random for any errors e_j. A residual r that is mere rounding therefore obeys r^2 ~ sum_j
// (e_j x_j)^2, and a sample of the e_j, computed in double, estimates that sum. Columns are drawn
// with chances that follow their likely share of it; the estimate divides by the chance (Horvitz
// and Thompson 1952).
// If the sample explains nothing, a few rows are compared whole. The errors of such a row, if it is
// right, show the rough columns (remainder columns of a kernel, a constant column among random
// ones), and the next rows are sampled there.
#include "model/check_state.h"
#include "model/dtype.h"

#include <math.h>

#include "base/random.h"

// limit of |r| over its estimated size: 5 sigma, and 40 % for the estimate itself
#define SPREAD 8.0

enum { WHOLE_ROWS = 4 }; // rows per B that are compared whole, at most

// Draws columns by weight check->errors[j] >= 0. Half of the chance is spread evenly, so that none
// is impossible. One number is drawn in each of MMUL_CHECK_SAMPLE equal parts of [0, 1).
static void draw_columns(struct mmul_check *check) {
    double total = 0, passed = 0, chance = 0;
    for (int64_t j = 0; j < check->n; j++)
        total += check->errors[j];
    int64_t j = -1;
    check->sample_count = check->sample_most;
    for (int64_t s = 0; s < check->sample_most; s++) {
        uint64_t bits = mmul_random_at(check->seed, check->draws++);
        double aim = ((double)s + (double)(bits >> 11) * 0x1p-53) / (double)check->sample_most;
        while (j < 0 || (passed + chance <= aim && j + 1 < check->n)) {
            passed += chance;
            j++;
            double share = total > 0 ? check->errors[j] / total : 1 / (double)check->n;
            chance = 0.5 / (double)check->n + 0.5 * share;
        }
        check->sample[s] = j;
        check->sample_weight[s] = 1 / (chance * (double)check->sample_most);
    }
}

// Samples columns; all of them if there are at most that many.
static void draw_sample(struct mmul_check *check) {
    check->has_sample = false;
    if (check->n > check->sample_most) {
        draw_columns(check);
        return;
    }
    check->sample_count = check->n;
    for (int64_t j = 0; j < check->n; j++) {
        check->sample[j] = j;
        check->sample_weight[j] = 1;
    }
}

void mmul_check_recheck_begin(struct mmul_check *check) {
    for (int64_t j = 0; j < check->n; j++)
        check->errors[j] = check->column_squares[j] * check->x[j] * check->x[j];
    check->whole_rows = WHOLE_ROWS;
    draw_sample(check);
}

static void load_sample(struct mmul_check *check, const struct mmul_product *product) {
    if (check->has_sample)
        return;
    const enum mmul_dtype dtype = mmul_product_dtype(product);
    struct mmul_check_operand b = mmul_check_operand_b(product);
    for (int64_t p = 0; p < check->k; p++) {
        for (int64_t s = 0; s < check->sample_count; s++) {
            const double element = mmul_check_element(b, p, check->sample[s]);
            const int64_t at = p * check->sample_count + s;
            mmul_dtype_set_real(dtype, check->sample_columns, at, element);
        }
    }
    check->has_sample = true;
}

// Computes sums[s] = a_i . b_j for the sampled columns j, with the row in check->row.
static void dot_sample(const struct mmul_check *check, enum mmul_dtype dtype, long double *sums) {
    int64_t count = check->sample_count;
    for (int64_t s = 0; s < count; s++)
        sums[s] = 0;
    for (int64_t p = 0; p < check->k; p++) {
        const double *doubles = (const double *)check->sample_columns + p * count;
        const float *floats = (const float *)check->sample_columns + p * count;
        for (int64_t s = 0; s < count; s++)
            sums[s] +=
                (long double)check->row[p] * (dtype == MMUL_F64 ? doubles[s] : (double)floats[s]);
    }
}

// Returns true if an element is within the worst case of any order of summation (Higham, Accuracy
// and Stability of Numerical Algorithms, 2002, 3.1). `sum` is its a_i . b_j. Gives e_j x_j.
static bool element_is_right(const struct mmul_check *check, const struct mmul_product *product,
                             const struct mmul_check_row *row, int64_t col, long double sum,
                             double *weighted_error) {
    struct mmul_check_operand all_c = mmul_check_operand_c(product);
    double c = mmul_check_element(all_c, row->index, col), c_in = 0;
    if (product->beta != 0)
        c_in = mmul_check_element(mmul_check_operand_c_in(product), row->index, col);
    *weighted_error = 0;
    if (check->x[col] == 0 || !isfinite(c) || !isfinite(c_in))
        return true; // checked by class
    double column_norm = mmul_check_norm(product, check->column_squares[col], check->k);
    double size = fabs(product->alpha) * row->norm * column_norm + fabs(product->beta * c_in);
    double error = (double)(c - (product->alpha * sum + (long double)product->beta * c_in));
    *weighted_error = error * check->x[col];
    struct mmul_check_narrowing narrow = mmul_check_narrowing(product);
    // Whole rows are compared with sums in double, which for float64 are only as exact as the
    // product.
    const double growth =
        (mmul_product_dtype(product) == MMUL_F64 ? 2 : 1) * ((double)check->k + 4);
    return fabs(error) <= growth * mmul_check_type_limits(product).unit * size +
                              2 * narrow.unit * fabs(c) + narrow.tiny +
                              mmul_check_flush_error(product, row->norm, column_norm, 1);
}

// Returns the unit for errors before they are squared: squares of float64 ones may overflow.
static double error_unit(const struct mmul_check_row *row) {
    return row->residual != 0 && isfinite(row->residual) ? fabs(row->residual) : 1;
}

// Compares the row in check->row whole; the errors of a right row show where to sample.
static bool whole_row_is_right(struct mmul_check *check, const struct mmul_product *product,
                               const struct mmul_check_row *row) {
    struct mmul_check_operand columns = mmul_check_operand_b(product);
    columns.transposed = !columns.transposed;
    mmul_check_project(check, &(struct mmul_check_projection){.x = columns,
                                                              .row_end = check->n,
                                                              .cols = check->k,
                                                              .v = check->row,
                                                              .sums = check->errors});
    for (int64_t j = 0; j < check->n; j++) {
        double error;
        if (!element_is_right(check, product, row, j, check->errors[j], &error))
            return false;
        error /= error_unit(row);
        check->errors[j] = error * error;
    }
    draw_sample(check);
    return true;
}

bool mmul_check_recheck_row(struct mmul_check *check, const struct mmul_product *product,
                            const struct mmul_check_row *row) {
    long double sums[MMUL_CHECK_SAMPLE];
    double squares = 0;
    load_sample(check, product);
    mmul_check_gather_row(check, product, row->index);
    dot_sample(check, mmul_product_dtype(product), sums);
    for (int64_t s = 0; s < check->sample_count; s++) {
        double error;
        if (!element_is_right(check, product, row, check->sample[s], sums[s], &error))
            return false;
        error /= error_unit(row);
        squares += error * error * check->sample_weight[s];
    }
    if (check->sample_count == check->n || isnan(row->residual))
        return true;
    if (fabs(row->residual) <= SPREAD * sqrt(squares) * error_unit(row))
        return true;
    if (check->whole_rows == 0)
        return false;
    check->whole_rows--;
    return whole_row_is_right(check, product, row);
}
