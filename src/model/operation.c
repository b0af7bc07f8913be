// SPDX-License-Identifier: MIT
// The table, and the shapes that its rows fit together. It chooses no rule: that is the plan's.
#include "model/operation.h"

#include "base/memory.h"
#include "base/status.h"
#include "model/matrix.h"
#include "model/problem.h"

#define FILED    MMUL_PLACE_FILE
#define ROWS     MMUL_PLACE_ROWS
#define COLS     MMUL_PLACE_COLS
#define GRID     MMUL_PLACE_GRID
#define WHOLE    MMUL_PLACE_REPLICATE
#define SUMMANDS MMUL_PLACE_PARTIAL
#define GROWS    MMUL_PLACE_GRID_ROWS
#define GCOLS    MMUL_PLACE_GRID_COLS

static const struct mmul_rule LOAD[] = {{{0, 0}, FILED}};
static const struct mmul_rule GENERATE[] = {
    {{0, 0}, ROWS}, {{0, 0}, COLS}, {{0, 0}, GRID}, {{0, 0}, WHOLE}};
static const struct mmul_rule MATMUL[] = {{{ROWS, WHOLE}, ROWS},    {{WHOLE, COLS}, COLS},
                                          {{COLS, ROWS}, SUMMANDS}, {{WHOLE, WHOLE}, ROWS},
                                          {{WHOLE, WHOLE}, COLS},   {{WHOLE, WHOLE}, WHOLE},
                                          {{GROWS, GCOLS}, GRID}};
static const struct mmul_rule TRANSPOSE[] = {
    {{ROWS, 0}, COLS}, {{COLS, 0}, ROWS}, {{WHOLE, 0}, WHOLE}, {{SUMMANDS, 0}, SUMMANDS}};
static const struct mmul_rule ADD[] = {
    {{ROWS, ROWS}, ROWS},    {{COLS, COLS}, COLS},   {{GRID, GRID}, GRID},
    {{WHOLE, WHOLE}, WHOLE}, {{ROWS, WHOLE}, ROWS},  {{WHOLE, ROWS}, ROWS},
    {{COLS, WHOLE}, COLS},   {{WHOLE, COLS}, COLS},  {{GRID, WHOLE}, GRID},
    {{WHOLE, GRID}, GRID},   {{WHOLE, WHOLE}, ROWS}, {{SUMMANDS, SUMMANDS}, SUMMANDS}};
static const struct mmul_rule SAME[] = {
    {{ROWS, 0}, ROWS},         {{COLS, 0}, COLS},   {{GRID, 0}, GRID},  {{WHOLE, 0}, WHOLE},
    {{SUMMANDS, 0}, SUMMANDS}, {{GROWS, 0}, GROWS}, {{GCOLS, 0}, GCOLS}};
enum { SAME_COMPUTED = 4, SAME_ALL = 7 }; // nothing is computed on sums or on copies
static const struct mmul_rule SAVE[] = {{{FILED, 0}, FILED}};

static enum mmul_status shape_matmul(const struct mmul_operand_info *operands,
                                     struct mmul_shape *shape, struct mmul_error *err) {
    struct mmul_problem problem;
    const struct mmul_problem_request request = {
        .a = {.shape = operands[0].shape, .name = operands[0].name},
        .b = {.shape = operands[1].shape, .name = operands[1].name},
        .alpha = 1};
    enum mmul_status status = mmul_problem_make(&request, &problem, err);
    if (status == MMUL_OK)
        *shape = problem.c;
    return status;
}

static enum mmul_status shape_transpose(const struct mmul_operand_info *operands,
                                        struct mmul_shape *shape, struct mmul_error *err) {
    (void)err;
    *shape = operands[0].shape;
    shape->rows = operands[0].shape.cols;
    shape->cols = operands[0].shape.rows;
    return MMUL_OK;
}

static enum mmul_status shape_add(const struct mmul_operand_info *operands,
                                  struct mmul_shape *shape, struct mmul_error *err) {
    static const char *const names[] = {"batch sizes", "depths", "rows", "columns"};
    const struct mmul_shape x = operands[0].shape, y = operands[1].shape;
    const int64_t left[] = {x.batch, x.depth, x.rows, x.cols};
    const int64_t right[] = {y.batch, y.depth, y.rows, y.cols};
    int64_t sizes[4];
    for (int s = 0; s < 4; s++) {
        char x_text[96], y_text[96];
        sizes[s] = left[s] == 1 ? right[s] : left[s];
        if (left[s] == right[s] || left[s] == 1 || right[s] == 1)
            continue;
        mmul_fail(err, MMUL_ERR_DATA, "cannot add '%s' (%s) and '%s' (%s): %s %lld and %lld differ",
                  operands[0].name, mmul_shape_format(x, x_text), operands[1].name,
                  mmul_shape_format(y, y_text), names[s], (long long)left[s], (long long)right[s]);
        mmul_hint(err, "sizes of 1 repeat");
        return err->status;
    }
    *shape = (struct mmul_shape){sizes[0], sizes[1], sizes[2], sizes[3]};
    return MMUL_OK;
}

static double elements(struct mmul_shape shape) {
    return (double)shape.batch * (double)shape.depth * (double)shape.rows * (double)shape.cols;
}

static double flops_matmul(const struct mmul_operand_info *operands, struct mmul_shape result) {
    return 2 * elements(result) * (double)operands[0].shape.cols;
}

static double flops_elements(const struct mmul_operand_info *operands, struct mmul_shape result) {
    (void)operands;
    return elements(result);
}

#define RULES(table) .rules = (table), .rule_count = (int)(sizeof(table) / sizeof *(table))

static const struct mmul_operation_row TABLE[] = {
    [MMUL_LOAD] = {.name = "load", .has_result = true, RULES(LOAD)},
    [MMUL_GENERATE] = {.name = "generate",
                       .has_result = true,
                       .flops = flops_elements,
                       RULES(GENERATE)},
    [MMUL_MATMUL] = {.name = "matmul",
                     .arity = 2,
                     .has_result = true,
                     .shape = shape_matmul,
                     .flops = flops_matmul,
                     RULES(MATMUL)},
    [MMUL_TRANSPOSE] = {.name = "transpose",
                        .arity = 1,
                        .has_result = true,
                        .is_view = true,
                        .shape = shape_transpose,
                        RULES(TRANSPOSE)},
    [MMUL_ADD] = {.name = "add",
                  .arity = 2,
                  .has_result = true,
                  .shape = shape_add,
                  .flops = flops_elements,
                  RULES(ADD)},
    [MMUL_RELU] = {.name = "relu",
                   .arity = 1,
                   .has_result = true,
                   .flops = flops_elements,
                   .rules = SAME,
                   .rule_count = SAME_COMPUTED},
    [MMUL_PLACE] = {.name = "place",
                    .arity = 1,
                    .has_result = true,
                    .is_view = true,
                    .rules = SAME,
                    .rule_count = SAME_ALL},
    [MMUL_SAVE] = {.name = "save", .arity = 1, RULES(SAVE)},
};

const struct mmul_operation_row *mmul_operation_row(enum mmul_operation_kind kind) {
    return &TABLE[kind];
}

bool mmul_rule_fits(enum mmul_operation_kind kind, const struct mmul_rule *rule,
                    const struct mmul_operand_info *operands, struct mmul_shape result) {
    for (int i = 0; i < TABLE[kind].arity; i++) {
        struct mmul_shape have = operands[i].shape;
        if (rule->operands[i] == MMUL_PLACE_REPLICATE)
            continue;
        if (kind == MMUL_ADD && !mmul_shape_equal(have, result))
            return false;
        if (kind == MMUL_MATMUL && (have.batch != result.batch || have.depth != result.depth))
            return false;
    }
    return true;
}
