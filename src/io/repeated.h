// SPDX-License-Identifier: MIT
// A matrix stack as one of another shape: its sizes of 1 repeat, as numpy's broadcasting has it.
#pragma once

#include "mpimatmul_local.h"

struct mmul_repeated {
    struct mmul_matrix *matrix; // borrowed; each of its sizes is that of `shape` or 1
    struct mmul_shape shape;
    enum mmul_dtype dtype; // in which it is read: float32 or float64
    int64_t elements_read; // of the matrix so far; the rest are copies
};

// Elements [begin, end) of a region of `shape`, as mmul_matrix_read_float (_double) reads those of a
// matrix.
enum mmul_status mmul_repeated_read(struct mmul_repeated *source, struct mmul_region region,
                                    int64_t begin, int64_t end, void *dst, struct mmul_error *err);
