// SPDX-License-Identifier: MIT
// Weights of ranks, as users write them.
#pragma once

#include "mpimatmul_local.h"

// Parses the weights of `size` ranks: "equal", "0.5,0.25,0.25" or "@FILE". Fails as
// mmul_weights_parse does, and with MMUL_ERR_USAGE if there are more or fewer than `size`.
enum mmul_status mmul_weights_parse_for_ranks(const char *text, int size, double *weights,
                                              struct mmul_error *err);
