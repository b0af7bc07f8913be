// SPDX-License-Identifier: MIT
// Recording of failures: the function that knows the cause writes the text.
#pragma once

#include "mpimatmul_local.h"

// Fills `err` and returns `status`, so that a failing function can `return mmul_fail(...)`.
enum mmul_status mmul_fail(struct mmul_error *err, enum mmul_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Adds or replaces the hint line of a failure that is already written.
void mmul_hint(struct mmul_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Like mmul_fail, and appends the text of errnum: "... : No such file or directory". The status is
// MMUL_ERR_SYSTEM for missing memory and a limit on file size, whatever was to be done.
enum mmul_status mmul_fail_errno(struct mmul_error *err, enum mmul_status status, int errnum,
                                 const char *format, ...) __attribute__((format(printf, 4, 5)));
