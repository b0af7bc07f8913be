// SPDX-License-Identifier: MIT
// Adds operations of the engine for matrices with numpy's axes. Shapes are checked here first, so
// that errors speak of numpy's axes; the engine reports all other problems.
#include <string.h>

#include "base/status.h"
#include "model/matrix.h"
#include "tensor/evaluator.h"
#include "tensor/jobs.h"

struct mmul_object mmul_matrix_object(struct mmul_evaluator *e, int value, int axes) {
    e->uses++;
    return (struct mmul_object){.kind = MMUL_OBJECT_MATRIX,
                                .value = value,
                                .job = e->job,
                                .axes = axes,
                                .shape = mmul_program_value_shape(e->program, value, NULL)};
}

// Returns true if a 1 x n result has one axis in numpy, as its operands do. Numbers and one-element
// matrices do not count; a sum has no axis.
static bool stays_row(const struct mmul_call *call, const struct mmul_object *operands,
                      const struct mmul_object *result) {
    static const char *const others[] = {"matmul",        "reshape", "permute",
                                         "transpose",     "concat",  "take",
                                         "cross_entropy", "mse",     "binary_cross_entropy"};
    const bool is_part = strcmp(call->operation, "slice") == 0;
    bool is_row = false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(call->operation, others[i]) == 0)
            return false;
    for (int i = 0; i < call->operand_count; i++) {
        if (operands[i].kind != MMUL_OBJECT_MATRIX)
            continue;
        if (!operands[i].is_row && !mmul_object_is_one_element(&operands[i]))
            return false;
        if (!is_part && mmul_object_is_one_element(result) &&
            !mmul_object_is_one_element(&operands[i]))
            return false;
        is_row |= operands[i].is_row;
    }
    return is_row && result->axes == 2 && result->shape.rows == 1;
}

enum mmul_status mmul_apply_operation(struct mmul_evaluator *e, const struct mmul_node *at,
                                      struct mmul_call *call, const struct mmul_object *operands,
                                      struct mmul_object *result) {
    char quoted[48], origin[96];
    int value = -1, axes = result->axes;
    const char *name = mmul_evaluator_name(e, at, quoted);
    call->origin = mmul_source_place(e->source, at->at, origin);
    if (++e->operations > MMUL_OPERATIONS_MOST)
        return mmul_evaluator_fail(e, at, "the program has more than %d operations",
                                   MMUL_OPERATIONS_MOST);
    for (int i = 0; i < call->operand_count; i++) {
        bool is_matrix = operands[i].kind == MMUL_OBJECT_MATRIX;
        call->operands[i] = is_matrix ? mmul_job_value(e, at, &operands[i]) : MMUL_NUMBER;
        call->with.numbers[i] = is_matrix ? 0 : mmul_object_number(&operands[i]);
        if (is_matrix && call->operands[i] < 0)
            return e->err->status;
    }
    enum mmul_status status = mmul_program_apply(e->program, call, name, &value, e->err);
    if (status != MMUL_OK)
        return mmul_evaluator_locate(e, at);
    *result = mmul_matrix_object(e, value, axes);
    result->is_row = stays_row(call, operands, result);
    return MMUL_OK;
}

enum mmul_status mmul_drop_axes(struct mmul_evaluator *e, const struct mmul_node *at,
                                const struct mmul_object *x,
                                const bool is_dropped[static MMUL_AXES_MOST],
                                struct mmul_object *result) {
    struct mmul_call call = {.operation = "reshape", .operand_count = 1};
    int64_t sizes[MMUL_AXES_MOST], left[MMUL_AXES_MOST] = {1, 1, 1, 1};
    int count = 0;
    mmul_object_sizes(x, sizes);
    for (int i = MMUL_AXES_MOST - 1; i >= MMUL_AXES_MOST - x->axes; i--)
        if (!is_dropped[i])
            left[MMUL_AXES_MOST - ++count] = sizes[i];
    call.with.shape = (struct mmul_shape){left[0], left[1], left[2], left[3]};
    *result = *x;
    result->axes = count < 2 ? 2 : count;
    enum mmul_status status = mmul_shape_equal(call.with.shape, x->shape)
                                  ? MMUL_OK
                                  : mmul_apply_operation(e, at, &call, x, result);
    result->is_row = count == 1;
    return status;
}

// Formats "x (8 x 4096 x 64)" for an error. Adds quotes ('A.npy') if the user has not seen the
// text.
static const char *describe(const struct mmul_evaluator *e, const struct mmul_argument *argument,
                            char text[static 160]) {
    char quoted[48], shape[96];
    const char *mark = e->source->name == NULL ? "'" : "";
    mmul_source_quote(e->source, argument->node->at, quoted);
    if (argument->object.kind == MMUL_OBJECT_MATRIX)
        snprintf(text, 160, "%s%s%s (%s)", mark, quoted, mark,
                 mmul_object_shape(&argument->object, shape));
    else
        snprintf(text, 160, "%s%s%s", mark, quoted, mark);
    return text;
}

// ------------------------------------------------------------------------------------- products

static enum mmul_status fail_product(struct mmul_evaluator *e, const struct mmul_node *at,
                                     const struct mmul_argument operands[2], const int64_t *x,
                                     const int64_t *y) {
    char left[160], right[160], quoted[48];
    describe(e, &operands[0], left);
    describe(e, &operands[1], right);
    if (x[3] != y[2]) {
        mmul_evaluator_fail(e, at, "cannot multiply %s by %s: inner sizes %lld and %lld differ",
                            left, right, (long long)x[3], (long long)y[2]);
        const struct mmul_node *transposed = x[3] == y[3] ? operands[1].node : operands[0].node;
        bool is_simple = transposed->kind == MMUL_NODE_NAME || transposed->kind == MMUL_NODE_CALL ||
                         transposed->kind == MMUL_NODE_SUBSCRIPT;
        if ((x[3] == y[3] || x[2] == y[2]) && is_simple && e->source->name != NULL)
            mmul_hint(e->err, "%s.T swaps the last two axes",
                      mmul_source_quote(e->source, transposed->at, quoted));
        return MMUL_ERR_DATA;
    }
    int axis = x[0] != y[0] && x[0] != 1 && y[0] != 1 ? 0 : 1;
    mmul_evaluator_fail(e, at, "cannot multiply %s by %s: sizes %lld and %lld of axis %d differ",
                        left, right, (long long)x[axis], (long long)y[axis], axis - MMUL_AXES_MOST);
    mmul_hint(e->err, "sizes of 1 are broadcast");
    return MMUL_ERR_DATA;
}

enum mmul_status mmul_apply_matmul(struct mmul_evaluator *e, const struct mmul_node *at,
                                   const struct mmul_argument operands[2],
                                   struct mmul_object *result) {
    int64_t x[MMUL_AXES_MOST], y[MMUL_AXES_MOST];
    const struct mmul_object both[2] = {operands[0].object, operands[1].object};
    for (int i = 0; i < 2; i++)
        if (both[i].kind != MMUL_OBJECT_MATRIX)
            return mmul_evaluator_fail(e, operands[i].node, "'@' is for matrices, not for %s",
                                       mmul_object_name(&both[i]));
    mmul_object_sizes(&both[0], x);
    mmul_object_sizes(&both[1], y);
    bool fits = x[3] == y[2];
    for (int s = 0; s < 2; s++)
        fits &= x[s] == y[s] || x[s] == 1 || y[s] == 1;
    if (!fits)
        return fail_product(e, at, operands, x, y);
    struct mmul_call call = {.operation = "matmul", .operand_count = 2};
    result->axes = both[0].axes > both[1].axes ? both[0].axes : both[1].axes;
    return mmul_apply_operation(e, at, &call, both, result);
}

// ------------------------------------------------------------------------------------- elements

static const char *verb_of(const char *operation) {
    static const char *const verbs[][2] = {
        {"add", "add"},       {"subtract", "subtract"},   {"multiply", "multiply"},
        {"divide", "divide"}, {"floor_divide", "divide"}, {"remainder", "divide"},
        {"where", "choose"},
    };
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(verbs[i][0], operation) == 0)
            return verbs[i][1];
    return strcmp(operation, "power") == 0 ? "raise" : "compare";
}

// Returns true for n x 1 and 1 x n with n > 1. Both are broadcast, and often one was meant to be
// transposed.
static bool are_column_and_row(const struct mmul_object *x, const struct mmul_object *y) {
    const struct mmul_shape a = x->shape, b = y->shape;
    return (a.cols == 1 && b.rows == 1 && a.rows == b.cols && a.rows > 1) ||
           (a.rows == 1 && b.cols == 1 && a.cols == b.rows && a.cols > 1);
}

// Warns about operations on all pairs. All pairs are common in sums and products, but often a
// mistake in comparisons and in means of differences.
static enum mmul_status warn_of_pairs(struct mmul_evaluator *e, const struct mmul_node *at,
                                      const char *operation, const struct mmul_argument *operands,
                                      struct mmul_object *result) {
    char left[160], right[160];
    if (!are_column_and_row(&operands[0].object, &operands[1].object))
        return MMUL_OK;
    result->are_pairs |= strcmp(operation, "subtract") == 0;
    if (strcmp(verb_of(operation), "compare") != 0 || strcmp(operation, "maximum") == 0 ||
        strcmp(operation, "minimum") == 0)
        return MMUL_OK;
    return mmul_evaluator_warn(e, at, "compares all pairs of %s and %s",
                               describe(e, &operands[0], left), describe(e, &operands[1], right));
}

enum mmul_status mmul_apply_elements(struct mmul_evaluator *e, const struct mmul_node *at,
                                     const char *operation, const struct mmul_argument *operands,
                                     int count, struct mmul_object *result) {
    struct mmul_object objects[MMUL_OPERANDS] = {{0}};
    int64_t so_far[MMUL_AXES_MOST] = {1, 1, 1, 1}, sizes[MMUL_AXES_MOST];
    int last = -1; // index of the previous matrix
    int axes = 2;
    for (int i = 0; i < count; i++) {
        objects[i] = operands[i].object;
        if (mmul_object_is_number(&objects[i]))
            continue;
        if (objects[i].kind != MMUL_OBJECT_MATRIX)
            return mmul_evaluator_fail(e, operands[i].node, "%s is neither a matrix nor a number",
                                       mmul_object_name(&objects[i]));
        mmul_object_sizes(&objects[i], sizes);
        axes = objects[i].axes > axes ? objects[i].axes : axes;
        for (int s = 0; s < MMUL_AXES_MOST; s++) {
            char left[160], right[160];
            if (sizes[s] == so_far[s] || sizes[s] == 1 || so_far[s] == 1) {
                so_far[s] = sizes[s] == 1 ? so_far[s] : sizes[s];
                continue;
            }
            mmul_evaluator_fail(e, at, "cannot %s %s and %s: sizes %lld and %lld of axis %d differ",
                                verb_of(operation), describe(e, &operands[last], left),
                                describe(e, &operands[i], right), (long long)so_far[s],
                                (long long)sizes[s], s - MMUL_AXES_MOST);
            mmul_hint(e->err, "sizes of 1 are broadcast");
            return MMUL_ERR_DATA;
        }
        last = i;
    }
    struct mmul_call call = {.operation = operation, .operand_count = count};
    result->axes = axes;
    enum mmul_status status = mmul_apply_operation(e, at, &call, objects, result);
    for (int i = 0; status == MMUL_OK && i < count; i++)
        result->are_pairs |= objects[i].kind == MMUL_OBJECT_MATRIX && objects[i].are_pairs;
    const bool are_two = count == 2 && objects[0].kind == objects[1].kind;
    return status == MMUL_OK && are_two ? warn_of_pairs(e, at, operation, operands, result)
                                        : status;
}

enum mmul_status mmul_apply_operator(struct mmul_evaluator *e, const struct mmul_node *node,
                                     const struct mmul_argument operands[2],
                                     struct mmul_object *result) {
    static const char *const operations[][2] = {
        {"+", "add"},           {"-", "subtract"},  {"*", "multiply"}, {"/", "divide"},
        {"//", "floor_divide"}, {"%", "remainder"}, {"**", "power"},   {"==", "equal"},
        {"!=", "not_equal"},    {"<", "less"},      {">", "greater"},  {"<=", "less_equal"},
        {">=", "greater_equal"}};
    if (strcmp(node->text, "@") == 0)
        return mmul_apply_matmul(e, node, operands, result);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(operations[i][0], node->text) == 0)
            return mmul_apply_elements(e, node, operations[i][1], operands, 2, result);
    return mmul_evaluator_fail(e, node, "'%s' cannot be applied to matrices", node->text);
}
