// SPDX-License-Identifier: MIT
// Shared by the files cpu_map_rows*, cpu_map_topk and cpu_map_sort: data common to all rows of an
// operation.
#pragma once

#include "device/cpu_map_loops.h"

#ifdef MMUL_CPU_F64
#define mmul_cpu_topk                mmul_cpu_topk_f64
#define mmul_cpu_sort                mmul_cpu_sort_f64
#define mmul_cpu_find_extreme        mmul_cpu_find_extreme_f64
#define mmul_cpu_map_rows_of_several mmul_cpu_map_rows_of_several_f64
typedef uint64_t mmul_bits;
#else
typedef uint32_t mmul_bits;
#endif

// An element during sorting: its column, and bits that increase in sorting order.
struct mmul_cpu_sort_entry {
    mmul_bits bits;
    uint32_t column;
};

struct mmul_cpu_rows {
    const struct mmul_map *map;
    int64_t cols;                       // columns of the first operand
    const mmul_real *weights, *biases;  // vectors; NULL: there are none
    int64_t group;                      // rows that are packed together
    mmul_real *room;                    // packing buffer: `group` rows per part
    struct mmul_cpu_sort_entry *places; // sort, argsort: two rows per part
    double *frequencies;                // rope: one per pair
    // rope: sines and cosines of the first positions, then room per part.
    mmul_real *turns;
};

// Writes the k largest of n elements in falling order to out[0 .. k), then their columns. NaN comes
// before all, and the lower column first. Reads elements that are not among them only once.
void mmul_cpu_topk(const mmul_real *x, int64_t n, int64_t k, mmul_real *out);

// Sorting options: falling or rising; elements or their columns; room for two rows.
struct mmul_cpu_sort_options {
    bool descending, wants_columns;
    struct mmul_cpu_sort_entry *room;
};

// Sorts n elements of x, fewer than 2^32: equal ones by their columns, NaN last. out must not be x.
void mmul_cpu_sort(const struct mmul_cpu_sort_options *how, const mmul_real *x, int64_t n,
                   mmul_real *out);

// Returns the column of the first largest (smallest) of n elements, NaN before all.
int64_t mmul_cpu_find_extreme(const mmul_real *x, int64_t n, bool smallest);

// Computes rows from rows of two operands or more. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_cpu_map_rows_of_several(const struct mmul_map *map, struct mmul_error *err);
