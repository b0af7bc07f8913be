// SPDX-License-Identifier: MIT
//
// Shares that follow what the ranks do. Speeds are measured by products, and a program does more than that: where it is
// run again and again, as the turns of a loop, what every rank has done in how long says what it should get. Only where
// nobody has given weights, and not with reproducible sums. Local, root: weights are sent with each plan.
#pragma once

#include "exec/job/program.h"

// A run of the plan is over: adds what its ranks did, and looks now and then whether other shares would be shorter.
void mmul_rebalance_note(struct mmul_context *context, struct mmul_program_plan *plan,
                         const struct mmul_report *report);

// What was found so far, `size` of them, borrowed; NULL: the measured speeds do.
const double *mmul_rebalance_weights(const struct mmul_context *context);

void mmul_rebalance_destroy(struct mmul_context *context);
