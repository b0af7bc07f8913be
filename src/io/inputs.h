// SPDX-License-Identifier: MIT
//
// A set of input files (mmul_inputs_create): each is opened once, and its tensors are listed once.
#pragma once

#include "io/input_file.h"

// The file of the set that is open under this path, however it is spelled. Borrowed. NULL: none is, or there is no set.
struct mmul_input_file *mmul_inputs_find(const struct mmul_inputs *inputs, const char *path);

// The tensors of a file of the set that mmul_inputs_keep_tensors has kept, with a reference for the caller. NULL: none.
struct mmul_tensors *mmul_inputs_tensors(const struct mmul_inputs *inputs,
                                         const struct mmul_input_file *file);

// Keeps the list with its file, with a reference of the set's own; a file that is not in the set has none.
void mmul_inputs_keep_tensors(struct mmul_inputs *inputs, struct mmul_tensors *tensors);

// What mmul_inputs_set_missing has set. NULL: false.
bool mmul_inputs_missing_is_nan(const struct mmul_inputs *inputs);

// Makes the file one of the set, which has a reference of its own. NULL inputs: nothing happens. Fails with
// MMUL_ERR_SYSTEM.
enum mmul_status mmul_inputs_add(struct mmul_inputs *inputs, struct mmul_input_file *file,
                                 struct mmul_error *err);
