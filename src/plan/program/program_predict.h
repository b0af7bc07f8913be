// SPDX-License-Identifier: MIT
// Predicts the seconds of a program after its products got schedules. Pure.
#pragma once

#include "plan/lists/program_plan.h"

// Predicts seconds and bytes of all steps. A program of several steps is one job, and its stages
// are walked together (plan/replay/replay.h): data of the next product travels while this one is
// computed, and a rank that finishes a step goes on with the next. A step's seconds are its
// addition to those of the steps before. If the speeds of products are not known, nothing is
// walked, and the seconds by which placements were chosen remain. Fails with MMUL_ERR_SYSTEM
// (memory).
enum mmul_status mmul_program_predict(struct mmul_program_plan *plan,
                                      const struct mmul_cluster *cluster, struct mmul_error *err);
