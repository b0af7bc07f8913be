// SPDX-License-Identifier: MIT
//
// A product in buffers of a device, in float32 or float64.
#pragma once

#include "tap.h"

struct problem {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    double alpha, beta;
    int64_t pad; // 0: packed operands at offset 0
};

static void multiply_problem(struct mmul_device *device, const struct problem *p,
                             enum mmul_dtype dtype, struct mmul_operand a, struct mmul_operand b,
                             struct mmul_operand c) {
    struct mmul_error err;
    const struct mmul_gemm args = {.dtype = dtype,
                                   .transpose_a = p->transpose_a,
                                   .transpose_b = p->transpose_b,
                                   .m = p->m,
                                   .n = p->n,
                                   .k = p->k,
                                   .alpha = p->alpha,
                                   .beta = p->beta,
                                   .a = a,
                                   .b = b,
                                   .c = c};
    must_succeed(mmul_device_gemm(device, &args, &err), &err);
}
