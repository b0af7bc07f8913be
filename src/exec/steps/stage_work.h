// SPDX-License-Identifier: MIT
//
// Work of all kinds of stages with a product on the compute thread: multiply it, and wait for
// traffic and other ranks.
#pragma once

#include "exec/steps/stage.h"

bool mmul_stage_is_cancelled(const struct mmul_stage *stage);

// Waits until *counter >= goal, for a counter of a node rank or of the traffic. The time counts in
// phase `waiting`. `pass` is for the trace, -1: a whole stage. Returns false if the run was
// cancelled.
bool mmul_stage_wait(struct mmul_stage *stage, int rank, const _Atomic int64_t *counter,
                     int64_t goal, double *waiting, int64_t pass);

// Multiplies one product on the compute thread: all of its terms, or some that are added to C.
// extra_device_bytes: as for mmul_worker_multiply_absent.
enum mmul_status mmul_stage_multiply(struct mmul_stage *stage, const struct mmul_product *product,
                                     int64_t extra_device_bytes, struct mmul_error *err);

// Waits until more than `done` panels have arrived from stage->panels_from. Returns their number,
// or -1 if the run was cancelled.
int mmul_stage_wait_for_panel(struct mmul_stage *stage, int done);

// Implements `look` of the stage's verifier (verify.h), with the stage as `context`. Impossible
// numbers are blamed on a device only if the inputs are unchanged. A cancelled run does not compute
// them again (MMUL_ERR_STOPPED).
enum mmul_status mmul_stage_may_recompute(void *context, int64_t done, int64_t total,
                                          struct mmul_error *err);
