// SPDX-License-Identifier: MIT
// Copies a rectangle between two stacks with their matrices one below the other, as shards see a
// stack: row r of matrix i is stack row i * rows + r.
#pragma once

#include "mpimatmul_local.h"

struct mmul_copy {
    struct mmul_matrix *in;
    int64_t in_row, in_col; // stack row and column where the rectangle begins
    struct mmul_output *out;
    int64_t out_row, out_col;
    int64_t rows, cols;
};

// Copies the rectangle. Bytes stay as they are if both sides have the same dtype. Otherwise values
// go through float32, or through float64 if either side is float64. Fails as mmul_matrix_read and
// mmul_output_write do, and with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_copy_rows(const struct mmul_copy *copy, struct mmul_error *err);

// Copies all of `in` to `out`, which has the same shape.
enum mmul_status mmul_copy_stack(struct mmul_matrix *in, struct mmul_output *out,
                                 struct mmul_error *err);
