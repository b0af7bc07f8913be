// SPDX-License-Identifier: MIT
//
// Check of a product on a mesh of ranks, C_ij = A_i B_j, without reading all of A_i and B_j. Every
// rank projects its share of either once, and vectors are summed over the ranks (model/check.h,
// "one of many blocks"). A rank that finds rows of its block beyond the tolerance checks these
// as those of any product.
#pragma once

#include "exec/steps/stage.h"

extern const struct mmul_check_method mmul_grid_check;

// Memory that the stages of a run use in turn.
struct mmul_grid_check_buffers {
    struct mmul_check *check; // owned
    int64_t most;             // largest size in either direction
};

// Prepares the check of a stage. Does nothing if its product is not on a mesh. Local. Fails with
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_grid_check_init(struct mmul_stage *stage, struct mmul_error *err);

// Checks C once it is complete, on the compute thread. After a device hung in this check, a
// repeated call checks the blocks by themselves, because the sums belong to the earlier result.
// Fails as a check does.
enum mmul_status mmul_stage_check_grid(struct mmul_stage *stage, struct mmul_error *err);
