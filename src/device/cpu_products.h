// SPDX-License-Identifier: MIT
// Products of the cpu device through OpenBLAS, on OpenBLAS's threads or on those of the caller. The
// number of threads and their memory belong to the process, whichever device asks.
#pragma once

#include "device/device.h"

struct mmul_cpu {
    struct mmul_device_info info;
    int threads; // requested number; 0: not yet
};

// Entries of the device table; `self` is a struct mmul_cpu. Products fail with MMUL_ERR_SYSTEM if
// requested threads find no address space (device/address_space.h).
void mmul_cpu_set_threads(void *self, int threads);
enum mmul_status mmul_cpu_warm_up(void *self, enum mmul_dtype dtype, double most,
                                  struct mmul_error *err);
enum mmul_status mmul_cpu_gemm(void *self, const struct mmul_gemm *args, struct mmul_error *err);
bool mmul_cpu_gemm_depends_on_cut(const void *self);

// Bracket products on threads of the caller: between the two calls OpenBLAS uses no threads of its
// own, and at most *parts threads may multiply concurrently. Fails as products do; call the second
// one even then.
enum mmul_status mmul_cpu_begin_products(void *self, int *parts, struct mmul_error *err);
void mmul_cpu_end_products(void *self);
void mmul_cpu_multiply(const struct mmul_gemm *args); // buffers are host_buffer.h's
