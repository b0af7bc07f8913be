// SPDX-License-Identifier: MIT
// Shared by the files of element-wise operations: each alone, and several together.
#pragma once

#include "device/cpu_map.h"

#ifdef MMUL_CPU_F64
#define mmul_cpu_kernel      mmul_cpu_kernel_f64
#define mmul_cpu_kernel_of   mmul_cpu_kernel_of_f64
#define mmul_cpu_is_constant mmul_cpu_is_constant_f64
#endif

enum { MMUL_CPU_OPERANDS = 3 };

// Computes out[j] from the j-th element of every operand. Missing operands are not read.
typedef void mmul_cpu_kernel(int64_t n, const mmul_real *xs, const mmul_real *ys,
                             const mmul_real *zs, mmul_real *out);

// Returns the operation's kernel, or NULL. is_square: a power of 2, which takes its first operand
// twice.
mmul_cpu_kernel *mmul_cpu_kernel_of(const struct mmul_map *map, bool *is_square);

static inline bool mmul_cpu_is_constant(struct mmul_strided x) {
    return x.col_step == 0 && x.row_step == 0;
}
