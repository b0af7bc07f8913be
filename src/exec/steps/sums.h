// SPDX-License-Identifier: MIT
//
// Numbers that all ranks add up in the middle of a stage, so that who holds a part of something can judge it by what
// others hold: the check of grids (exec/steps/grid_check.h) and of summands. They are
// vectors of doubles in the stage's memory, one of each rank, in rounds: a rank gives what it has to a round; when all
// ranks of the node have, the leader adds them up into the first of them, then all leaders add theirs (comm/message.h),
// and every rank reads the sums there.
#pragma once

#include <math.h>

#include "comm/message.h"
#include "exec/steps/stage.h"

// The compute thread. What this rank gives to a round: zeros until it was written; not for a round that was
// given already.
double *mmul_sums_mine(const struct mmul_stage *stage, int round);

// A check by what all ranks give: how it is made. What is wrong is made again where it can be.
struct mmul_sums_check {
    // This rank's part of a round, from the sums of those before.
    void (*give)(struct mmul_stage *stage, int round, const double *const *sums);
    // By the sums of all rounds. Fails as a check does.
    enum mmul_status (*judge)(struct mmul_stage *stage, const double *const *sums,
                              struct mmul_error *err);
};

// The compute thread: round after round, each when all ranks have given theirs, then the judgement; nothing more when
// the run is cancelled.
enum mmul_status mmul_sums_check(struct mmul_stage *stage, const struct mmul_sums_check *check,
                                 struct mmul_error *err);

// A leader's main thread, one stage after the other.
struct mmul_sums_traffic {
    struct mmul_sum sum;
    int64_t begin; // of what is being added up
    bool is_under_way;
};

// True when something happened; never waits.
bool mmul_sums_advance(struct mmul_sums_traffic *t, struct mmul_stage *stage);
bool mmul_sums_are_over(const struct mmul_stage *stage);

// By all ranks of the node; when all is void nobody has to.
bool mmul_sums_are_given(const struct mmul_stage *stage, int round);

// The check of summands that are added up by a move: every rank sums the lines of its own summand in double, these sums
// are added up over all ranks beside the move, and who has a part of the result compares its lines with them. What was
// summed has been checked as a product before; here it is the adding, on the nodes and between them. Lines are columns
// where the result is split by columns, else rows.

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

// The compute thread, when its summand is complete.
void mmul_carried_sums_give(struct mmul_stage *stage);

// The same, later: waits until the move has come. Fails with MMUL_ERR_WRONG.
enum mmul_status mmul_carried_sums_check(struct mmul_stage *stage, struct mmul_error *err);

// Have all ranks of the node done that?
bool mmul_carried_sums_are_read(const struct mmul_stage *stage, mmul_reach *reach, void *context);
