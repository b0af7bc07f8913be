// SPDX-License-Identifier: MIT
// A set of input files (mmul_inputs_create). Each file is opened once, and its tensors are listed
// once.
#pragma once

#include "io/input_file.h"

// Returns the file of the set that is open under this path, in any spelling. Borrowed. NULL: none,
// or `inputs` is NULL.
struct mmul_input_file *mmul_inputs_find(const struct mmul_inputs *inputs, const char *path);

// Returns the tensors stored by mmul_inputs_cache_tensors for a file of the set, with a reference
// for the caller. NULL: none.
struct mmul_tensors *mmul_inputs_cached_tensors(const struct mmul_inputs *inputs,
                                                const struct mmul_input_file *file);

// Stores the list with its file, with a reference of the set's own. Does nothing if the file is not
// in the set.
void mmul_inputs_cache_tensors(struct mmul_inputs *inputs, struct mmul_tensors *tensors);

// Returns the value set by mmul_inputs_set_missing. NULL: false.
bool mmul_inputs_missing_is_nan(const struct mmul_inputs *inputs);

// Adds the file to the set, with a reference of the set's own. Does nothing if `inputs` is NULL.
// Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_inputs_add(struct mmul_inputs *inputs, struct mmul_input_file *file,
                                 struct mmul_error *err);
