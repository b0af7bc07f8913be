// SPDX-License-Identifier: MIT
// Building blocks of the cpu device's operations (device/cpu_map.h): element type, vectorisation,
// positions of operands, and work sharing between threads.
#pragma once

#include "device/map.h"

// Files that use mmul_real are compiled twice (Makefile): for float32, and with MMUL_CPU_F64 for
// float64. The second build renames the exported functions, here and in the headers beside this
// one.
#ifdef MMUL_CPU_F64
typedef double mmul_real;
#define mmul_cpu_operand mmul_cpu_operand_f64
#define mmul_cpu_result  mmul_cpu_result_f64
#define mmul_cpu_pack    mmul_cpu_pack_f64
#else
typedef float mmul_real;
#endif

// Compiles a function for several instruction sets. (Not with sanitizers: they are not yet
// initialised when the choice is made.)
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MMUL_TARGET_CLONES \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MMUL_TARGET_CLONES
#endif

// Prefetches `count` elements that a loop reads or writes MMUL_CPU_PREFETCH_DISTANCE elements
// later, because the hardware looks less far ahead during computation. A core has 10 to 24 lines in
// flight where the number is known (fill buffers of the first-level caches of Intel, AMD, Arm):
// with a shorter distance the data arrives too late. With a longer one, three operands and a result
// no longer fit the first-level cache of at least 32 KiB and are evicted. 32 lines are more than
// the former and a quarter of the latter.
enum {
    MMUL_CPU_CACHE_LINE = 64 / sizeof(mmul_real),
    MMUL_CPU_PREFETCH_DISTANCE = 32 * MMUL_CPU_CACHE_LINE
};

static inline __attribute__((always_inline)) void mmul_cpu_prefetch(const mmul_real *at,
                                                                    int64_t count) {
    for (int64_t j = 0; j < count; j += MMUL_CPU_CACHE_LINE)
        __builtin_prefetch(at + MMUL_CPU_PREFETCH_DISTANCE + j);
}

// Rows that are read in turn, one element each. A hardware prefetcher stops at the end of a memory
// page, but follows several pages at a time (its tables hold 16 and more).
enum { MMUL_CPU_INTERLEAVED_ROWS = 4 };

// ------------------------------------------------------------------------------------ operands

// An operand of the t-th matrix of a block: element (i, j) is at[i * row_step + j * col_step]; both
// steps of a number are 0.
struct mmul_strided {
    const mmul_real *at;
    int64_t row_step, col_step;
};

struct mmul_strided mmul_cpu_operand(const struct mmul_map *map, int operand, int64_t t);

// Returns the first element of the t-th matrix of the result.
mmul_real *mmul_cpu_result(const struct mmul_map *map, int64_t t);

// Returns the part from row i and column j on.
static inline struct mmul_strided mmul_cpu_strided_at(struct mmul_strided from, int64_t i,
                                                      int64_t j) {
    return (struct mmul_strided){from.at + i * from.row_step + j * from.col_step, from.row_step,
                                 from.col_step};
}

// Copies an operand to contiguous rows: row i goes to to + i * ld.
void mmul_cpu_pack(struct mmul_strided from, int64_t rows, int64_t cols, mmul_real *to, int64_t ld);

// ------------------------------------------------------------------------------------- threads

// Does units [begin, end) of the t-th matrix of a block. `part` is below `parts` and unique among
// concurrent calls.
typedef void mmul_cpu_work(void *context, int part, int64_t t, int64_t begin, int64_t end);

// Returns the useful number of threads for `units` per matrix, where `cost` per unit is measured in
// copied elements.
int mmul_cpu_count_parts(const struct mmul_map *map, int64_t units, double cost);

// Runs all units of all matrices on `parts` threads, several units at a time.
void mmul_cpu_run_parts(const struct mmul_map *map, int parts, int64_t units, mmul_cpu_work *work,
                        void *context);
