// SPDX-License-Identifier: MIT
//
// The check of summands that are added up: every rank sums the lines of its own summand in double, these sums
// are added up over all ranks (exec/steps/sums.h) beside the move that adds up the summands, and who has a part of the
// result compares its lines with them. What was summed has been checked as a product before; here it is the
// adding, on the nodes and between them. Lines are columns where the result is split by columns, else rows.
#pragma once

#include <math.h>

#include "exec/steps/stage.h"

// Is a line, which adds up to `found`, the sum of `summands` floats per element, which add up to `expected`, and
// in size to `size`? Any order of s float additions is off by at most (s - 1) u times the sum of their sizes
// (Higham, Accuracy and Stability of Numerical Algorithms, 2002, 4.2), element by element, u = 2^-24; one more
// covers these sums themselves. Of doubles (u = 2^-53) these sums, of `terms` elements each, are as inexact as what
// they check, and count twice. Lines with NaN or Inf, or that may overflow, are not judged.
static inline bool mmul_carried_sum_is_right(double found, double expected, double size,
                                             int summands, enum mmul_dtype dtype, int64_t terms) {
    const bool is_double = dtype == MMUL_F64;
    const double largest = is_double ? 0x1.FFFFFFFFFFFFFp1023 : 0x1.FFFFFEp127;
    const double most = is_double ? (summands + 2.0 * (double)terms) * 0x1p-53 : summands * 0x1p-24;
    return !(size < largest) || fabs(found - expected) <= most * size;
}

// The compute thread, when its summand is complete, before the move and until that is over. Fails with MMUL_ERR_WRONG.
enum mmul_status mmul_carried_sums_check(struct mmul_stage *stage, struct mmul_error *err);
