// SPDX-License-Identifier: MIT
//
// Structs of options as they come from a caller that may have been compiled with another version of
// the public headers: each begins with its size (mpimatmul_local.h says the rule), new fields come
// at the end, and 0 in a field is what was done before it was there.
#pragma once

#include "mpimatmul_local.h"

// `mine` (bytes of it) gets a copy of `given`, fields that the caller's version lacks being 0, and its
// own size. `name` is for the error. Fails with MMUL_ERR_USAGE: the caller's struct is larger, or too
// small to be one; `mine` is all zeros then.
enum mmul_status mmul_options_take(const void *given, size_t bytes, const char *name, void *mine,
                                   struct mmul_error *err);

// For `struct NAME`: MMUL_OPTIONS_TAKE(mmul_convert_options, options, &taken, err).
#define MMUL_OPTIONS_TAKE(name, given, mine, err) \
    mmul_options_take((given), sizeof(struct name), "struct " #name, (mine), (err))
