// SPDX-License-Identifier: MIT
// Assigns a group to each value while a program is built, in forward order.
// model/program_group_moves.c hands values on between groups of ranks.
#include "model/rank_groups.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "model/matrix.h"

// ------------------------------------------------------------------------------------------- table

enum mmul_status mmul_program_intern_group(struct mmul_program *program,
                                           const struct mmul_rank_group *made, int *rank_group,
                                           struct mmul_error *err) {
    struct mmul_rank_group *rank_groups = NULL;
    const int there = program->rank_group_count;
    for (int i = 0; i < there; i++)
        if (memcmp(&program->rank_groups[i], made, sizeof *made) == 0) {
            *rank_group = MMUL_GROUP_ALL + 1 + i;
            return MMUL_OK;
        }
    enum mmul_status status = MMUL_ALLOCATE(rank_groups, there + 1, "a program", err);
    if (status != MMUL_OK)
        return status;
    if (there > 0)
        memcpy(rank_groups, program->rank_groups, (size_t)there * sizeof *rank_groups);
    rank_groups[there] = *made;
    mmul_free(program->rank_groups);
    program->rank_groups = rank_groups;
    *rank_group = MMUL_GROUP_ALL + 1 + program->rank_group_count++;
    return MMUL_OK;
}

enum mmul_status mmul_program_add_group(struct mmul_program *program, const int *ranks, int count,
                                        int *rank_group, struct mmul_error *err) {
    struct mmul_rank_group made = {{0}};
    if (count <= 0)
        return mmul_fail(err, MMUL_ERR_USAGE, "cannot place a value: the list of ranks is empty");
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= MMUL_GROUP_RANKS_MOST)
            return mmul_fail(err, MMUL_ERR_USAGE,
                             "cannot place a value on rank %d: expected 0 to %d", ranks[i],
                             MMUL_GROUP_RANKS_MOST - 1);
        made.ranks[ranks[i] / 64] |= UINT64_C(1) << (ranks[i] % 64);
    }
    return mmul_program_intern_group(program, &made, rank_group, err);
}

const struct mmul_rank_group *mmul_program_rank_group(const struct mmul_program *program,
                                                      int rank_group) {
    return rank_group > MMUL_GROUP_ALL ? &program->rank_groups[rank_group - MMUL_GROUP_ALL - 1]
                                       : NULL;
}

// ---------------------------------------------------------------------------------------- building

// Returns true if the operation runs on x's group rather than y's.
static bool takes_precedence(const struct mmul_value *x, const struct mmul_value *y) {
    const double of_x = mmul_shape_elements(x->shape), of_y = mmul_shape_elements(y->shape);
    if (x->group_is_requested != y->group_is_requested)
        return x->group_is_requested;
    if ((x->rank_group == MMUL_GROUP_ALL) != (y->rank_group == MMUL_GROUP_ALL))
        return y->rank_group == MMUL_GROUP_ALL;
    return of_x > of_y || (of_x == of_y && x > y);
}

void mmul_program_choose_group(const struct mmul_program *program,
                               const struct mmul_operation *operation, struct mmul_value *made) {
    const struct mmul_value *strongest = NULL;
    const bool by_element = mmul_operation_row(operation->kind)->class == MMUL_CLASS_ELEMENTS;
    made->rank_group = operation->rank_group != 0 ? operation->rank_group : program->rank_group;
    made->group_is_requested = operation->group_is_requested;
    for (int i = 0; i < operation->operand_count; i++) {
        if (operation->operands[i] == MMUL_NUMBER)
            continue;
        const struct mmul_value *x = &program->values[operation->operands[i]];
        if (x->rank_group != 0 && (strongest == NULL || takes_precedence(x, strongest)))
            strongest = x;
    }
    if (strongest == NULL || made->rank_group != 0)
        return;
    made->rank_group = strongest->rank_group;
    // Values made of parameters element by element count as parameters.
    made->group_is_requested = by_element && strongest->group_is_requested &&
                               mmul_shape_equal(strongest->shape, made->shape);
}

// ------------------------------------------------------------------------------- complete programs

int mmul_program_operation_group(const struct mmul_program *program,
                                 const struct mmul_operation *operation) {
    return program->values[operation->result >= 0 ? operation->result : operation->operands[0]]
        .rank_group;
}

bool mmul_program_is_group_move(const struct mmul_program *program,
                                const struct mmul_operation *operation) {
    return operation->kind == MMUL_PLACE && program->values[operation->operands[0]].rank_group !=
                                                program->values[operation->result].rank_group;
}
