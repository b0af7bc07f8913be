// SPDX-License-Identifier: MIT
// Rule for valid weights: at least one, each finite and not negative, not all zero.
#pragma once

#include "mpimatmul_local.h"

// Checks weights. Fails with `status` (MMUL_ERR_USAGE for an option, MMUL_ERR_DATA for a file).
enum mmul_status mmul_weights_check(const double *weights, int count, enum mmul_status status,
                                    struct mmul_error *err);
