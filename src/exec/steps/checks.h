// SPDX-License-Identifier: MIT
//
// The check of everything that a stage computes, on the compute thread: a kind per row of the table
// in checks.c. The sequence of a check is in exec/worker/verify.h. Without --verify nothing is
// checked.
#pragma once

#include "exec/steps/stage.h"

enum mmul_check_kind {
    MMUL_CHECK_PRODUCT,
    MMUL_CHECK_MAP,
    MMUL_CHECK_GRID,
    MMUL_CHECK_SUMMANDS,
};

// Creates the verifier of the stage's products, in the run's room. Fails with MMUL_ERR_SYSTEM
// (memory).
enum mmul_status mmul_stage_create_verifier(struct mmul_stage *stage,
                                            const struct mmul_check_need *need,
                                            struct mmul_error *err);

// Checks what the stage has computed. v: block and place. `flops` is the work of the block, for the
// deadline. Fails as mmul_verification_run.
enum mmul_status mmul_stage_check(struct mmul_stage *stage, enum mmul_check_kind kind,
                                  struct mmul_verification *v, double flops,
                                  struct mmul_error *err);

// Checks a block of a product once all of its terms are there. is_foreign: other ranks have
// computed some of them.
enum mmul_status mmul_stage_check_product(struct mmul_stage *stage,
                                          const struct mmul_verifier_block *block, bool is_foreign,
                                          struct mmul_error *err);
