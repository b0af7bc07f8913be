// SPDX-License-Identifier: MIT
// Assigns a team to each value while a program is built, in forward order. model/program_hand_on.c
// hands values on between teams.
#include "model/teams.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "model/matrix.h"

// ------------------------------------------------------------------------------------------- table

enum mmul_status mmul_program_know_team(struct mmul_program *program, const struct mmul_team *made,
                                        int *team, struct mmul_error *err) {
    struct mmul_team *teams = NULL;
    const int there = program->team_count;
    for (int i = 0; i < there; i++)
        if (memcmp(&program->teams[i], made, sizeof *made) == 0) {
            *team = MMUL_TEAM_ALL + 1 + i;
            return MMUL_OK;
        }
    enum mmul_status status = MMUL_ALLOCATE(teams, there + 1, "a program", err);
    if (status != MMUL_OK)
        return status;
    if (there > 0)
        memcpy(teams, program->teams, (size_t)there * sizeof *teams);
    teams[there] = *made;
    mmul_free(program->teams);
    program->teams = teams;
    *team = MMUL_TEAM_ALL + 1 + program->team_count++;
    return MMUL_OK;
}

enum mmul_status mmul_program_add_team(struct mmul_program *program, const int *ranks, int count,
                                       int *team, struct mmul_error *err) {
    struct mmul_team made = {{0}};
    if (count <= 0)
        return mmul_fail(err, MMUL_ERR_USAGE, "cannot place a value on no rank");
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= MMUL_TEAM_RANKS)
            return mmul_fail(err, MMUL_ERR_USAGE,
                             "cannot place a value on rank %d: expected 0 to %d", ranks[i],
                             MMUL_TEAM_RANKS - 1);
        made.ranks[ranks[i] / 64] |= UINT64_C(1) << (ranks[i] % 64);
    }
    return mmul_program_know_team(program, &made, team, err);
}

const struct mmul_team *mmul_program_team(const struct mmul_program *program, int team) {
    return team > MMUL_TEAM_ALL ? &program->teams[team - MMUL_TEAM_ALL - 1] : NULL;
}

// ---------------------------------------------------------------------------------------- building

// Returns true if the operation runs on x's team rather than y's.
static bool takes_precedence(const struct mmul_value *x, const struct mmul_value *y) {
    const double of_x = mmul_shape_elements(x->shape), of_y = mmul_shape_elements(y->shape);
    if (x->is_placed != y->is_placed)
        return x->is_placed;
    if ((x->team == MMUL_TEAM_ALL) != (y->team == MMUL_TEAM_ALL))
        return y->team == MMUL_TEAM_ALL;
    return of_x > of_y || (of_x == of_y && x > y);
}

void mmul_program_choose_team(const struct mmul_program *program,
                              const struct mmul_operation *operation, struct mmul_value *made) {
    const struct mmul_value *strongest = NULL;
    const bool by_element = mmul_operation_row(operation->kind)->class == MMUL_CLASS_ELEMENTS;
    made->team = operation->team != 0 ? operation->team : program->team;
    made->is_placed = operation->is_placed;
    for (int i = 0; i < operation->operand_count; i++) {
        if (operation->operands[i] == MMUL_NUMBER)
            continue;
        const struct mmul_value *x = &program->values[operation->operands[i]];
        if (x->team != 0 && (strongest == NULL || takes_precedence(x, strongest)))
            strongest = x;
    }
    if (strongest == NULL || made->team != 0)
        return;
    made->team = strongest->team;
    // Values made of parameters element by element count as parameters.
    made->is_placed =
        by_element && strongest->is_placed && mmul_shape_equal(strongest->shape, made->shape);
}

// ------------------------------------------------------------------------------- complete programs

int mmul_program_team_of(const struct mmul_program *program,
                         const struct mmul_operation *operation) {
    return program->values[operation->result >= 0 ? operation->result : operation->operands[0]]
        .team;
}

bool mmul_program_hands_on(const struct mmul_program *program,
                           const struct mmul_operation *operation) {
    return operation->kind == MMUL_PLACE &&
           program->values[operation->operands[0]].team != program->values[operation->result].team;
}
