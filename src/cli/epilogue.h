// SPDX-License-Identifier: MIT
//
// What mul does to its result before that is written: + bias, activation, + residual, rows of length 1, the
// largest of each row, in this order.
#pragma once

#include "cli/command.h"

bool mmul_epilogue_is_asked(const struct call *call);

// Fails with MMUL_ERR_USAGE: options that do not go together.
enum mmul_status mmul_epilogue_check(const struct call *call, struct mmul_error *err);

// Collective: the whole command then.
enum mmul_status mmul_epilogue_run(const struct call *call, struct mmul_error *err);
