// SPDX-License-Identifier: MIT
// How failures are written down: the function that knows what went wrong writes the text.
#pragma once

#include "mpimatmul_local.h"

// Fills `err` and returns `status`, so that a failing function can `return mmul_fail(...)`.
enum mmul_status mmul_fail(struct mmul_error *err, enum mmul_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Adds (replaces) the hint line of a failure that is already written.
void mmul_hint(struct mmul_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// "... : No such file or directory" from errno.
enum mmul_status mmul_fail_errno(struct mmul_error *err, enum mmul_status status, int errnum,
                                 const char *format, ...) __attribute__((format(printf, 4, 5)));
