// SPDX-License-Identifier: MIT
// The contiguous runs of a region in a stack stored in C order.
#pragma once

#include "mpimatmul_local.h"

struct mmul_run {
    int64_t element; // index in the stack, C order
    int64_t count;
};

// Returns the run that begins at element `position` of `region` (in the region's own C order) and
// ends at `end` at the latest: the rest of one row, or everything if the region spans whole rows.
// Walk with `for (p = begin; p < end; p += run.count)`.
struct mmul_run mmul_region_run_at(struct mmul_shape shape, struct mmul_region region,
                                   int64_t position, int64_t end);

// Returns true if the region is inside the shape, and [begin, end) inside the region. For
// assertions.
bool mmul_region_fits(struct mmul_shape shape, struct mmul_region region, int64_t begin,
                      int64_t end);
