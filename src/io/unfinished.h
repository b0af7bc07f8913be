// SPDX-License-Identifier: MIT
// Temporary files of outputs that are not finished, any number of them, where a signal handler finds them: the list
// behind mmul_outputs_abandon.
#pragma once

#include "mpimatmul_local.h"

struct mmul_unfinished;

// Around making a temporary file and entering it: a process that ends with its launcher waits a moment for the second
// of them, and never returns from the first.
void mmul_unfinished_enter(void);
void mmul_unfinished_leave(void);

// Enters the temporary file `path`, which exists. *place is for mmul_unfinished_end. Fails with MMUL_ERR_SYSTEM
// (memory): a signal would leave that file behind.
enum mmul_status mmul_unfinished_begin(const char *path, struct mmul_unfinished **place,
                                       struct mmul_error *err);

// Takes it out again: the file is the caller's to remove, or, when it is `finished`, to rename. False: a signal has
// been faster and has removed it, or the file is finished and the end of the process has begun (base/ending.h), which
// removes it here. NULL is legal, and has no file to be removed.
bool mmul_unfinished_end(struct mmul_unfinished *place, bool finished);
