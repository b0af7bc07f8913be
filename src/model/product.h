// SPDX-License-Identifier: MIT
// One product in host memory: what a rank multiplies and what the check looks at.
#pragma once

#include "mpimatmul_local.h"

// C := alpha op(A) op(B) + beta C_in, row-major. Nothing is owned.
struct mmul_product {
    bool transpose_a, transpose_b;
    int64_t m, n, k;
    float alpha, beta; // finite
    const void *a;     // (m, k), or (k, m) when transposed; not read when alpha is 0
    enum mmul_dtype a_dtype;
    int64_t lda;
    const void *b; // (k, n), or (n, k) when transposed; not read when alpha is 0
    enum mmul_dtype b_dtype;
    int64_t ldb;
    const float *c_in; // (m, n), read when beta is not 0
    int64_t ldc_in;
    float *c; // (m, n)
    int64_t ldc;
    enum mmul_dtype c_dtype; // what the values of C were rounded to since; float32 (0): nothing
};
