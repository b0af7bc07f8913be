// SPDX-License-Identifier: MIT
// The sizes in --sizes.
#pragma once

#include "mpimatmul_local.h"

enum { BENCH_SIZES_MAX = 64 };

// A is m x k, B is k x n, C is m x n.
struct bench_size {
    int64_t m, k, n;
};

struct bench_sizes {
    struct bench_size list[BENCH_SIZES_MAX];
    int count;
};

// Parses "1024,4096x14336x4096": cubes, or M x K x N. Fails with MMUL_ERR_USAGE.
enum mmul_status mmul_bench_sizes_parse(const char *text, struct bench_sizes *sizes,
                                        struct mmul_error *err);

// Returns the bytes of A, B and C at four bytes per element.
double mmul_bench_size_bytes(struct bench_size size);

// Returns 2 m k n.
double mmul_bench_size_flops(struct bench_size size);

// Formats "4096 x 14336 x 4096". Returns `text`.
char *mmul_bench_size_format(struct bench_size size, char text[static 72]);
