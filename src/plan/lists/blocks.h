// SPDX-License-Identifier: MIT
//
// What a rank makes in a step that computes: blocks of the result, as they are walked, never stored. Pure. Of a
// product with a schedule they are the rank's part of the round, in the pass's panel. Of every other step they
// are what the rank has of the result, matrix by matrix: of a result that is whole on every node the ranks of a node
// make a part each, by their shares; of a sum (matmul: cols x rows; along an axis that is split) everybody makes a
// summand from its part of the inner range.
#pragma once

#include "plan/lists/program_plan.h"
#include "plan/lists/schedule.h"

// What a device is given at once.
struct mmul_block {
    struct mmul_region at; // of the result: a rectangle of one matrix
    int64_t inner_begin,
        inner_end; // the terms that are added up for it: of a product, or of the axis along which is
                   // reduced
    int64_t line;  // of the rank's in the step (plan/lists/tasks.h): its first one
};

struct mmul_block_walk {
    const struct mmul_program_plan *plan; // of a step ...
    const struct mmul_program_step *step;
    int rank;
    int64_t units[2]; // of the rows of all matrices: its part of a whole result
    int64_t matrix, end;
    struct mmul_walk stretches; // ... or, its plan being there, of a product
    bool by_cols;               // lines are columns of the result, else rows
    struct mmul_range lines;    // only these
    int64_t line;               // how many have been walked
};

// Does each rank make a summand from what it has of the inner range?
bool mmul_step_makes_summands(const struct mmul_program_plan *plan,
                              const struct mmul_program_step *step);

// All blocks of a rank in a step of a program, whether or not that is a product:
//     for (walk = mmul_step_blocks(plan, step, rank); mmul_blocks_next(&walk, &block);)
struct mmul_block_walk mmul_step_blocks(const struct mmul_program_plan *plan,
                                        const struct mmul_program_step *step, int rank);

// Those of a product's pass.
struct mmul_block_walk mmul_product_blocks(const struct mmul_schedule *schedule,
                                           struct mmul_pass pass, int rank);

// False when there are no more.
bool mmul_blocks_next(struct mmul_block_walk *walk, struct mmul_block *block);

// Of a step that is no product: goes past the blocks behind this one that are alike, the same of the matrices that
// follow. How many they are.
int64_t mmul_blocks_skip_alike(struct mmul_block_walk *walk, const struct mmul_block *block);
