// SPDX-License-Identifier: MIT
// Writes failures of commands into the error; only main prints them.
#pragma once

#include "mpimatmul_local.h"

// Fills `err` without a hint and returns `status`.
enum mmul_status mmul_cli_fail(struct mmul_error *err, enum mmul_status status, const char *format,
                               ...) __attribute__((format(printf, 3, 4)));

// Reports a failed write to `what`, such as "standard output". MMUL_ERR_IO, or MMUL_ERR_SYSTEM if
// the limit on file sizes was reached. errnum: 0 if an earlier write failed.
enum mmul_status mmul_cli_fail_write(struct mmul_error *err, const char *what, int errnum);

// Adds the hint and returns err->status.
enum mmul_status mmul_cli_hint(struct mmul_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
