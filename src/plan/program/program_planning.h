// SPDX-License-Identifier: MIT
//
// What the files that make the plan of a program share; nobody else includes this. In the order in which
// program_make.c calls it.
#pragma once

#include "plan/lists/program_plan.h"

// -------------------------------------------------------------------------------- program_choose.c

// Between how many groups of rows the values may be split so that most of what the program does with groups
// stays on its rank, each of which gets one at least; 1: it does nothing of the kind; MMUL_ONE_RANK. Fails with
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_find_groups(const struct mmul_program *program, int size,
                                          int64_t *groups, struct mmul_error *err);

// One rule per operation, and the seconds of all. costs: by team. Fails as above.
enum mmul_status mmul_program_choose(const struct mmul_program *program,
                                     const struct mmul_program_costs *costs,
                                     const struct mmul_rule **rules, double *seconds,
                                     struct mmul_error *err);

// ---------------------------------------------------------------------------------- program_fuse.c

// Finds the products that are split by rows or columns, and lets them bring from files, and take to
// them, what nobody else reads: the moves that did that are gone then. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_fuse(struct mmul_program_plan *plan, struct mmul_error *err);

// ------------------------------------------------------------------------------ program_epilogue.c

// Lets operations that have to do with the same rows, or elements, be done together, in one step: the others are gone
// then, and so are values that they alone read. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_fuse_epilogues(struct mmul_program_plan *plan,
                                             struct mmul_error *err);

// --------------------------------------------------------------------------------- program_early.c

// Steps of a plan that may have early moves: these stand where they are to begin. moves_early: there are any. Fails
// as above.
enum mmul_status mmul_program_move_early(struct mmul_program_plan *plan, struct mmul_error *err);

// -------------------------------------------------------------------------------- program_memory.c

// Offsets and bytes of the places on every node. Memory of a place that does not stay is used again, by
// what is made two stages after the last one that reads it, or that waits for a move of it: then all ranks of the node,
// and its traffic, are through with that (exec/traffic/mover.h). And which stage waits for which move. Fails as above.
enum mmul_status mmul_program_lay_out(struct mmul_program_plan *plan, struct mmul_error *err);
