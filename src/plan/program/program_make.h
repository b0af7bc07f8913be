// SPDX-License-Identifier: MIT
//
// Makes the plan of a program. Gives every operation one of its rules, so that the predicted
// seconds of all operations and of the moves between them are least. An operand in another
// placement gets a move. A pure function of program, cluster and weights: every rank computes it
// for itself.
//
// All split values are split by the same weights, so equal ranges have equal offsets. Rows of one
// value then match rows (or, transposed, columns) of another.
//
// A transposed value is a view: the memory of its operand, read the other way. So is a reshaped one
// if it keeps its placement. If operations treat the matrices of a stack one by one, as attention
// does with the texts of a batch, all values may be split between groups of rows, so that none of
// these operations moves data. Rules are chosen without groups and with them; the faster choice
// stays. Rules of a value on some of the ranks are chosen for its group alone
// (model/rank_groups.h).
#pragma once

#include "plan/lists/program_plan.h"

// Input of a plan. All pointers are borrowed; the plan borrows the program too.
struct mmul_program_request {
    const struct mmul_program *program;
    const struct mmul_cluster *cluster;
    const double *weights;                  // one per rank
    const struct mmul_job_options *options; // NULL: all 0
    // Products are split by rows or columns, so that they can read and write files in pieces; a
    // grid would need all operands in memory. Also done if an operation has files (struct
    // mmul_scale).
    bool streams;
    bool moves_late; // moves begin when their reader needs them, which takes less memory
};

// Makes a plan. Its products have no schedules yet. program_memory.h checks if it fits. Fails with
// MMUL_ERR_SYSTEM (memory) or MMUL_ERR_USAGE (an empty program, a wish that no rule can follow).
enum mmul_status mmul_program_plan_make(const struct mmul_program_request *request,
                                        struct mmul_program_plan **plan, struct mmul_error *err);

// Drops the schedules of products that were planned, for example for another limit.
void mmul_program_drop_schedules(struct mmul_program_plan *plan);
