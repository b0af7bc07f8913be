// SPDX-License-Identifier: MIT
// Element types and the conversions between them. Names and sizes are in the public header.
//
// To add an element type: its name in enum mmul_dtype of include/mpimatmul_local.h, its bytes and
// conversions in dtype.c, the files that hold it (io/formats.c and the formats' own files), and the
// type of its products (problem.c). `grep -r MMUL_BF16` finds the remaining places.
//
// Whole numbers, int8 among them, are types of files only. To keep weights of 8 bits as they are
// stored, change these.
//
//     reading           io/matrix_file.c (delivered_dtype: float32), matrix_read.c.
//     operands          operand_of in exec/job/program_products.c keeps the type of a file.
//     values            a value in memory is float32 or float64: program_rewrite.c,
//                       exec/memory/values.c, exec/traffic/move.c. api/program_api.c marks whole
//                       numbers as indices.
//     uploads           device/device.h and device.c; host_buffer.c for CPUs; opencl_buffer.c,
//                       opencl_device.c and kernels/widen.cl for GPUs; exec/worker/worker.c,
//                       tile_cache.c. Matrices used in place: exec/memory/mappings.c.
//     scale of a block  named by the operation (program.h). A pointer in product.h, set by
//                       exec/steps/block.c, read by check_sums.c, sent by exec/traffic/streams.c.
//                       problem.c counts the bytes of scales.
//     memory            plan/parts/budget.c, plan/program/program_footprint.c: widened copies.
//     blocks of GGUF    io/gguf_types.c decodes them to float32.
#pragma once

#include <stdint.h>

#include "mpimatmul_local.h"

enum { MMUL_DTYPES = MMUL_BOOL + 1 };

// Returns true for types of whole numbers.
bool mmul_dtype_is_integer(enum mmul_dtype dtype);

// Returns the type in which numbers of these two types are multiplied: float64 if both are, else
// float32.
enum mmul_dtype mmul_dtype_of_product(enum mmul_dtype a, enum mmul_dtype b);

// Returns element `index` of an array of whole numbers, at any address.
int64_t mmul_dtype_get_integer(enum mmul_dtype dtype, const void *src, int64_t index);

// Returns the address `elements` elements behind `at`.
static inline void *mmul_dtype_advance(enum mmul_dtype dtype, const void *at, int64_t elements) {
    return (char *)(uintptr_t)at + elements * (int64_t)mmul_dtype_bytes(dtype);
}

// Returns element `index` of an aligned array of float32 or float64.
double mmul_dtype_get_real(enum mmul_dtype dtype, const void *src, int64_t index);

// Sets that element to `value`, rounded for float32.
void mmul_dtype_set_real(enum mmul_dtype dtype, void *dst, int64_t index, double value);

// Converts src (count elements of dtype; any alignment of whole elements) to float32. Exact for
// 16-bit types; float64 and whole numbers round to nearest even (overflow of float64 gives Inf).
// NaN payloads of float32 are kept.
void mmul_dtype_widen(enum mmul_dtype dtype, const void *src, int64_t count, float *dst);

// Converts float32 to dtype, round to nearest even; NaN stays NaN, overflow gives Inf. For whole
// numbers NaN gives 0, and values beyond the type's range give its limit.
void mmul_dtype_narrow(enum mmul_dtype dtype, const float *src, int64_t count, void *dst);

// Converts as mmul_dtype_narrow, from float64: one rounding, to 16-bit types as well.
void mmul_dtype_narrow_double(enum mmul_dtype dtype, const double *src, int64_t count, void *dst);

// Returns true if the value, rounded to the nearest whole number, is in the range of a type of
// whole numbers. NaN is not.
bool mmul_dtype_holds(enum mmul_dtype dtype, double value);

// Returns the number of finite float32 values that become infinite in `dtype`, rounded to nearest
// even.
int64_t mmul_dtype_overflows(enum mmul_dtype dtype, const float *values, int64_t count);

// Counts the same for float64 values, at any address.
int64_t mmul_dtype_overflows64(enum mmul_dtype dtype, const void *values, int64_t count);
