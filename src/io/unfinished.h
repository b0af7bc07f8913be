// SPDX-License-Identifier: MIT
// Temporary files of outputs that are not finished, where a signal handler finds them: the table behind
// mmul_outputs_abandon.
#pragma once

#include "mpimatmul_local.h"

// Enters the temporary file `path`, which exists. Returns its place, for mmul_unfinished_end; -1
// when it cannot be entered (too many, too long a name): a signal leaves that one behind.
int mmul_unfinished_begin(const char *path);

// Takes it out again: the file is the caller's to remove, or, when it is `finished`, to rename. False:
// a signal has been faster and has removed it. -1 is legal, and always the caller's.
bool mmul_unfinished_end(int place, bool finished);
