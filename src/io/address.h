// SPDX-License-Identifier: MIT
//
// Names of matrices inside files: `model.safetensors:layer.0.weight`, and `...[10:20]` for a range of
// its first axis, as numpy's x[10:20].
#pragma once

#include "mpimatmul_local.h"

struct mmul_address {
    char *path;   // owned
    char *tensor; // owned, what stands behind the colon; NULL: nothing does
};

// A range as it was given: negative numbers count from the end, -0 is 0, and absent ones are the ends.
struct mmul_axis_range {
    bool has_begin, has_end;
    int64_t begin, end;
};

// Of an input. What exists is a file, whatever is in its name; else the file is the shortest part before a
// colon that is one. Where there is none, all of `text` is the path. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_address_find(const char *text, struct mmul_address *address,
                                   struct mmul_error *err);
void mmul_address_fini(struct mmul_address *address);

// Does `tensor` end in a range? *length is that of what stands before it.
bool mmul_address_range(const char *tensor, size_t *length, struct mmul_axis_range *range);

// The range of an axis of `size`, cut to it as numpy does. False: it is empty.
bool mmul_axis_range_resolve(const struct mmul_axis_range *range, int64_t size, int64_t *begin,
                             int64_t *end);
