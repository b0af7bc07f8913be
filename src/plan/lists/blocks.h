// SPDX-License-Identifier: MIT
//
// Iterates over the blocks of the result that a rank makes in a computing step. Blocks are computed
// during the walk, never stored. Pure.
//
// - Product with a schedule: the rank's part of the round, in the panel of the pass.
// - Every other step: the rank's part of the result, matrix by matrix. If the result is whole on
//   every node, the ranks of a node make a part each, by their shares. If the result is a sum
//   (matmul of cols x rows, or a reduction along a split axis), each rank makes a summand from its
//   part of the inner range.
#pragma once

#include "plan/lists/program_plan.h"
#include "plan/lists/schedule.h"

// A block is what a device computes at once.
struct mmul_block {
    struct mmul_region at; // rectangle of one matrix of the result
    // Terms summed for the block: of a product, or of the reduced axis.
    int64_t inner_begin, inner_end;
    int64_t line; // first line of the block among the rank's lines in the step (plan/lists/tasks.h)
};

struct mmul_block_walk {
    const struct mmul_program_plan *plan; // set for a step of a program
    const struct mmul_program_step *step;
    int rank;
    int64_t units[2]; // the rank's part of a whole result, in rows over all matrices
    int64_t matrix, end;
    struct mmul_stretch_walk stretches; // set for a product with a schedule (plan == NULL)
    bool by_cols;                       // lines are columns of the result, else rows
    struct mmul_range lines;            // only these lines are walked
    int64_t line;                       // number of lines walked
};

// Returns true if each rank makes a summand from its part of the inner range.
bool mmul_step_makes_summands(const struct mmul_program_plan *plan,
                              const struct mmul_program_step *step);

// Returns a walk over all blocks of a rank in a step of a program, product or not:
//     for (walk = mmul_step_blocks(plan, step, rank); mmul_blocks_next(&walk, &block);)
struct mmul_block_walk mmul_step_blocks(const struct mmul_program_plan *plan,
                                        const struct mmul_program_step *step, int rank);

// Returns a walk over the blocks of a rank in one pass of a product.
struct mmul_block_walk mmul_product_blocks(const struct mmul_schedule *schedule,
                                           struct mmul_pass pass, int rank);

// Returns false if there are no more blocks.
bool mmul_blocks_next(struct mmul_block_walk *walk, struct mmul_block *block);

// Skips the following blocks that equal this one except for their matrix, in a step without a
// schedule. Returns the number of skipped blocks.
int64_t mmul_blocks_skip_alike(struct mmul_block_walk *walk, const struct mmul_block *block);
