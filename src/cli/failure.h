// SPDX-License-Identifier: MIT
// How the commands write their own failures down; only main prints them.
#pragma once

#include "mpimatmul_local.h"

// Fills `err` (no hint) and returns `status`.
enum mmul_status mmul_cli_fail(struct mmul_error *err, enum mmul_status status, const char *format,
                               ...) __attribute__((format(printf, 3, 4)));

// Adds the hint line and returns err->status.
enum mmul_status mmul_cli_hint(struct mmul_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
