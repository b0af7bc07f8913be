// SPDX-License-Identifier: MIT
//
// The check of a product on a mesh of ranks, C_ij = A_i B_j, without reading all of A_i and B_j: every rank
// projects its share of either once, and vectors are added up over the ranks (model/check.h, "one of many
// blocks"). A rank that finds rows of its block beyond the tolerance checks these alone.
#pragma once

#include "exec/steps/stage.h"

struct mmul_check;

// Of a run: what its stages have in turn.
struct mmul_grid_room {
    struct mmul_check *check; // owned
    int64_t most;             // it has room for, in either direction
};

// For a stage of blocks; nothing where its product is not on a mesh. Local. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_grid_check_init(struct mmul_stage *stage, struct mmul_error *err);

// The compute thread, when C is complete; where a device hung in this check, its blocks are checked by themselves when
// it is called again: the sums are of what was there before. Fails as a check does.
enum mmul_status mmul_grid_check(struct mmul_stage *stage, struct mmul_error *err);
