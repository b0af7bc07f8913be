// SPDX-License-Identifier: MIT
// Completes the groups of ranks of a program: values without one get that of their readers, from
// the last operation to the first. Then a value read on another group than its own is handed on.
#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "model/rank_groups.h"

// Returns the name of the first value placed on a group, for errors.
static const char *name_placed(const struct mmul_program *p, int rank_group) {
    int i = 0;
    while (i < p->operation_count && p->operations[i].rank_group != rank_group)
        i++;
    return i < p->operation_count ? p->values[p->operations[i].result].name : "a value";
}

// Counts a group's ranks and checks that the job has them.
static enum mmul_status count_ranks(const struct mmul_program *p, int rank_group, int size,
                                    int *count, struct mmul_error *err) {
    *count = 0;
    for (int rank = 0; rank < MMUL_GROUP_RANKS_MOST; rank++) {
        if (!mmul_rank_group_contains(mmul_program_rank_group(p, rank_group), rank))
            continue;
        if (rank >= size)
            return mmul_fail(err, MMUL_ERR_USAGE,
                             "cannot place '%s' on rank %d: the job has %d rank%s",
                             name_placed(p, rank_group), rank, size, mmul_text_plural(size));
        (*count)++;
    }
    return MMUL_OK;
}

// Replaces a group of all ranks by MMUL_GROUP_ALL. A group of ranks of one rank has everything in
// its rows.
static enum mmul_status reduce_groups_by_size(struct mmul_program *p, int size,
                                              struct mmul_error *err) {
    for (int t = 0; t < p->rank_group_count; t++) {
        const int rank_group = MMUL_GROUP_ALL + 1 + t;
        int count;
        if (count_ranks(p, rank_group, size, &count, err) != MMUL_OK)
            return err->status;
        for (int i = 0; count == size && i < p->value_count; i++)
            if (p->values[i].rank_group == rank_group)
                p->values[i].rank_group = MMUL_GROUP_ALL;
        for (int i = 0; count == 1 && count < size && i < p->operation_count; i++) {
            struct mmul_operation *o = &p->operations[i];
            if (o->kind == MMUL_PLACE && p->values[o->result].rank_group == rank_group)
                o->requested_placement = MMUL_PLACE_ROWS;
        }
    }
    return MMUL_OK;
}

static bool has_own_group(const struct mmul_operation *o) {
    return o->result >= 0; // otherwise it runs on its operand's group
}

// Gives a value without a group that of all its readers; if they are in several groups of ranks,
// all ranks.
static void adopt_readers_groups(struct mmul_program *p, int *readers) {
    for (int i = p->operation_count - 1; i >= 0; i--) {
        const struct mmul_operation *o = &p->operations[i];
        if (!has_own_group(o))
            continue;
        struct mmul_value *made = &p->values[o->result];
        if (made->rank_group == 0)
            made->rank_group = readers[o->result] != 0 ? readers[o->result] : MMUL_GROUP_ALL;
        for (int j = 0; j < o->operand_count; j++)
            if (o->operands[j] != MMUL_NUMBER) {
                int *reader = &readers[o->operands[j]];
                *reader =
                    *reader == 0 || *reader == made->rank_group ? made->rank_group : MMUL_GROUP_ALL;
            }
    }
}

// Copy of a value on another group.
struct twin {
    struct twin *next;
    int rank_group, value;
};

// Finds the copy of a value of the original program on a group, or adds it to `p`.
static enum mmul_status find_or_add_twin(struct mmul_program *p, struct twin **twins, int value,
                                         int rank_group, int *other, struct mmul_error *err) {
    struct twin *twin = twins[value];
    while (twin != NULL && twin->rank_group != rank_group)
        twin = twin->next;
    if (twin != NULL) {
        *other = twin->value;
        return MMUL_OK;
    }
    if (MMUL_ALLOCATE(twin, 1, "a program", err) != MMUL_OK)
        return err->status;
    *other = mmul_program_copy_value(p, value);
    *twin = (struct twin){twins[value], rank_group, *other};
    twins[value] = twin;
    p->values[*other].rank_group = rank_group;
    p->operations[p->operation_count++] = (struct mmul_operation){.kind = MMUL_PLACE,
                                                                  .operands = {value},
                                                                  .operand_count = 1,
                                                                  .result = *other,
                                                                  .rank_group = rank_group};
    return MMUL_OK;
}

static bool is_on_other_group(const struct mmul_program *p, const struct mmul_operation *o,
                              int operand) {
    return has_own_group(o) && o->kind != MMUL_PLACE && o->operands[operand] != MMUL_NUMBER &&
           p->values[o->operands[operand]].rank_group != p->values[o->result].rank_group;
}

static enum mmul_status add_all_twins(struct mmul_program *program, int count,
                                      struct mmul_error *err) {
    struct mmul_program made;
    struct twin **twins = NULL; // copies of every value of the original program
    const int most = (int)mmul_max(program->operation_count, program->value_count);
    enum mmul_status status = MMUL_ALLOCATE(twins, program->value_count, "a program", err);
    if (status == MMUL_OK)
        status = mmul_program_begin_copy(program, most + count, &made, err);
    if (status != MMUL_OK) {
        mmul_free(twins);
        return status;
    }
    for (int i = 0; status == MMUL_OK && i < program->operation_count; i++) {
        struct mmul_operation o = program->operations[i];
        for (int j = 0; status == MMUL_OK && j < o.operand_count; j++)
            if (is_on_other_group(program, &o, j))
                status =
                    find_or_add_twin(&made, twins, o.operands[j],
                                     program->values[o.result].rank_group, &o.operands[j], err);
        made.operations[made.operation_count++] = o;
    }
    for (int i = 0; i < program->value_count; i++)
        for (struct twin *twin = twins[i], *next; twin != NULL; twin = next) {
            next = twin->next;
            mmul_free(twin);
        }
    mmul_free(twins);
    if (status == MMUL_OK) {
        mmul_program_end_copy(program, &made);
        return MMUL_OK;
    }
    mmul_free(made.values);
    mmul_free(made.operations);
    return status;
}

enum mmul_status mmul_program_add_group_moves(struct mmul_program *program, int size,
                                              struct mmul_error *err) {
    int *readers = NULL, count = 0;
    if (program->value_count == 0)
        return MMUL_OK;
    enum mmul_status status = reduce_groups_by_size(program, size, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(readers, program->value_count, "a program", err);
    if (status != MMUL_OK)
        return status;
    adopt_readers_groups(program, readers);
    mmul_free(readers);
    for (int i = 0; i < program->operation_count; i++)
        for (int j = 0; j < program->operations[i].operand_count; j++)
            count += is_on_other_group(program, &program->operations[i], j);
    return count > 0 ? add_all_twins(program, count, err) : MMUL_OK;
}
