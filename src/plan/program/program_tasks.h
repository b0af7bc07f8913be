// SPDX-License-Identifier: MIT
//
// What a rank does in a step that computes: blocks of the result, as they are walked. Pure. Of a
// result that is whole on every node the ranks of a node make a part each, by their shares; of a sum
// (matmul: cols x rows; along an axis that is split) everybody makes a summand from its part of the inner range.
#pragma once

#include "plan/program/program_plan.h"

struct mmul_program_task {
    struct mmul_region block;       // of the result
    int64_t inner_begin, inner_end; // of a product, or of the axis along which is reduced
};

struct mmul_program_walk {
    const struct mmul_program_plan *plan;
    const struct mmul_program_step *step;
    int rank;
    int64_t units[2]; // of the rows of all matrices: its part of a whole result
    int64_t matrix, end;
};

// Does each rank make a summand from what it has of the inner range?
bool mmul_program_makes_summands(const struct mmul_program_plan *plan,
                                 const struct mmul_program_step *step);

struct mmul_program_walk mmul_program_walk(const struct mmul_program_plan *plan,
                                           const struct mmul_program_step *step, int rank);

// False when there are no more.
bool mmul_program_next(struct mmul_program_walk *walk, struct mmul_program_task *task);

// Goes past the tasks behind this one that are alike: the same of the matrices that follow. How many they are.
int64_t mmul_program_skip_alike(struct mmul_program_walk *walk,
                                const struct mmul_program_task *task);
