// SPDX-License-Identifier: MIT
// One product in host memory: the work of a rank's device and the input of the check.
#pragma once

#include "mpimatmul_local.h"

// C := alpha op(A) op(B) + beta C_in, row-major. Nothing is owned.
struct mmul_product {
    bool transpose_a, transpose_b;
    // C and C_in are stored as their transposes; only the check takes such products
    bool transpose_c;
    int64_t m, n, k;
    double alpha, beta; // finite; float32 values if that is the type
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
    // type to which the values of C were rounded afterwards; float32 (0): none
    enum mmul_dtype c_dtype;
};

// Returns the type of C and C_in in memory, and of the device's arithmetic.
enum mmul_dtype mmul_product_dtype(const struct mmul_product *product);

double mmul_product_flops(const struct mmul_product *product);

// Returns the same numbers in the same memory as C^T := alpha op(B)^T op(A)^T + beta C_in^T.
// Applied twice, this is the product itself.
struct mmul_product mmul_product_transpose(const struct mmul_product *product);

// Returns the product restricted to rows [row_begin, row_end) of C.
struct mmul_product mmul_product_rows(const struct mmul_product *product, int64_t row_begin,
                                      int64_t row_end);

// Returns the product over terms [begin, end) of the inner range alone; unless they are the first,
// it adds to C.
struct mmul_product mmul_product_terms(const struct mmul_product *product, int64_t begin,
                                       int64_t end);
