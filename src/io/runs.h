// SPDX-License-Identifier: MIT
// How a region lies in a stack stored in C order: as contiguous runs.
#pragma once

#include "mpimatmul_local.h"

struct mmul_run {
    int64_t element; // of the stack, C order
    int64_t count;
};

// The run that begins at element `position` of `region` (its own C order) and stops at the latest
// before `end`: the rest of one row, or everything when the region spans whole rows. Walk with
// `for (p = begin; p < end; p += run.count)`.
struct mmul_run mmul_run_at(struct mmul_shape shape, struct mmul_region region, int64_t position,
                            int64_t end);

// Does the region lie inside the shape, and [begin, end) inside the region? For assertions.
bool mmul_region_fits(struct mmul_shape shape, struct mmul_region region, int64_t begin,
                      int64_t end);
