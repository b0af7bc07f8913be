// SPDX-License-Identifier: MIT
//
// What all kinds of stages do with a product on the compute thread of a rank: multiply and check it, and wait
// for what the traffic and others tell.
#pragma once

#include "exec/steps/stage.h"

// What checks the stage's products, in the run's room. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_stage_create_verifier(struct mmul_stage *stage,
                                            const struct mmul_check_need *need, uint64_t seed,
                                            struct mmul_error *err);

bool mmul_stage_is_cancelled(const struct mmul_stage *stage);

// Until *counter >= goal, of a node rank or the traffic, for a stage (what: pass -1) or a pass of it, in the phase
// `waiting`; false when the run was cancelled.
bool mmul_stage_wait(struct mmul_stage *stage, int rank, const _Atomic int64_t *counter,
                     int64_t goal, double *waiting, int64_t pass);

// The compute thread: one product, of all its terms or of some that are added to C; and, when all are there, its
// check.
enum mmul_status mmul_stage_multiply(struct mmul_stage *stage, const struct mmul_product *product,
                                     struct mmul_error *err);
enum mmul_status mmul_stage_check(struct mmul_stage *stage, const struct mmul_verifier_block *block,
                                  struct mmul_error *err);

// Until more than `done` panels have come by the move whose panels the stage takes. How many there are; -1: the run
// was cancelled.
int mmul_stage_wait_for_panel(struct mmul_stage *stage, int done);

// Until a round of its sums is made; false: the run was cancelled.
bool mmul_stage_wait_for_sums(struct mmul_stage *stage, int round);

// For the verifier of a stage, `context` (verify.h): numbers that cannot be are blamed on a device only
// when the inputs are what they were, and are not computed again when the run has been cancelled
// (MMUL_ERR_STOPPED).
enum mmul_status mmul_stage_look(void *context, int64_t done, int64_t total,
                                 struct mmul_error *err);
