// SPDX-License-Identifier: MIT
// How the commands write their own failures down; only main prints them.
#pragma once

#include "mpimatmul_local.h"

// Fills `err` (no hint) and returns `status`.
enum mmul_status mmul_cli_fail(struct mmul_error *err, enum mmul_status status, const char *format,
                               ...) __attribute__((format(printf, 3, 4)));

// The failure of a write to `what`, "standard output" say: MMUL_ERR_IO, or MMUL_ERR_SYSTEM for the limit on the size of
// files. errnum: 0 where an earlier write failed.
enum mmul_status mmul_cli_fail_write(struct mmul_error *err, const char *what, int errnum);

// Adds the hint line and returns err->status.
enum mmul_status mmul_cli_hint(struct mmul_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
