// SPDX-License-Identifier: MIT
// The list of temporary files of unfinished outputs, any number of them. A signal handler can read
// it: mmul_outputs_abandon uses it.
#pragma once

#include "mpimatmul_local.h"

struct mmul_unfinished_file;

// Enclose the creation of a temporary file and its entry in the list. A process that ends with its
// launcher waits briefly for mmul_unfinished_end_creation. After that end has begun,
// mmul_unfinished_begin_creation never returns.
void mmul_unfinished_begin_creation(void);
void mmul_unfinished_end_creation(void);

// Enters the existing temporary file `path`. *place is for mmul_unfinished_remove. Fails with
// MMUL_ERR_SYSTEM (memory): a signal would then leave the file behind.
enum mmul_status mmul_unfinished_add(const char *path, struct mmul_unfinished_file **place,
                                     struct mmul_error *err);

// Removes the entry. The caller then removes the file or, if `finished`, renames it. Returns false
// if a signal handler has already removed the file. Also returns false, and removes the file, if it
// is finished but the end of the process has begun (base/ending.h). NULL is legal and has no file.
bool mmul_unfinished_remove(struct mmul_unfinished_file *place, bool finished);
