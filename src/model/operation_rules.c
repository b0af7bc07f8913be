// SPDX-License-Identifier: MIT
// When a rule of an operation holds: for which sizes, and where its operands are split. Chooses none.
#include "base/integer.h"
#include "model/matrix.h"
#include "model/operation.h"

enum { AXES = 4, LEADING = AXES - 1 }; // axes that are counted by rows

static void sizes_of(struct mmul_shape shape, int64_t sizes[AXES]) {
    sizes[0] = shape.batch;
    sizes[1] = shape.depth;
    sizes[2] = shape.rows;
    sizes[3] = shape.cols;
}

static int64_t rows_of(struct mmul_shape shape) {
    return mmul_shape_matrices(shape) * shape.rows;
}

static int64_t common_divisor(int64_t x, int64_t y) {
    while (y != 0) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}

// Leading axes that both have alike: groups with one element of each.
static int64_t alike(struct mmul_shape x, struct mmul_shape y) {
    int64_t left[AXES], right[AXES], groups = 1;
    sizes_of(x, left);
    sizes_of(y, right);
    for (int s = 0; s < LEADING; s++) {
        if (left[s] != right[s])
            return groups;
        groups *= left[s];
    }
    return MMUL_ROW_BY_ROW;
}

static int64_t groups_of_slice(const struct mmul_operation_call *call) {
    int64_t sizes[AXES], groups = 1;
    sizes_of(call->operands[0].shape, sizes);
    for (int s = 0; s < LEADING; s++) {
        if (call->with->end[s] - call->with->begin[s] != sizes[s])
            return groups;
        groups *= sizes[s];
    }
    return MMUL_ROW_BY_ROW;
}

// Those axes come first in the result, too; sizes of 1 are nowhere.
static int64_t groups_of_permute(const struct mmul_operation_call *call, struct mmul_shape result) {
    const struct mmul_shape x = call->operands[0].shape;
    const int *axes = call->with->axes;
    int64_t sizes[AXES], groups = 1;
    bool is_same = true;
    sizes_of(x, sizes);
    for (int s = 0; s < AXES; s++)
        is_same &= axes[s] == s;
    for (int s = 0, from = 0; s < AXES; s++) {
        if (sizes[axes[s]] == 1)
            continue;
        while (sizes[from] == 1)
            from++;
        if (axes[s] != from++)
            break;
        groups *= sizes[axes[s]];
    }
    return is_same ? MMUL_ROW_BY_ROW
                   : common_divisor(groups, common_divisor(rows_of(x), rows_of(result)));
}

static int64_t groups_of_concat(const struct mmul_operation_call *call) {
    int64_t sizes[AXES], groups = 1;
    sizes_of(call->operands[0].shape, sizes);
    if (call->with->axis == -1)
        return MMUL_ROW_BY_ROW;
    for (int s = 0; s < AXES + call->with->axis; s++)
        groups *= sizes[s];
    return groups;
}

static int64_t groups_of_copy(enum mmul_operation_kind kind, const struct mmul_operation_call *call,
                              struct mmul_shape result) {
    const struct mmul_shape x = call->operands[0].shape;
    switch (kind) {
    case MMUL_SLICE:
        return groups_of_slice(call);
    case MMUL_PERMUTE:
        return groups_of_permute(call, result);
    case MMUL_CONCAT:
        return groups_of_concat(call);
    default:
        return x.cols == result.cols ? MMUL_ROW_BY_ROW
                                     : common_divisor(rows_of(x), rows_of(result));
    }
}

static int64_t groups_of_matmul(struct mmul_shape have, int operand, struct mmul_shape result) {
    if (have.batch != result.batch)
        return 1;
    if (have.depth != result.depth)
        return result.batch;
    return operand == 0 ? MMUL_ROW_BY_ROW : mmul_shape_matrices(result);
}

int64_t mmul_operation_groups(enum mmul_operation_kind kind, const struct mmul_operation_call *call,
                              int operand, struct mmul_shape result) {
    const struct mmul_shape have = call->operands[operand].shape;
    switch (mmul_operation_row(kind)->class) {
    case MMUL_CLASS_ELEMENTS:
        return alike(have, result);
    case MMUL_CLASS_ROWS:
        return operand == 0 ? MMUL_ROW_BY_ROW : 1;
    case MMUL_CLASS_REDUCE:
        return call->with->axis == -1 ? MMUL_ROW_BY_ROW : mmul_shape_matrices(have);
    case MMUL_CLASS_COPY:
        return groups_of_copy(kind, call, result);
    case MMUL_CLASS_LOOKUP:
        return operand == 0 ? 1 : rows_of(have);
    case MMUL_CLASS_ATTENTION:
        return operand == 1 || operand == 2 ? mmul_shape_matrices(have) : alike(have, result);
    default:
        return kind == MMUL_MATMUL || kind == MMUL_SEARCH ? groups_of_matmul(have, operand, result)
               : kind == MMUL_TRANSPOSE                   ? mmul_shape_matrices(have)
                                                          : MMUL_ROW_BY_ROW;
    }
}

static bool is_sum(enum mmul_operation_kind kind) {
    return kind == MMUL_SUM || kind == MMUL_MEAN;
}

// What is split by rows. A row of the result that is split in another way has parts of all of them.
static bool rows_fit(enum mmul_operation_kind kind, const struct mmul_rule *rule,
                     const struct mmul_operation_call *call, int operand, struct mmul_shape result,
                     int64_t groups) {
    const struct mmul_operand_info *have = &call->operands[operand];
    if (have->is_number)
        return false;
    if (mmul_operation_row(kind)->class == MMUL_CLASS_REDUCE && rule->result != MMUL_PLACE_ROWS)
        return is_sum(kind) && call->with->axis == -2;
    if (rule->result != MMUL_PLACE_ROWS) // transpose: columns; matmul: along the inner range
        return kind != MMUL_MATMUL ||
               (have->shape.batch == result.batch && have->shape.depth == result.depth);
    int64_t kept = mmul_operation_groups(kind, call, operand, result);
    return kept == MMUL_ROW_BY_ROW || groups == MMUL_ONE_RANK || (groups > 1 && kept % groups == 0);
}

static bool cols_fit(enum mmul_operation_kind kind, const struct mmul_rule *rule,
                     const struct mmul_operation_call *call, int operand,
                     struct mmul_shape result) {
    const struct mmul_operand_info *have = &call->operands[operand];
    const struct mmul_shape s = have->shape;
    const bool same_stack = s.batch == result.batch && s.depth == result.depth;
    switch (mmul_operation_row(kind)->class) {
    case MMUL_CLASS_ELEMENTS:
        return !have->is_number && same_stack && s.cols == result.cols;
    case MMUL_CLASS_REDUCE:
        return rule->result == MMUL_PLACE_COLS ? call->with->axis == -2
                                               : is_sum(kind) && call->with->axis == -1;
    case MMUL_CLASS_LOOKUP:
        return s.rows == 1;
    default:
        return kind != MMUL_MATMUL || same_stack;
    }
}

static bool operand_fits(enum mmul_operation_kind kind, const struct mmul_rule *rule,
                         const struct mmul_operation_call *call, int operand,
                         struct mmul_shape result, int64_t groups) {
    const struct mmul_operand_info *have = &call->operands[operand];
    const enum mmul_operation_class class = mmul_operation_row(kind)->class;
    switch (rule->operands[operand]) {
    case MMUL_PLACE_REPLICATE:
    case MMUL_PLACE_FILE:
        return true;
    case MMUL_PLACE_ROWS:
        return rows_fit(kind, rule, call, operand, result, groups);
    case MMUL_PLACE_COLS:
        return cols_fit(kind, rule, call, operand, result);
    default: // a number is no summand: it would be added more than once
        return class == MMUL_CLASS_ELEMENTS
                   ? !have->is_number && mmul_shape_equal(have->shape, result)
               : kind == MMUL_MATMUL
                   ? have->shape.batch == result.batch && have->shape.depth == result.depth
                   : true;
    }
}

bool mmul_rule_fits(enum mmul_operation_kind kind, const struct mmul_rule *rule,
                    const struct mmul_operation_call *call, struct mmul_shape result,
                    int64_t groups) {
    bool fits = true;
    for (int i = 0; i < call->operand_count; i++)
        fits = fits && operand_fits(kind, rule, call, i, result, groups);
    return fits;
}
