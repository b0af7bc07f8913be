// SPDX-License-Identifier: MIT
//
// Declarations that the files which make the plan of a program share, in the order in which
// program_make.c calls them. No other file includes this header.
#pragma once

#include "plan/lists/program_plan.h"

// -------------------------------------------------------------------------------- program_choose.c

// Finds the number of groups of rows between which values may be split, so that most operations on
// groups stay on one rank. Every rank gets at least one group. 1: no operation works on groups;
// MMUL_ONE_RANK: one rank. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_find_groups(const struct mmul_program *program, int size,
                                          int64_t *groups, struct mmul_error *err);

// Chooses one rule per operation, and computes the seconds of all. costs: by group. Fails with
// MMUL_ERR_SYSTEM (memory) or MMUL_ERR_USAGE (a wish that no rule can follow).
enum mmul_status mmul_program_choose(const struct mmul_program *program,
                                     const struct mmul_program_costs *costs,
                                     const struct mmul_rule **rules, double *seconds,
                                     struct mmul_error *err);

// -------------------------------------------------------------------------- program_absorb_moves.c

// Finds the products that are split by rows or columns. Lets them read from files, and write to
// files, the values that no other step reads; the moves that did this are gone then. Fails with
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_absorb_moves(struct mmul_program_plan *plan, struct mmul_error *err);

// ----------------------------------------------------------------------- program_fuse_operations.c

// Fuses operations on the same rows, or elements, into one step. The other steps are gone then, and
// so are values that only they read. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_fuse_operations(struct mmul_program_plan *plan,
                                              struct mmul_error *err);

// --------------------------------------------------------------------------- program_early_moves.c

// Moves the early moves of a plan to the places where they are to begin. moves_early: there are
// any. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_reorder_early_moves(struct mmul_program_plan *plan,
                                                  struct mmul_error *err);

// -------------------------------------------------------------------------------- program_memory.c

// Computes offsets and bytes of the places on every node, and the stage that waits for each move.
// Memory of a place that does not stay is reused two stages after the last step that reads it, or
// that waits for a move of it: by then all ranks of the node, and its traffic, are finished with it
// (exec/traffic/mover.h). Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_assign_memory(struct mmul_program_plan *plan, struct mmul_error *err);
