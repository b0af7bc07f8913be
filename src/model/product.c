// SPDX-License-Identifier: MIT
// Views of a product: transposed, or some of its rows or inner terms. Columns are rows of the
// transposed product. Nothing is copied.
#include "model/product.h"

#include <stddef.h>

#include "model/dtype.h"

enum mmul_dtype mmul_product_dtype(const struct mmul_product *product) {
    return mmul_dtype_of_product(product->a_dtype, product->b_dtype);
}

double mmul_product_flops(const struct mmul_product *product) {
    return 2.0 * (double)product->m * (double)product->n * (double)product->k;
}

struct mmul_product mmul_product_transpose(const struct mmul_product *product) {
    struct mmul_product t = *product;
    t.transpose_a = !product->transpose_b;
    t.transpose_b = !product->transpose_a;
    t.transpose_c = !product->transpose_c;
    t.m = product->n;
    t.n = product->m;
    t.a = product->b;
    t.a_dtype = product->b_dtype;
    t.lda = product->ldb;
    t.b = product->a;
    t.b_dtype = product->a_dtype;
    t.ldb = product->lda;
    return t;
}

struct mmul_product mmul_product_rows(const struct mmul_product *product, int64_t row_begin,
                                      int64_t row_end) {
    struct mmul_product part = *product;
    int64_t a_skip = row_begin * (product->transpose_a ? 1 : product->lda);
    part.m = row_end - row_begin;
    if (part.a != NULL)
        part.a = mmul_dtype_advance(part.a_dtype, part.a, a_skip);
    const enum mmul_dtype dtype = mmul_product_dtype(product);
    part.c = mmul_dtype_advance(dtype, part.c, row_begin * (part.transpose_c ? 1 : part.ldc));
    if (part.c_in != NULL)
        part.c_in =
            mmul_dtype_advance(dtype, part.c_in, row_begin * (part.transpose_c ? 1 : part.ldc_in));
    return part;
}

struct mmul_product mmul_product_terms(const struct mmul_product *product, int64_t begin,
                                       int64_t end) {
    struct mmul_product part = *product;
    int64_t a_skip = begin * (product->transpose_a ? product->lda : 1);
    int64_t b_skip = begin * (product->transpose_b ? 1 : product->ldb);
    part.k = end - begin;
    if (part.a != NULL)
        part.a = mmul_dtype_advance(part.a_dtype, part.a, a_skip);
    if (part.b != NULL)
        part.b = mmul_dtype_advance(part.b_dtype, part.b, b_skip);
    if (begin > 0) {
        part.beta = 1;
        part.c_in = part.c;
        part.ldc_in = part.ldc;
    }
    return part;
}
