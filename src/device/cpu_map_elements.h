// SPDX-License-Identifier: MIT
//
// Between the files of operations on elements: each alone, and several together.
#pragma once

#include "device/cpu_map.h"

#ifdef MMUL_CPU_F64
#define mmul_cpu_kernel      mmul_cpu_kernel_f64
#define mmul_cpu_kernel_of   mmul_cpu_kernel_of_f64
#define mmul_cpu_is_constant mmul_cpu_is_constant_f64
#endif

enum { MMUL_CPU_OPERANDS = 3 };

// out[j] from the j-th of every operand; what an operation has not is not looked at.
typedef void mmul_cpu_kernel(int64_t n, const mmul_real *xs, const mmul_real *ys,
                             const mmul_real *zs, mmul_real *out);

// NULL: it has none. is_square: of a power, which then takes its first operand twice.
mmul_cpu_kernel *mmul_cpu_kernel_of(const struct mmul_map *map, bool *is_square);

static inline bool mmul_cpu_is_constant(struct mmul_strided x) {
    return x.col_step == 0 && x.row_step == 0;
}
