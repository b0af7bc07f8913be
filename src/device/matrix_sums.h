// SPDX-License-Identifier: MIT
//
// Sums along the rows and columns of a matrix in a buffer. With them a product, an upload or a
// download is checked without moving the matrix: only vectors travel.
//
//     row_sums[r] = sum_c x_rc along_c        row_squares[r] = sum_c x_rc^2
//     col_sums[c] = sum_r x_rc across_r       col_squares[c] = sum_r x_rc^2
//     *bits       = sum_rc mmul_mix_bits(bits(x_rc), r cols + c)  modulo 2^32
//
// The error of each sum is at most 2^-40 of the sum of its terms' magnitudes (doubles, or pairs of
// floats), if those are between 2^-60 and 2^100. A sum that meets a NaN, an Inf or larger numbers
// is undefined and not finite. *bits is exact: changing the value of one element always changes it.
// Changes of several elements, such as blocks that change places, leave it alike about once in 2^32
// times. A factor for the place alone would not do: whole numbers end with many bits of 0.
#pragma once

#include <stdint.h>

#include "device/device.h"

// A bijection of the bits for every index: an odd factor and two shifts. The constants are those of
// Fibonacci hashing and of MurmurHash3's finalizer. kernels/mix_bits.cl has it for devices.
static inline uint32_t mmul_mix_bits(uint32_t bits, uint32_t index) {
    uint32_t x = bits + index * UINT32_C(0x9e3779b1);
    x = (x ^ (x >> 16)) * UINT32_C(0x85ebca6b);
    return x ^ (x >> 15);
}

struct mmul_matrix_sums {
    enum mmul_dtype dtype; // type of x: float32
    struct mmul_operand x; // (rows, cols), ld >= cols
    int64_t rows, cols;    // >= 1
    const double *along;   // (cols); with row_sums
    const double *across;  // (rows); with col_sums
    // Results in host memory, complete when the call returns. NULL: not wanted.
    double *row_sums, *row_squares; // (rows)
    double *col_sums, *col_squares; // (cols)
    uint32_t *bits;
};

// Computes the sums for a matrix in host memory: x points at (rows, cols) of float32 with `ld`
// elements between rows. Ignores the buffer in `args`. This is the reference for the table's entry.
void mmul_matrix_sums_compute(const struct mmul_matrix_sums *args, const float *x, int64_t ld);

// Do the computation in steps, bit for bit: clear sets the sums to 0, then each call of
// add processes the `rows` rows at x, which start at row `row` of the matrix.
void mmul_matrix_sums_clear(const struct mmul_matrix_sums *args);
void mmul_matrix_sums_add_rows(const struct mmul_matrix_sums *args, int64_t row, int64_t rows,
                               const float *x, int64_t ld);

// Returns the terms of *bits for `count` consecutive elements from element `index` of the matrix
// on.
uint32_t mmul_matrix_sums_bits(const float *x, int64_t count, int64_t index);
