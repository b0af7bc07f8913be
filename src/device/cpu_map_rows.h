// SPDX-License-Identifier: MIT
//
// Between the files of cpu_map_rows: what all rows of one operation have in common.
#pragma once

#include "device/cpu_map_loops.h"

#ifdef MMUL_CPU_F64
#define mmul_cpu_topk        mmul_cpu_topk_f64
#define mmul_cpu_extreme     mmul_cpu_extreme_f64
#define mmul_cpu_rows_of_two mmul_cpu_rows_of_two_f64
#endif

struct mmul_cpu_rows {
    const struct mmul_map *map;
    int64_t cols;                      // of the first operand
    const mmul_real *weights, *biases; // vectors; NULL: there are none
    int64_t group;                     // rows that are packed together
    mmul_real *room;                   // for them: some for every part
    double *frequencies;               // rope: of every pair
    mmul_real *
        turns; // rope: sines and cosines of the first positions, and behind them room for every part
};

// The k largest of n elements, falling, at out[0 .. k), their columns behind: NaN before all, the lower
// column first. One pass over what is not among them.
void mmul_cpu_topk(const mmul_real *x, int64_t n, int64_t k, mmul_real *out);

// The column of the first of n elements that is as large (as small) as any, NaN before all.
int64_t mmul_cpu_extreme(const mmul_real *x, int64_t n, bool smallest);

// Rows that are made of rows of two operands or more. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_cpu_rows_of_two(const struct mmul_map *map, struct mmul_error *err);
