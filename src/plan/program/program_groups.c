// SPDX-License-Identifier: MIT
// Whether, and between how many groups of rows, the values of a program are split (model/operation.h): what keeps
// groups of its largest values together. Plans nothing.
#include <stdlib.h>

#include "base/memory.h"
#include "base/status.h"
#include "plan/program/program_planning.h"

// Groups that operations keep, and the elements of their results.
struct wish {
    int64_t groups;
    double elements;
};

static int64_t common_divisor(int64_t x, int64_t y) {
    while (y != 0) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}

static int compare_wishes(const void *a, const void *b) {
    const struct wish *x = a, *y = b;
    return (x->elements < y->elements) - (x->elements > y->elements);
}

// Of the operands that may be split at all, where that needs groups.
static int add_wishes(const struct mmul_program *program, const struct mmul_operation *o,
                      struct wish *wishes, int count) {
    struct mmul_operand_info operands[MMUL_OPERANDS];
    const struct mmul_operation_call call = mmul_program_call(program, o, operands);
    const struct mmul_shape result = mmul_program_shape(program, o);
    double elements =
        (double)result.batch * (double)result.depth * (double)result.rows * (double)result.cols;
    for (int i = 0; o->kind != MMUL_SAVE && i < o->operand_count; i++) {
        if (operands[i].is_number)
            continue;
        int64_t groups = mmul_operation_groups(o->kind, &call, i, result);
        int same = 0;
        while (same < count && wishes[same].groups != groups)
            same++;
        if (groups == MMUL_ROW_BY_ROW || groups == 1)
            continue;
        wishes[same].groups = groups;
        wishes[same].elements += elements;
        count += same == count;
    }
    return count;
}

enum mmul_status mmul_program_find_groups(const struct mmul_program *program, int size,
                                          int64_t *groups, struct mmul_error *err) {
    struct wish *wishes = NULL;
    int count = 0;
    enum mmul_status status =
        MMUL_ALLOCATE(wishes, (int64_t)program->operation_count * MMUL_OPERANDS, "a plan", err);
    if (status != MMUL_OK)
        return status;
    for (int i = 0; i < program->operation_count; i++)
        count = add_wishes(program, &program->operations[i], wishes, count);
    if (count > 0)
        qsort(wishes, (size_t)count, sizeof *wishes, compare_wishes);
    int64_t found = 0;
    for (int i = 0; i < count; i++) {
        int64_t both = common_divisor(wishes[i].groups, found);
        found = both >= size ? both : found;
    }
    *groups = size == 1 ? MMUL_ONE_RANK : found > 1 ? found : 1;
    mmul_free(wishes);
    return MMUL_OK;
}
