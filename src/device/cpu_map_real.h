// SPDX-License-Identifier: MIT
// Functions of mmul_real by their names for either type, without or with an f: REAL(exp) is
// mmul_expf or mmul_exp.
#pragma once

#include <string.h>

#include "device/cpu_map_double.h"
#include "device/cpu_map_loops.h"

#ifdef MMUL_CPU_F64
#define REAL(name) mmul_##name
#else
#define REAL(name) mmul_##name##f
#endif

// Elements that functions compute together; a shorter rest is copied to a buffer of this size. A
// library's vector function differs in bits from its scalar function, and an element's result must
// not depend on its position in a row. (No loop here has longer vectors. The pragma keeps the loop
// over a buffer from being unrolled into scalar calls.)
enum { MMUL_CPU_VECTOR = 16 };
#define MMUL_CPU_AS_VECTOR _Pragma("GCC unroll 1")

static inline int64_t mmul_cpu_count_in_vectors(int64_t n) {
    return n - n % MMUL_CPU_VECTOR;
}

// out := e^(x - shift).
MMUL_INLINE void mmul_cpu_exponentiate(const mmul_real *x, int64_t n, mmul_real shift,
                                       mmul_real *out) {
    const int64_t whole = mmul_cpu_count_in_vectors(n), left = n - whole;
    for (int64_t j = 0; j < whole; j++)
        out[j] = REAL(exp)(x[j] - shift);
    if (left > 0) {
        mmul_real buffer[MMUL_CPU_VECTOR] = {0};
        memcpy(buffer, x + whole, (size_t)left * sizeof *x);
        MMUL_CPU_AS_VECTOR
        for (int64_t j = 0; j < MMUL_CPU_VECTOR; j++)
            buffer[j] = REAL(exp)(buffer[j] - shift);
        memcpy(out + whole, buffer, (size_t)left * sizeof *out);
    }
}
