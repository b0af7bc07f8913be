// SPDX-License-Identifier: MIT
//
// What attention and its gradients on the cpu device have in common: tiles of scores, and how they are multiplied. Each
// thread of the rank has tiles of its own and multiplies alone (device/cpu_products.h).
#pragma once

#include "device/cpu_map_loops.h"

// A tile is packed for each product: enough rows make that little, and all of it stays in the cache.
enum {
    MMUL_CPU_TILE_ROWS = 192,
    MMUL_CPU_TILE_ROWS_LEAST = 16,
    MMUL_CPU_TILE_KEYS = 1536 / sizeof(mmul_real)
};

#ifdef MMUL_CPU_F64
#define mmul_cpu_product       mmul_cpu_product_f64
#define mmul_cpu_multiply_tile mmul_cpu_multiply_tile_f64
#define mmul_cpu_mask_row      mmul_cpu_mask_row_f64
#define mmul_cpu_straighten    mmul_cpu_straighten_f64
#endif

// out := alpha x y + beta out, of one tile.
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

// Adds n elements of the mask from its first one on to a row of scores. room: n elements.
void mmul_cpu_mask_row(struct mmul_strided mask, int64_t n, mmul_real *room, mmul_real *scores);

// Packs an operand that has column steps, all its matrices, into room that the caller frees; others are left: NULL.
enum mmul_status mmul_cpu_straighten(const struct mmul_map *map, int operand, mmul_real **room,
                                     struct mmul_error *err);
