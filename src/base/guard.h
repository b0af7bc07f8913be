// SPDX-License-Identifier: MIT
// Guards protect a process that reads or writes mapped files from SIGBUS. Touching a page kills the
// process if the file was truncated, cannot be read or has no space. A guard over the mapping
// replaces the whole range by zeroed private memory and sets a flag instead. The program continues
// with wrong numbers; callers must test the flag afterwards (mmul_guard_has_failed).
//
// The handler is installed while a guard exists, for all threads of the process. A SIGBUS outside
// the guards goes to the previous handler, or kills as usual. System calls do not raise SIGBUS: a
// call with a failing page as its buffer returns EFAULT and sets no flag.
#pragma once

#include "mpimatmul_local.h"

struct mmul_guard;

// Guards [begin, begin + bytes), which starts on a page and overlaps no other guard. At most 4096
// guards exist at a time. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_guard_create(void *begin, int64_t bytes, struct mmul_guard **guard,
                                   struct mmul_error *err);

// Call this before the range is unmapped. Does nothing for NULL.
void mmul_guard_destroy(struct mmul_guard *guard);

// Returns true if any thread has touched a failing page.
bool mmul_guard_has_failed(const struct mmul_guard *guard);
