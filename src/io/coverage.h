// SPDX-License-Identifier: MIT
// Regions of a stack: unions, and lines that a set of regions does not cover. Pure.
#pragma once

#include "io/selection.h"

// Lines along one axis: rows or columns (of a stack of one matrix), or matrices.
struct mmul_missing {
    struct mmul_segment *segments; // owned by the caller: released with mmul_free; ascending
    int64_t count;
    int64_t lines, total; // missing lines, and all
};

// Finds the lines that are not covered completely. Regions may overlap. Fails with MMUL_ERR_SYSTEM
// (memory).
enum mmul_status mmul_coverage_missing(enum mmul_selection_axis axis, struct mmul_shape shape,
                                       const struct mmul_region *regions, int64_t count,
                                       struct mmul_missing *missing, struct mmul_error *err);

// Adds region y to x if it follows x along one axis. Returns false if it does not.
bool mmul_region_join(struct mmul_region *x, const struct mmul_region *y);
