// SPDX-License-Identifier: MIT
// Shapes and byte sizes, overflow-checked in this one place.
#pragma once

#include "mpimatmul_local.h"

// Elements of a shape; false when the product does not fit int64 or a size is negative.
bool mmul_shape_count(struct mmul_shape shape, int64_t *count);

// Bytes of a shape in a dtype. Fails with MMUL_ERR_DATA.
enum mmul_status mmul_shape_bytes(struct mmul_shape shape, enum mmul_dtype dtype, int64_t *bytes,
                                  struct mmul_error *err);

// All four sizes alike.
bool mmul_shape_equal(struct mmul_shape x, struct mmul_shape y);

// How many axes it has where nobody says: without leading sizes of 1, but 2.
int mmul_shape_axes(struct mmul_shape shape);

// Elements of a region.
int64_t mmul_region_count(struct mmul_region region);

// The whole matrix `matrix` of a shape.
struct mmul_region mmul_region_whole(struct mmul_shape shape, int64_t matrix);
