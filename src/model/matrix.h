// SPDX-License-Identifier: MIT
// Shapes and byte sizes, overflow-checked in this one place.
#pragma once

#include "mpimatmul_local.h"

// Convert a shape to sizes by axis, batch first, and back.
void mmul_shape_to_sizes(struct mmul_shape shape, int64_t sizes[static 4]);
struct mmul_shape mmul_sizes_to_shape(const int64_t sizes[static 4]);

// Counts the elements of a shape; false if the product does not fit int64 or a size is negative.
bool mmul_shape_count(struct mmul_shape shape, int64_t *count);

// Return the elements of a shape and their bytes in a dtype. Unchecked: doubles do not overflow.
static inline double mmul_shape_elements(struct mmul_shape s) {
    return (double)s.batch * (double)s.depth * (double)s.rows * (double)s.cols;
}
static inline double mmul_shape_data_bytes(struct mmul_shape s, enum mmul_dtype dtype) {
    return mmul_shape_elements(s) * (double)mmul_dtype_bytes(dtype);
}

// Computes the bytes of a shape in a dtype. Fails with MMUL_ERR_DATA.
enum mmul_status mmul_shape_bytes(struct mmul_shape shape, enum mmul_dtype dtype, int64_t *bytes,
                                  struct mmul_error *err);

// Returns true if all four sizes are equal.
bool mmul_shape_equal(struct mmul_shape x, struct mmul_shape y);

// Returns the default number of axes: without leading sizes of 1, but at least 2.
int mmul_shape_axes(struct mmul_shape shape);

// Returns the index of the matrix of a broadcast stack `stored` that matrix `t` of `shape` reads:
// (batch, depth) = (t / shape.depth, t % shape.depth). Sizes of 1 repeat.
int64_t mmul_shape_stored_matrix(struct mmul_shape stored, struct mmul_shape shape, int64_t t);

// Returns the number of elements of a region.
int64_t mmul_region_count(struct mmul_region region);

// Returns the region of the whole matrix `matrix` of a shape.
struct mmul_region mmul_region_whole(struct mmul_shape shape, int64_t matrix);
