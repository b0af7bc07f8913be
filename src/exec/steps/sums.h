// SPDX-License-Identifier: MIT
//
// Sums over all ranks in the middle of a stage. With them a rank checks its part against the data
// of other ranks: the check of grids (exec/steps/grid_check.h) and of summands. Sums are vectors of
// doubles in the stage's memory, one per rank, in rounds. A rank gives its part of a round. Once
// all ranks of the node have done so, the leader adds them into the first vector. Then all leaders
// add theirs (comm/message.h), and every rank reads the sums there.
//
// To add a check by data of all ranks: a row of the table in checks.c, and a file beside
// grid_check.c. The rounds and vectors are sized in plan/program/program_footprint.c;
// plan/cost/program_cost.c has the cost.
#pragma once

#include <math.h>

#include "comm/message.h"
#include "device/matrix_sums.h"
#include "exec/steps/stage.h"

// Returns this rank's vector for a round, filled with zeros, on the compute thread. Not allowed for
// a round that was given already.
double *mmul_sums_own_vector(const struct mmul_stage *stage, int round);

// Publishes this rank's vector of a round.
void mmul_sums_publish(const struct mmul_stage *stage, int round);

// Waits until all ranks have given theirs. Returns the sums, or NULL if the run was cancelled.
const double *mmul_sums_wait(struct mmul_stage *stage, int round);

// State of a leader's main thread, for one stage after the other.
struct mmul_sums_traffic {
    struct mmul_sum sum;
    int64_t begin; // first element being summed
    bool is_under_way;
};

// Advances the exchange without waiting. Returns true if anything happened.
bool mmul_sums_advance(struct mmul_sums_traffic *t, struct mmul_stage *stage);
bool mmul_sums_are_complete(const struct mmul_stage *stage);

// Returns true if all ranks of the node have given their part of a round, or the run has failed.
bool mmul_sums_are_contributed(const struct mmul_stage *stage, int round);

// Check of summands that a move adds up. Every rank sums the weighted lines of its own summand in
// double.
// These sums are added over all ranks beside the move, and the holders of the result compare its
// lines with them. Summands were checked as products before, so this checks the addition on and
// between nodes. Lines are columns if the result is split by columns, else rows. If the columns
// outnumber the rows of all parts, lines are the rows of each part.

// Returns the weight of the element at this place of its line: from 1/2 to 1, as if at random, so
// that elements of a line cannot change places unseen.
static inline double mmul_move_sum_weight(int64_t place) {
    return 0.5 + (double)mmul_mix_bits(0, (uint32_t)place) * 0x1p-33;
}

// Returns true if a line is right. It adds up to `found`, and should be the sum of `summands`
// floats per element, which add up to `expected` and in size to `size`. Any order of s float
// additions is off by at most (s - 1) u times the sum of their sizes (Higham, Accuracy and
// Stability of Numerical Algorithms, 2002, 4.2), element by element, u = 2^-24. Weights of at most
// 1 make it no larger. One more term covers these sums themselves. With doubles (u = 2^-53) these
// sums, of `terms` elements each, are as inexact as the checked data, and count twice. Lines with
// NaN or Inf, or that may overflow, are not judged.
static inline bool mmul_move_sum_is_right(double found, double expected, double size, int summands,
                                          enum mmul_dtype dtype, int64_t terms) {
    const bool is_double = dtype == MMUL_F64;
    const double largest = is_double ? 0x1.FFFFFFFFFFFFFp1023 : 0x1.FFFFFEp127;
    const double most = is_double ? (summands + 2.0 * (double)terms) * 0x1p-53 : summands * 0x1p-24;
    return !(size < largest) || fabs(found - expected) <= most * size;
}

extern const struct mmul_check_method mmul_summand_check;

// Gives the sums of this rank's summand once it is complete, on the compute thread.
void mmul_move_sums_contribute(struct mmul_stage *stage);

// Waits until the move has arrived, and checks this rank's part, on the compute thread. Fails with
// MMUL_ERR_WRONG: no summand is left to add up again.
enum mmul_status mmul_move_sums_check(struct mmul_stage *stage, struct mmul_error *err);

// Returns true if all ranks of the node have checked their part.
bool mmul_move_sums_are_checked(const struct mmul_stage *stage, mmul_reach *reach, void *context);
