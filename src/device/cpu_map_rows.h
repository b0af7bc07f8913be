// SPDX-License-Identifier: MIT
//
// Between the files of cpu_map_rows: what all rows of one operation have in common.
#pragma once

#include "device/cpu_map_loops.h"

#ifdef MMUL_CPU_F64
#define mmul_cpu_topk        mmul_cpu_topk_f64
#define mmul_cpu_sort        mmul_cpu_sort_f64
#define mmul_cpu_extreme     mmul_cpu_extreme_f64
#define mmul_cpu_rows_of_two mmul_cpu_rows_of_two_f64
typedef uint64_t mmul_bits;
#else
typedef uint32_t mmul_bits;
#endif

// An element while its row is put in order: its column, and bits that rise as what comes first does.
struct mmul_cpu_place {
    mmul_bits bits;
    uint32_t column;
};

struct mmul_cpu_rows {
    const struct mmul_map *map;
    int64_t cols;                      // of the first operand
    const mmul_real *weights, *biases; // vectors; NULL: there are none
    int64_t group;                     // rows that are packed together
    mmul_real *room;                   // for them: some for every part
    struct mmul_cpu_place *places;     // sort, argsort: room for every part, two rows each
    double *frequencies;               // rope: of every pair
    mmul_real *
        turns; // rope: sines and cosines of the first positions, and behind them room for every part
};

// The k largest of n elements, falling, at out[0 .. k), their columns behind: NaN before all, the lower
// column first. One pass over what is not among them.
void mmul_cpu_topk(const mmul_real *x, int64_t n, int64_t k, mmul_real *out);

// How a row is put in order: from the largest on or from the smallest, its elements or their columns; room for two
// rows.
struct mmul_cpu_sorting {
    bool descending, wants_columns;
    struct mmul_cpu_place *room;
};

// All n elements of x, fewer than 2^32, in order: equal ones by their columns, NaN behind all. out is not x.
void mmul_cpu_sort(const struct mmul_cpu_sorting *how, const mmul_real *x, int64_t n,
                   mmul_real *out);

// The column of the first of n elements that is as large (as small) as any, NaN before all.
int64_t mmul_cpu_extreme(const mmul_real *x, int64_t n, bool smallest);

// Rows that are made of rows of two operands or more. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_cpu_rows_of_two(const struct mmul_map *map, struct mmul_error *err);
