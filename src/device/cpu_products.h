// SPDX-License-Identifier: MIT
//
// What the cpu device multiplies with: OpenBLAS, on threads of its own or on those of the caller. How many it has, and
// the memory that it keeps for them, are the process's, whichever device asks.
#pragma once

#include "device/device.h"

struct mmul_cpu {
    struct mmul_device_info info;
    int threads; // that were asked for; 0: not yet
};

// Entries of the device table; `self` is a struct mmul_cpu. Products fail with MMUL_ERR_SYSTEM where threads that were
// asked for find no room (device/address_space.h).
void mmul_cpu_set_threads(void *self, int threads);
enum mmul_status mmul_cpu_warm_up(void *self, enum mmul_dtype dtype, double most,
                                  struct mmul_error *err);
enum mmul_status mmul_cpu_gemm(void *self, const struct mmul_gemm *args, struct mmul_error *err);
bool mmul_cpu_recuts(const void *self);

// Products on threads of the caller's: between these two OpenBLAS uses none of its own, and *parts threads at most may
// multiply at the same time. Fails as products do; the second one is called even then.
enum mmul_status mmul_cpu_begin_products(void *self, int *parts, struct mmul_error *err);
void mmul_cpu_end_products(void *self);
void mmul_cpu_multiply(const struct mmul_gemm *args); // buffers are host_buffer.h's
