// SPDX-License-Identifier: MIT
//
// Numbers that all ranks add up in the middle of a stage, so that who holds a part of something can judge it by what
// others hold: the check of grids (exec/steps/grid_check.h) and of summands (exec/steps/carried_sums.h). They are
// vectors of doubles in the stage's memory, one of each rank, in rounds: a rank gives what it has to a round; when all
// ranks of the node have, the leader adds them up into the first of them, then all leaders add theirs (comm/message.h),
// and every rank reads the sums there.
#pragma once

#include "comm/message.h"
#include "exec/steps/stage.h"

// The compute thread. What this rank gives to a round: zeros until it was written; not for a round that was
// given already.
double *mmul_sums_mine(const struct mmul_stage *stage, int round);

// Gives it and waits until all have; NULL: the run was cancelled.
const double *mmul_sums_exchange(struct mmul_stage *stage, int round);

// A leader's main thread, one stage after the other.
struct mmul_sums_traffic {
    struct mmul_sum sum;
    int64_t begin; // of what is being added up
    bool is_under_way;
};

// True when something happened; never waits.
bool mmul_sums_advance(struct mmul_sums_traffic *traffic, struct mmul_stage *stage);
bool mmul_sums_are_over(const struct mmul_stage *stage);

// By all ranks of the node; when all is void nobody has to.
bool mmul_sums_are_given(const struct mmul_stage *stage, int round);
