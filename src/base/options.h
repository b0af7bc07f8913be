// SPDX-License-Identifier: MIT
// Option structs from a caller that may be compiled with another version of the public headers.
// Each struct begins with its size (mpimatmul_local.h states the rule). New fields come at the end,
// and 0 in a field means the behaviour from before the field existed.
#pragma once

#include "mpimatmul_local.h"

// Copies `given` to `mine` (`bytes` long) and sets its size. Fields that the caller's version lacks
// are 0. `name` is for the error. Fails with MMUL_ERR_USAGE if the caller's struct is larger, or
// too small to be one; `mine` is all zeros then.
enum mmul_status mmul_options_copy(const void *given, size_t bytes, const char *name, void *mine,
                                   struct mmul_error *err);

// For `struct NAME`: MMUL_OPTIONS_COPY(mmul_convert_options, options, &taken, err).
#define MMUL_OPTIONS_COPY(name, given, mine, err) \
    mmul_options_copy((given), sizeof(struct name), "struct " #name, (mine), (err))
