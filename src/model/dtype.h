// SPDX-License-Identifier: MIT
// Element types and the conversions between them. Names and sizes are in the public header.
#pragma once

#include <stdint.h>

#include "mpimatmul_local.h"

enum { MMUL_DTYPES = MMUL_BOOL + 1 };

// One of the types of whole numbers?
bool mmul_dtype_is_integer(enum mmul_dtype dtype);

// What numbers of these two types are multiplied in: float64 where both are, else float32.
enum mmul_dtype mmul_dtype_computed(enum mmul_dtype a, enum mmul_dtype b);

// Element `index` of an array of such a type, on any address.
int64_t mmul_dtype_integer(enum mmul_dtype dtype, const void *src, int64_t index);

// What is so many elements behind.
static inline void *mmul_dtype_ahead(enum mmul_dtype dtype, const void *at, int64_t elements) {
    return (char *)(uintptr_t)at + elements * (int64_t)mmul_dtype_bytes(dtype);
}

// Element `index` of an aligned array of float32 or float64.
double mmul_dtype_real(enum mmul_dtype dtype, const void *src, int64_t index);

// The same element becomes `value`, in float32 rounded.
void mmul_dtype_set_real(enum mmul_dtype dtype, void *dst, int64_t index, double value);

// src (count elements of dtype; any alignment of whole elements) -> float32. Exact for 16-bit
// types; float64 and whole numbers round to nearest even (overflow of float64 gives Inf). NaN
// payloads of float32 are kept.
void mmul_dtype_widen(enum mmul_dtype dtype, const void *src, int64_t count, float *dst);

// float32 -> dtype, round to nearest even; NaN stays NaN, overflow gives Inf. To whole numbers: NaN
// gives 0, what is beyond the type its limit.
void mmul_dtype_narrow(enum mmul_dtype dtype, const float *src, int64_t count, void *dst);

// Same, from float64: one rounding, to 16-bit types as well.
void mmul_dtype_narrow_double(enum mmul_dtype dtype, const double *src, int64_t count, void *dst);

// How many finite values of float32 become infinite in `dtype`, rounded to nearest even.
int64_t mmul_dtype_overflows(enum mmul_dtype dtype, const float *values, int64_t count);

// The same of float64, on any address.
int64_t mmul_dtype_overflows64(enum mmul_dtype dtype, const void *values, int64_t count);
