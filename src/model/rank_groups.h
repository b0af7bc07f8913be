// SPDX-License-Identifier: MIT
//
// Teams: the ranks of a value that is not on all of them. Placement requests of a program name some
// teams. All other values follow: they are made on the team of an operand with a request, else of
// the largest operand, else of the newest one. A gradient is made on the team of its operation.
// Values without operands, such as generated numbers, are made on the team of their readers.
// Between teams, operations of their own, which are moves, hand values on.
#pragma once

// Values of a team are split by the shares of its ranks alone. Rules are chosen within teams
// (plan/program/program_make.c). A rank has nothing to do in the steps of other teams.

#include "model/program.h"

// Finds or adds the team of these ranks. Fails with MMUL_ERR_USAGE (no ranks, an invalid rank),
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

// Sets the team of the value that an operation is about to make, and group_is_requested.
void mmul_program_choose_group(const struct mmul_program *program,
                               const struct mmul_operation *operation, struct mmul_value *made);

// Returns the team that runs an operation of a program with handed-on values.
int mmul_program_operation_group(const struct mmul_program *program,
                                 const struct mmul_operation *operation);

// Returns true if it takes a value from one team to another.
bool mmul_program_is_group_move(const struct mmul_program *program,
                                const struct mmul_operation *operation);

// Completes the teams for a job of `size` ranks: every value gets a team, and all operands of an
// operation are on its team. "place" operations, without a placement request, hand on the others.
// Values keep their indices; new ones come after them. Fails with MMUL_ERR_USAGE (a rank that the
// job does not have), MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_add_group_moves(struct mmul_program *program, int size,
                                              struct mmul_error *err);
