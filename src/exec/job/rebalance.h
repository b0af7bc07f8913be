// SPDX-License-Identifier: MIT
//
// Load balancing by observed work. Speeds are measured with products only, but programs do more
// than multiply. When a program runs repeatedly, as in a loop, the shares follow the time that each
// rank took for its part. Only without given weights and without reproducible sums. Local, root:
// weights are sent with each plan.
#pragma once

#include "exec/job/program.h"

// Adds the times of a finished run, and from time to time checks whether other shares would be
// faster.
void mmul_rebalance_add_run(struct mmul_context *context, struct mmul_program_plan *plan,
                            const struct mmul_report *report);

// Returns the weights found so far, one per rank, borrowed; NULL: use the measured speeds.
const double *mmul_rebalance_weights(const struct mmul_context *context);

void mmul_rebalance_destroy(struct mmul_context *context);
