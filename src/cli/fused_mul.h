// SPDX-License-Identifier: MIT
//
// mul with operations on its result before it is written: + bias, activation, + residual, rows
// scaled to length 1, the largest of each row, in this order.
#pragma once

#include "cli/operands.h"

bool mmul_fused_mul_is_requested(const struct call *call);

// Checks that the options fit together. Fails with MMUL_ERR_USAGE.
enum mmul_status mmul_fused_mul_check(const struct call *call, struct mmul_error *err);

// Opens the files through the set and builds the program, up to its result. *indices: the columns
// of the largest elements, with --topk. Reports inputs that are converted. Local, for root. Fails
// as mmul_operands_open.
enum mmul_status mmul_fused_mul_build(const struct call *call, struct mmul_inputs *set,
                                      struct operands *operands, int *indices,
                                      struct mmul_error *err);
