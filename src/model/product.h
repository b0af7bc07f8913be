// SPDX-License-Identifier: MIT
// One product in host memory: what a rank multiplies and what the check looks at.
#pragma once

#include "mpimatmul_local.h"

// C := alpha op(A) op(B) + beta C_in, row-major. Nothing is owned.
struct mmul_product {
    bool transpose_a, transpose_b;
    bool
        transpose_c; // C and C_in are stored as their transposes; only the check takes such products
    int64_t m, n, k;
    double alpha, beta; // finite; values of float32 where that is the type
    const void *a;      // (m, k), or (k, m) when transposed; not read when alpha is 0
    enum mmul_dtype a_dtype;
    int64_t lda;
    const void *b; // (k, n), or (n, k) when transposed; not read when alpha is 0
    enum mmul_dtype b_dtype;
    int64_t ldb;
    const void *c_in; // (m, n), or (n, m) when transposed; read when beta is not 0
    int64_t ldc_in;
    void *c; // (m, n), ldc >= n, or (n, m), ldc >= m when transposed: (i, j) is at c[j * ldc + i]
    int64_t ldc;
    enum mmul_dtype c_dtype; // what the values of C were rounded to since; float32 (0): nothing
};

// Of C and C_in in memory, and of the device's arithmetic.
enum mmul_dtype mmul_product_dtype(const struct mmul_product *product);

// The same numbers in the same memory, seen as C^T := alpha op(B)^T op(A)^T + beta C_in^T. Twice is
// the product itself.
struct mmul_product mmul_product_transpose(const struct mmul_product *product);

// The product restricted to rows [row_begin, row_end) of C.
struct mmul_product mmul_product_rows(const struct mmul_product *product, int64_t row_begin,
                                      int64_t row_end);

// Terms [begin, end) of the inner range alone, added to what C holds where they are not the first.
struct mmul_product mmul_product_terms(const struct mmul_product *product, int64_t begin,
                                       int64_t end);
