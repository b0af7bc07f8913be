// SPDX-License-Identifier: MIT
//
// What a device is asked for so that products, and what was sent or brought home, can be checked without the
// matrix leaving it: sums along the rows and columns of a matrix in a buffer. Only vectors travel.
//
//     row_sums[r] = sum_c x_rc along_c        row_squares[r] = sum_c x_rc^2
//     col_sums[c] = sum_r x_rc across_r       col_squares[c] = sum_r x_rc^2
//     *bits       = sum_rc bits(x_rc) (2 (r cols + c) + 1)  modulo 2^32
//
// Each sum is off by at most 2^-40 of the sum of its terms' sizes (doubles, or pairs of floats), as long as
// those are between 2^-60 and 2^100; a sum that meets a NaN, an Inf or larger numbers may be anything, and is
// then not finite. *bits is exact: one element that has another value always changes it. It sees no
// difference where all of x is one bit pattern that moved by 2^31 places.
#pragma once

#include "device/device.h"

struct mmul_project {
    enum mmul_dtype dtype; // of x: float32
    struct mmul_operand x; // (rows, cols), ld >= cols
    int64_t rows, cols;    // >= 1
    const double *along;   // (cols); with row_sums
    const double *across;  // (rows); with col_sums
    // In host memory; NULL: not wanted. They are there when the call returns.
    double *row_sums, *row_squares; // (rows)
    double *col_sums, *col_squares; // (cols)
    uint32_t *bits;
};

// The table's entry in the plainest way: what x points at, (rows, cols) of float32 with `ld` elements between rows.
// The buffer of `args` is not looked at.
void mmul_project_plainly(const struct mmul_project *args, const float *x, int64_t ld);

// The same bit by bit: begins, then adds `rows` rows that x points at, from row `row` of the matrix on.
void mmul_project_begin(const struct mmul_project *args);
void mmul_project_add(const struct mmul_project *args, int64_t row, int64_t rows, const float *x,
                      int64_t ld);

// Terms of *bits: of `count` elements that follow each other from element `index` of the matrix on.
uint32_t mmul_project_bits(const float *x, int64_t count, int64_t index);
