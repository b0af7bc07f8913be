// SPDX-License-Identifier: MIT
//
// Deals blocks of columns to ranks by weight, from the last block to the first. Each block goes to
// the rank r with the least (n_r + 1) / w_r, where n_r is the number of its blocks so far; ties go
// to the lowest rank, and a rank of weight 0 gets none. After every block the largest n_r / w_r is
// as small as it can be. So the last b columns of a matrix are balanced for every b, as in a
// factorisation that shrinks from the left. Source: Beaumont, Boudet, Petitet, Rastello, Robert,
// "A proposal for a heterogeneous cluster ScaLAPACK (dense linear solvers)", IEEE Transactions on
// Computers 50 (2001), the incremental algorithm. Pure.
#pragma once

#include "mpimatmul_local.h"

// Deals `count` blocks. Writes offsets to `first`, parts + 1 of them, and the blocks of each part
// to `blocks`, in ascending order (struct mmul_dealt_blocks). Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_deal_blocks(int64_t count, int parts, const double *weights, int64_t *first,
                                  int64_t *blocks, struct mmul_error *err);
