// SPDX-License-Identifier: MIT
// A matrix stack read as one of another shape: its sizes of 1 repeat, as in numpy's broadcasting.
#pragma once

#include "mpimatmul_local.h"

struct mmul_broadcast_matrix {
    struct mmul_matrix *matrix; // borrowed; each size equals that of `shape` or is 1
    struct mmul_shape shape;
    enum mmul_dtype dtype; // type of elements read: float32 or float64
    int64_t elements_read; // so far, without the copies
};

// Reads elements [begin, end) of a region of `shape`, as mmul_matrix_read_float (_double) does for
// a matrix.
enum mmul_status mmul_broadcast_read(struct mmul_broadcast_matrix *source,
                                     struct mmul_region region, int64_t begin, int64_t end,
                                     void *dst, struct mmul_error *err);
