// SPDX-License-Identifier: MIT
// The compute thread of a rank: stage after stage; of a product its tasks, one after the other, then
// others'.
#pragma once

#include "exec/operands.h"

// Waits for what each stage and task needs, multiplies, checks, and counts what is done. Local; makes no
// MPI call. A failure goes to run->failure and cancels the node's other work.
void mmul_run_compute(struct mmul_run *run);

// The compute thread: one product, of all its terms or of some that are added to C; and, when all are there, its
// check.
enum mmul_status mmul_stage_multiply(struct mmul_stage *stage, const struct mmul_product *product,
                                     struct mmul_error *err);
enum mmul_status mmul_stage_check(struct mmul_stage *stage, const struct mmul_product *product,
                                  const char *place, struct mmul_error *err);

// Until more than `done` panels have come by the move before the stage. How many there are; -1: the run
// was cancelled.
int mmul_stage_wait_for_panel(struct mmul_stage *stage, int done);

// Until a round of its sums is made; false: the run was cancelled.
bool mmul_stage_wait_for_sums(struct mmul_stage *stage, int round);

// For the verifier of a stage, `context` (verify.h): numbers that cannot be are blamed on a device only
// when the inputs are what they were, and are not computed again when the run has been cancelled
// (MMUL_ERR_STOPPED).
enum mmul_status mmul_stage_look(void *context, int64_t done, int64_t total,
                                 struct mmul_error *err);

// This rank will compute nothing: the others need not wait for it. Local.
void mmul_run_cancel(struct mmul_run *run);

// Main thread: a device that has not ended its product in time is abandoned and replaced; true: then
// mmul_run_compute has to be called again, on another thread, and goes on with what is at hand.
bool mmul_run_give_up_device(struct mmul_run *run);
