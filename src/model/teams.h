// SPDX-License-Identifier: MIT
//
// Teams: the ranks that a value is on, where those are not all. A program names some, with what it places; from those
// it follows where everything else is made: with what is placed, else with the largest operand, else with the newest
// one. A gradient is made where the operation is that it belongs to. What comes from nowhere, such as numbers by
// position, is made where it is read. Between teams values are handed on by operations of their own, which are moves.
#pragma once

#include "model/program.h"

// A team of these ranks, or the one that there is already. Fails with MMUL_ERR_USAGE (no ranks, a rank that is none),
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_add_team(struct mmul_program *program, const int *ranks, int count,
                                       int *team, struct mmul_error *err);

enum mmul_status mmul_program_know_team(struct mmul_program *program, const struct mmul_team *made,
                                        int *team, struct mmul_error *err);

// Its ranks; NULL: all.
const struct mmul_team *mmul_program_team(const struct mmul_program *program, int team);

static inline bool mmul_team_has(const struct mmul_team *team, int rank) {
    return rank < MMUL_TEAM_RANKS && (team->ranks[rank / 64] >> (rank % 64) & 1) != 0;
}

// Of a value that the operation is to make, before it is among the program's: its team, and whether it is there because
// that was asked for.
void mmul_program_choose_team(const struct mmul_program *program,
                              const struct mmul_operation *operation, struct mmul_value *made);

// Where an operation of a program with handed-on values is carried out.
int mmul_program_team_of(const struct mmul_program *program,
                         const struct mmul_operation *operation);

// Does it take a value of one team to another one?
bool mmul_program_hands_on(const struct mmul_program *program,
                           const struct mmul_operation *operation);

// For a job of so many ranks: every value has a team, and operands are where their operation is: what is not is handed
// on by operations "place", with a wish for no placement of its own. Values keep their indices; others come after them.
// Fails with MMUL_ERR_USAGE (a rank that the job does not have), MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_hand_on(struct mmul_program *program, int size,
                                      struct mmul_error *err);
