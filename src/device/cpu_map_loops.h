// SPDX-License-Identifier: MIT
//
// What the files of the cpu device's operations (device/cpu_map.h) build their loops from: the type of their elements,
// how loops become vector code, where operands lie, and how threads share the work.
#pragma once

#include "device/map.h"

// Files in which mmul_real stands are compiled twice (Makefile): for float32, and with MMUL_CPU_F64 for float64. What
// they give to others has the other names then, here and in the headers beside this one.
#ifdef MMUL_CPU_F64
typedef double mmul_real;
#define mmul_cpu_operand mmul_cpu_operand_f64
#define mmul_cpu_result  mmul_cpu_result_f64
#define mmul_cpu_pack    mmul_cpu_pack_f64
#else
typedef float mmul_real;
#endif

// Made for several instruction sets: the loops of a function marked so. (Sanitizers cannot be asked which
// to take: they are not there yet when that is decided.)
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MMUL_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MMUL_CLONES
#endif

// Asks for `count` elements of what a loop reads (or writes) MMUL_CPU_AHEAD elements later: while a processor computes
// it looks less far ahead in what it reads. On their way to a core are some lines at a time, 10 to 24 where that is
// known (fill buffers of the first caches of Intel's, AMD's, Arm's): asked for less far ahead memory comes too late.
// Asked for so far ahead that the first cache, 32 KiB at least, cannot hold as much of three operands and a result, it
// is gone again. 32 lines are more than the former and a quarter of the latter.
enum { MMUL_CPU_LINE = 64 / sizeof(mmul_real), MMUL_CPU_AHEAD = 32 * MMUL_CPU_LINE };

static inline __attribute__((always_inline)) void mmul_cpu_ask(const mmul_real *at, int64_t count) {
    for (int64_t j = 0; j < count; j += MMUL_CPU_LINE)
        __builtin_prefetch(at + MMUL_CPU_AHEAD + j);
}

// Rows that are read together, an element of each in turn: what a processor reads ahead by itself ends with a page of
// memory, and of several pages at a time it reads more (its tables hold 16 of them and more).
enum { MMUL_CPU_TOGETHER = 4 };

// ------------------------------------------------------------------------------------ operands

// Of the t-th matrix of a block: element (i, j) is at[i * row_step + j * col_step]; of a number both steps are 0.
struct mmul_strided {
    const mmul_real *at;
    int64_t row_step, col_step;
};

struct mmul_strided mmul_cpu_operand(const struct mmul_map *map, int operand, int64_t t);

// The first element of the t-th matrix of the result.
mmul_real *mmul_cpu_result(const struct mmul_map *map, int64_t t);

// From row i and column j on.
static inline struct mmul_strided mmul_cpu_part(struct mmul_strided from, int64_t i, int64_t j) {
    return (struct mmul_strided){from.at + i * from.row_step + j * from.col_step, from.row_step,
                                 from.col_step};
}

// Writes it without steps: row i at to + i * ld.
void mmul_cpu_pack(struct mmul_strided from, int64_t rows, int64_t cols, mmul_real *to, int64_t ld);

// ------------------------------------------------------------------------------------- threads

// Does units [begin, end) of the t-th matrix of a block. `part` < parts of those that work at the same time.
typedef void mmul_cpu_work(void *context, int part, int64_t t, int64_t begin, int64_t end);

// How many threads are worth while for `units` of `cost` each, in elements copied, of every matrix.
int mmul_cpu_parts(const struct mmul_map *map, int64_t units, double cost);

// Has all units of all matrices done by so many threads, several units at a time.
void mmul_cpu_share(const struct mmul_map *map, int parts, int64_t units, mmul_cpu_work *work,
                    void *context);
