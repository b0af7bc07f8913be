// SPDX-License-Identifier: MIT
//
// mul with operations on its result before it is written: + bias, activation, + residual, rows
// scaled to length 1, the largest of each row, in this order.
#pragma once

#include "cli/command.h"

bool mmul_fused_mul_is_requested(const struct call *call);

// Checks that the options fit together. Fails with MMUL_ERR_USAGE.
enum mmul_status mmul_fused_mul_check(const struct call *call, struct mmul_error *err);

// Runs the whole command as a program. Collective.
enum mmul_status mmul_fused_mul_run(const struct call *call, struct mmul_error *err);
