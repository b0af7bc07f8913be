// SPDX-License-Identifier: MIT
// Common parts of attention and its gradients on the cpu device: tiles of scores and their
// products. Each thread of the rank has tiles of its own and multiplies alone
// (device/cpu_products.h).
#pragma once

#include "device/cpu_map_loops.h"

// OpenBLAS packs a tile for each product: many rows keep that cost small, and a whole tile fits the
// cache.
enum {
    MMUL_CPU_TILE_ROWS = 192,
    MMUL_CPU_TILE_ROWS_LEAST = 16,
    MMUL_CPU_TILE_KEYS = 1536 / sizeof(mmul_real)
};

#ifdef MMUL_CPU_F64
#define mmul_cpu_product       mmul_cpu_product_f64
#define mmul_cpu_multiply_tile mmul_cpu_multiply_tile_f64
#define mmul_cpu_add_mask_row  mmul_cpu_add_mask_row_f64
#define mmul_cpu_pack_operand  mmul_cpu_pack_operand_f64
#endif

// out := alpha x y + beta out, for one tile.
struct mmul_cpu_product {
    const mmul_real *x, *y; // (m, k), (k, n), or transposed (n, k)
    int64_t x_ld, y_ld;
    bool transpose_y;
    int64_t m, n, k;
    mmul_real alpha, beta;
    mmul_real *out; // (m, n)
    int64_t ld;
};
void mmul_cpu_multiply_tile(const struct mmul_cpu_product *p);

// Adds the first n elements of a mask row to a row of scores. scratch: n elements.
void mmul_cpu_add_mask_row(struct mmul_strided mask, int64_t n, mmul_real *scratch,
                           mmul_real *scores);

// Packs all matrices of an operand to col_step 1, in `packed`, which the caller frees. Leaves
// packed NULL if the operand has that step already.
enum mmul_status mmul_cpu_pack_operand(const struct mmul_map *map, int operand, mmul_real **packed,
                                       struct mmul_error *err);
