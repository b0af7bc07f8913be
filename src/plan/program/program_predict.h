// SPDX-License-Identifier: MIT
// How long a program takes, when its products have schedules. Pure.
#pragma once

#include "plan/lists/program_plan.h"

// Seconds and bytes of all steps. A program of several is one job, whose stages are walked together
// (plan/replay/replay.h): what the next product needs travels while this one is computed, and whoever is through with a
// step goes on with the next. A step's seconds are what it adds to those before it. Where the speeds of products are
// not known nothing is walked, and the seconds stay those that the placements were chosen by. Fails with
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_predict(struct mmul_program_plan *plan,
                                      const struct mmul_cluster *cluster, struct mmul_error *err);
