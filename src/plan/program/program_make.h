// SPDX-License-Identifier: MIT
//
// Makes the plan of a program: gives every operation one of its rules, so that the predicted seconds of
// all of them and of the moves between them are least; an operand that is elsewhere gets a move. A
// pure function of program, cluster and weights: every rank computes it for itself.
//
// Values that are split are split by the same weights, so equal ranges have equal offsets, and rows
// of one value meet rows (or, transposed, columns) of another.
#pragma once

#include "plan/lists/program_plan.h"

// What a plan is made from; all borrowed, the program by the plan, too.
struct mmul_program_request {
    const struct mmul_program *program;
    const struct mmul_cluster *cluster;
    const double *weights;                  // one per rank
    const struct mmul_job_options *options; // NULL: all 0
    // Products are of rows or columns, so that they can bring files and take them away in pieces, where a grid would
    // have all of its operands in memory. So they are where one is of files (struct mmul_scale).
    bool streams;
    bool moves_late; // no move begins before it is its reader's turn, which takes less memory
};

// Products have no schedules yet; whether it fits, program_memory.h says. Fails with MMUL_ERR_SYSTEM (memory),
// MMUL_ERR_USAGE (an empty program, a wish that no rule can follow).
enum mmul_status mmul_program_plan_make(const struct mmul_program_request *request,
                                        struct mmul_program_plan **plan, struct mmul_error *err);

// Of products that have been planned, with another limit, say: they have no plans any more.
void mmul_program_forget_products(struct mmul_program_plan *plan);
