// SPDX-License-Identifier: MIT
//
// Groups of ranks: the ranks of a value that is not on all of them. Placement requests of a program
// name some groups of ranks. All other values follow: they are made on the group of an operand with
// a request, else of the largest operand, else of the newest one. A gradient is made on the group
// of its operation. Values without operands, such as generated numbers, are made on the group of
// their readers. Between groups of ranks, operations of their own, which are moves, hand values on.
#pragma once

// Values of a group are split by the shares of its ranks alone. Rules are chosen within groups of
// ranks (plan/program/program_make.c). A rank has nothing to do in the steps of other groups of
// ranks.

#include "model/program.h"

// Finds or adds the group of these ranks. Fails with MMUL_ERR_USAGE (no ranks, an invalid rank),
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_add_group(struct mmul_program *program, const int *ranks, int count,
                                        int *rank_group, struct mmul_error *err);

enum mmul_status mmul_program_intern_group(struct mmul_program *program,
                                           const struct mmul_rank_group *made, int *rank_group,
                                           struct mmul_error *err);

// Returns its ranks; NULL: all.
const struct mmul_rank_group *mmul_program_rank_group(const struct mmul_program *program,
                                                      int rank_group);

static inline bool mmul_rank_group_contains(const struct mmul_rank_group *rank_group, int rank) {
    return rank < MMUL_GROUP_RANKS_MOST && (rank_group->ranks[rank / 64] >> (rank % 64) & 1) != 0;
}

// Sets the group of the value that an operation is about to make, and group_is_requested.
void mmul_program_choose_group(const struct mmul_program *program,
                               const struct mmul_operation *operation, struct mmul_value *made);

// Returns the group that runs an operation of a program with handed-on values.
int mmul_program_operation_group(const struct mmul_program *program,
                                 const struct mmul_operation *operation);

// Returns true if it takes a value from one group to another.
bool mmul_program_is_group_move(const struct mmul_program *program,
                                const struct mmul_operation *operation);

// Completes the groups of ranks for a job of `size` ranks: every value gets a group, and all
// operands of an operation are on its group. "place" operations, without a placement request, hand
// on the others. Values keep their indices; new ones come after them. Fails with MMUL_ERR_USAGE (a
// rank that the job does not have), MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_add_group_moves(struct mmul_program *program, int size,
                                              struct mmul_error *err);
