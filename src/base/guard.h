// SPDX-License-Identifier: MIT
//
// Mapped files that fail while they are used. Touching a page that the file no longer has (somebody
// truncated it), that cannot be read or that has no space kills a process with SIGBUS. A guard over
// the mapping turns that into a mark: the whole range becomes zeroed memory of the process, the
// program goes on with wrong numbers, and whoever asks afterwards learns that they are wrong.
//
// The handler is there while there is a guard, for all threads of the process. A SIGBUS from
// elsewhere goes to the handler that was there before, or kills as always. System calls do not
// raise SIGBUS: one that is given a failing page as its buffer returns EFAULT and marks nothing.
#pragma once

#include "mpimatmul_local.h"

struct mmul_guard;

// Guards [begin, begin + bytes), which starts on a page and overlaps no other guard. At most 4096 at
// a time. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_guard_create(void *begin, int64_t bytes, struct mmul_guard **guard,
                                   struct mmul_error *err);

// Before the range is unmapped. NULL is legal.
void mmul_guard_destroy(struct mmul_guard *guard);

// Has any thread met a page that was not there?
bool mmul_guard_has_failed(const struct mmul_guard *guard);
