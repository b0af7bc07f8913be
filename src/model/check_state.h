// SPDX-License-Identifier: MIT
//
// State shared by the parts of the check: check.c (the verdict), check_sums.c (elements and rows of
// A, B and C, and the passes over them), check_recheck.c (rows beyond the tolerance),
// check_classes.c (NaN and Inf) and check_direct.c (products with a short inner range). No other
// file includes it.
#pragma once

#include <math.h>

#include "model/check.h"

enum {
    MMUL_CHECK_INF_LISTED = 4,    // positions of NaN and Inf kept of each column of B and row of A
    MMUL_CHECK_SAMPLE = 32,       // columns of the second look; half as many for float64
    MMUL_CHECK_LINES = 4,         // rows of a transposed matrix that are gathered at once
    MMUL_CHECK_SIZE_SAMPLE = 128, // elements of each column of B from which its size is guessed
    MMUL_CHECK_ROWS_AT_ONCE = 4096,
    MMUL_CHECK_DIRECT = 4, // inner range up to which every element is computed again
    MMUL_CHECK_PARTS = 16, // parts of a pass, at most: enough threads to saturate memory
};

// op(X) of one operand: element (row, col) is data[row * ld + col], or [col * ld + row] when
// transposed.
struct mmul_check_operand {
    const void *data;
    enum mmul_dtype dtype;
    int64_t ld;
    bool transposed;
};

// The NaN and Inf along k of one column of B or one row of A.
struct mmul_check_nonfinite {
    bool has_nan;
    bool more; // Infs beyond the listed ones
    int inf_count;
    int64_t inf[MMUL_CHECK_INF_LISTED];
};

// Rows of a matrix, gathered for reading element by element.
struct mmul_check_gathered_rows {
    double *data;       // MMUL_CHECK_LINES rows, `stride` apart
    int64_t stride;     // not a power of two: rows would collide in one cache set
    int64_t begin, end; // the gathered rows
};

struct mmul_check {
    int64_t n_max, k_max, n, k;
    struct mmul_parallel parallel;
    struct mmul_check_source source;
    bool used_source; // the source has helped since the last begin
    bool is_direct;   // no projections are made: every element is computed again
    double *partial;  // (mmul_check_partial_count), scratch of passes that threads share
    uint64_t seed;
    double *x;                              // (n), 0 if the column of B has NaN or Inf
    double *column_squares;                 // (n), of the finite elements
    double *bx;                             // (k), B x
    double scale;                           // ||B X||_F
    double reach;                           // sum of |x_j|
    bool has_nonfinite;                     // then `nonfinite` is valid for columns with x = 0
    struct mmul_check_nonfinite *nonfinite; // (n)
    double *row;                            // (k), a row of A
    struct mmul_check_gathered_rows a_lines, c_lines, c_in_lines;
    // State of the second look.
    double *errors; // (n), scratch
    uint64_t draws; // random numbers consumed
    int whole_rows; // rows that may still be compared whole
    int64_t sample_most, sample_count;
    int64_t sample[MMUL_CHECK_SAMPLE]; // columns of B in rising order
    // inverse of the expected number of draws of the column
    double sample_weight[MMUL_CHECK_SAMPLE];
    void *sample_columns; // (k, sample_count), in the product's type
    bool has_sample;      // then sample_columns is valid
};

// State of one row of C during its check.
struct mmul_check_row {
    int64_t index;
    const double *c, *c_in; // (n), once loaded; c_in only with beta
    double projection;      // a_i . (B x)
    double norm;            // ||a_i|| of the finite elements
    bool finite;            // a_i has neither NaN nor Inf
    double scale;           // ||B X||_F of the columns that take part in `residual`
    double c_in_norm;       // ||cin_i X||
    double c_norm;          // ||c_i X||, if C was rounded to 16 bits
    double residual;        // left side minus right side of the test
    int64_t excluded_count; // elements that take no part in `residual`, although their x is not 0
};

// ------------------------------------------------------------------------------------ check_sums.c

struct mmul_check_operand mmul_check_operand_a(const struct mmul_product *product);
struct mmul_check_operand mmul_check_operand_b(const struct mmul_product *product);
struct mmul_check_operand mmul_check_operand_c(const struct mmul_product *product);
struct mmul_check_operand mmul_check_operand_c_in(const struct mmul_product *product);

// Returns one element of op(X).
double mmul_check_element(struct mmul_check_operand x, int64_t row, int64_t col);

// Writes `count` stored elements from place `at` of stored line `line` as doubles to `to`.
void mmul_check_read(struct mmul_check_operand x, int64_t line, int64_t at, int64_t count,
                     double *to);

// Copies row `index` of op(A) to check->row.
void mmul_check_gather_row(struct mmul_check *check, const struct mmul_product *product,
                           int64_t index);

// Finds row->c and row->c_in.
void mmul_check_load_row(struct mmul_check *check, const struct mmul_product *product,
                         struct mmul_check_row *row);

// A pass over rows [row_begin, row_end) of op(X), which has `cols` columns:
// sums[r - row_begin] = sum_c X_rc v_c, squares[r - row_begin] = sum_c X_rc^2.
struct mmul_check_projection {
    struct mmul_check_operand x;
    int64_t row_begin, row_end, cols;
    const double *v;
    double *sums, *squares;
    double *col_squares; // squares of every column, (cols); only for passes over all rows
    bool weighted; // squares are sum_c (X_rc v_c)^2; both are required, and NaN and Inf stay in
};

// Makes the pass. Terms with v_c = 0 are left out (0 Inf would be NaN). sums (then v too) and
// squares may be NULL.
void mmul_check_project(struct mmul_check *check, const struct mmul_check_projection *p);

// Estimates column_squares from a sample of up to MMUL_CHECK_SIZE_SAMPLE elements of each column of
// B.
void mmul_check_sample_columns(struct mmul_check *check, const struct mmul_product *product);

// Returns the number of doubles in check->partial.
int64_t mmul_check_partial_count(int64_t n_max, int64_t k_max);

// --------------------------------------------------------------------------------- check_classes.c

// Fills check->nonfinite, and column_squares from finite elements, for the columns of B with
// infinite or NaN column_squares.
void mmul_check_find_nonfinite(struct mmul_check *check, const struct mmul_product *product);

// Compares the classes of a row with NaN or Inf somewhere, and a sample of the elements without a
// norm; returns false if one is wrong. Otherwise fills norm, finite, scale, c_in_norm, residual and
// excluded_count of `row` from index and projection.
bool mmul_check_compare_classes(struct mmul_check *check, const struct mmul_product *product,
                                struct mmul_check_row *row);

// ----------------------------------------------------------------------------- check_recheck.c

// Draws the sample of columns from x and column_squares.
void mmul_check_recheck_begin(struct mmul_check *check);

// Returns true if a row of finite a_i is right although its residual is beyond the tolerance. If
// the residual is not known (NaN), single elements decide alone.
bool mmul_check_recheck_row(struct mmul_check *check, const struct mmul_product *product,
                            const struct mmul_check_row *row);

// ---------------------------------------------------------------------------------- check_direct.c

// mmul_check_rows for k <= MMUL_CHECK_DIRECT, without a begin.
int64_t mmul_check_direct_rows(struct mmul_check *check, const struct mmul_product *product,
                               int64_t row_begin, int64_t row_end, unsigned char *wrong);

// ----------------------------------------------------------------------------------------- check.c

// Limits of the type of a product's arithmetic.
struct mmul_check_type_limits {
    double unit;     // rounding error
    double smallest; // smallest normal number: devices may flush smaller ones to 0
    double largest;
    // Limit below which squares are 0 in double, or have lost digits; 0: no such limit.
    double square_underflow_limit;
};
struct mmul_check_type_limits mmul_check_type_limits(const struct mmul_product *product);

// Sums over the terms of one element of C that is computed again: the terms, and the sizes of the
// finite ones. flushed: sizes of terms with a factor that a device may take as 0. meets_flushed: an
// Inf meets such a factor, so the term may be NaN.
struct mmul_check_terms {
    long double sum, size, flushed;
    bool meets_flushed;
};

static inline void mmul_check_add_term(struct mmul_check_terms *terms, double smallest, double a,
                                       double b) {
    const long double term = (long double)a * b;
    const bool may_flush = fmin(fabs(a), fabs(b)) < smallest;
    terms->sum += term;
    terms->size += isfinite(a) && isfinite(b) ? fabsl(term) : 0;
    terms->flushed += may_flush && isfinite(term) ? fabsl(term) : 0;
    terms->meets_flushed |= may_flush && !isfinite(term);
}

// Returns a norm from the sum of squares of `count` elements, with an allowance for squares that
// underflow.
double mmul_check_norm(const struct mmul_product *product, double squares, int64_t count);

// Bounds the effect of devices that flush subnormal numbers to 0. For one element column_norm is
// ||b_j|| and weight 1; for a row they are sum_j |x_j| ||b_j|| and sum_j |x_j|.
double mmul_check_flush_error(const struct mmul_product *product, double norm, double column_norm,
                              double weight);

// Effect of rounding C to 16 bits: relative to c, absolute, and the overflow limit. Zeros and the
// type's largest number if C was not rounded.
struct mmul_check_narrowing {
    double unit, tiny, largest;
};
struct mmul_check_narrowing mmul_check_narrowing(const struct mmul_product *product);
