// SPDX-License-Identifier: MIT
// Element types and the conversions between them. Names and sizes are in the public header.
#pragma once

#include "mpimatmul_local.h"

// src (count elements of dtype; any alignment of whole elements) -> float32. Exact for 16-bit
// types; float64 rounds to nearest even (overflow gives Inf). NaN payloads of float32 are kept.
void mmul_dtype_widen(enum mmul_dtype dtype, const void *src, int64_t count, float *dst);

// float32 -> dtype, round to nearest even; NaN stays NaN, overflow gives Inf.
void mmul_dtype_narrow(enum mmul_dtype dtype, const float *src, int64_t count, void *dst);

// How many finite values of float32 become infinite in `dtype`, rounded to nearest even.
int64_t mmul_dtype_overflows(enum mmul_dtype dtype, const float *values, int64_t count);

// How many finite values of float64, on any address, become infinite in float32.
int64_t mmul_dtype_overflows64(const void *values, int64_t count);
