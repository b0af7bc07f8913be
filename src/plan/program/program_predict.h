// SPDX-License-Identifier: MIT
// How long the products of a program take, when they have schedules. Pure.
#pragma once

#include "plan/lists/program_plan.h"

// Seconds and bytes of products and of all steps. Several products are one job: their lists are walked together
// (plan/replay/replay.h), so that what the next one needs travels while this one is computed; each step has its part of
// that. What comes between two of them takes the time that is added for it. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_predict(struct mmul_program_plan *plan,
                                      const struct mmul_cluster *cluster, struct mmul_error *err);
