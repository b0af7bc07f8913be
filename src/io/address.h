// SPDX-License-Identifier: MIT
// Names of matrices inside files: `model.safetensors:layer.0.weight`, and `...[10:20]` for a range
// of the first axis, as numpy's x[10:20].
#pragma once

#include "mpimatmul_local.h"

struct mmul_tensor_address {
    char *path;   // owned
    char *tensor; // owned, the part behind the colon; NULL: none
};

// A range as given: negative numbers count from the end, -0 is 0, absent bounds are the ends.
struct mmul_axis_range {
    bool has_begin, has_end;
    int64_t begin, end;
};

// Splits the address of an input. If `text` exists as a file, all of it is the path. Else the path
// is the shortest part before a colon that is a file. If there is none, all of `text` is the path.
// Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_address_find(const char *text, struct mmul_tensor_address *address,
                                   struct mmul_error *err);
void mmul_address_fini(struct mmul_tensor_address *address);

// Returns true if `tensor` ends in a range. *length: length of the part before the range.
bool mmul_address_range(const char *tensor, size_t *length, struct mmul_axis_range *range);

// Resolves a range on an axis of `size`, clipped as numpy does. Returns false if it is empty.
bool mmul_axis_range_resolve(const struct mmul_axis_range *range, int64_t size, int64_t *begin,
                             int64_t *end);
