// SPDX-License-Identifier: MIT
// Functions on elements and rows, reductions, attention and linear. Plain numbers give plain
// numbers.
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "tensor/builtins.h"

// -------------------------------------------------------------------------------------- elements

enum mmul_status mmul_builtin_unary(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                    const struct mmul_node *call,
                                    const struct mmul_argument *arguments,
                                    struct mmul_object *result) {
    const struct mmul_object *x = &arguments[0].object;
    if (!mmul_object_is_number(x))
        return mmul_apply_elements(e, call, builtin->operation, arguments, 1, result);
    const double y = mmul_elements_compute(builtin->operation, mmul_object_number(x));
    const bool is_truth = strcmp(builtin->name, "isnan") == 0;
    *result = is_truth ? mmul_object_from_bool(y != 0) : mmul_object_from_real(y);
    bool stays_whole = strcmp(builtin->name, "abs") == 0 || strcmp(builtin->name, "neg") == 0 ||
                       strcmp(builtin->name, "relu") == 0 || strcmp(builtin->name, "sign") == 0;
    if (stays_whole && mmul_object_is_integer(x) && x->integer > -(INT64_C(1) << 53) &&
        x->integer < INT64_C(1) << 53)
        *result = mmul_object_from_integer((int64_t)y);
    return MMUL_OK;
}

enum mmul_status mmul_builtin_gelu(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                   const struct mmul_node *call,
                                   const struct mmul_argument *arguments,
                                   struct mmul_object *result) {
    static const char *const words[] = {"none", "tanh", NULL};
    const struct mmul_object *x = &arguments[0].object;
    int choice = 0;
    enum mmul_status status =
        mmul_argument_get_choice(e, &arguments[1], "approximate", words, &choice);
    if (status != MMUL_OK)
        return status;
    const char *operation = choice == 0 ? builtin->operation : "gelu_tanh";
    if (!mmul_object_is_number(x))
        return mmul_apply_elements(e, call, operation, arguments, 1, result);
    *result = mmul_object_from_real(mmul_elements_compute(operation, mmul_object_number(x)));
    return MMUL_OK;
}

enum mmul_status mmul_builtin_binary(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                     const struct mmul_node *call,
                                     const struct mmul_argument *arguments,
                                     struct mmul_object *result) {
    const struct mmul_object *x = &arguments[0].object, *y = &arguments[1].object;
    if (!mmul_object_is_number(x) || !mmul_object_is_number(y))
        return mmul_apply_elements(e, call, builtin->operation, arguments, 2, result);
    bool larger = strcmp(builtin->name, "maximum") == 0;
    struct mmul_object is_larger;
    mmul_number_calculate(">", x, y, &is_larger);
    *result = (is_larger.integer != 0) == larger ? *x : *y;
    return MMUL_OK;
}

enum mmul_status mmul_builtin_where(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                    const struct mmul_node *call,
                                    const struct mmul_argument *arguments,
                                    struct mmul_object *result) {
    bool numbers = true;
    for (int i = 0; i < 3; i++)
        numbers &= mmul_object_is_number(&arguments[i].object);
    if (!numbers)
        return mmul_apply_elements(e, call, builtin->operation, arguments, 3, result);
    *result = arguments[mmul_object_number(&arguments[0].object) != 0 ? 1 : 2].object;
    return MMUL_OK;
}

// Reads a bound; None means no bound.
static enum mmul_status read_bound(struct mmul_evaluator *e, const struct mmul_argument *argument,
                                   const char *what, double otherwise, struct mmul_object *bound) {
    double number = otherwise;
    if (argument->object.kind == MMUL_OBJECT_MATRIX) {
        mmul_evaluator_fail(e, argument->node, "clip: %s is a matrix, expected a number or None",
                            what);
        mmul_hint(e->err, "minimum(maximum(x, low), high) also accepts matrices");
        return MMUL_ERR_DATA;
    }
    enum mmul_status status = mmul_argument_get_real(e, argument, what, otherwise, &number);
    *bound =
        mmul_object_is_number(&argument->object) ? argument->object : mmul_object_from_real(number);
    return status;
}

enum mmul_status mmul_builtin_clip(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                   const struct mmul_node *call,
                                   const struct mmul_argument *arguments,
                                   struct mmul_object *result) {
    struct mmul_call clip = {.operation = builtin->operation, .operand_count = 3};
    struct mmul_object operands[3] = {arguments[0].object}, is_beyond;
    enum mmul_status status = read_bound(e, &arguments[1], "low", -INFINITY, &operands[1]);
    if (status == MMUL_OK)
        status = read_bound(e, &arguments[2], "high", INFINITY, &operands[2]);
    if (status == MMUL_OK && !mmul_object_is_number(&operands[0]))
        status = mmul_argument_check_matrix(e, &arguments[0], "x");
    result->axes = operands[0].axes;
    if (status != MMUL_OK || !mmul_object_is_number(&operands[0]))
        return status == MMUL_OK ? mmul_apply_operation(e, call, &clip, operands, result) : status;
    *result = operands[0];
    for (int i = 1; i < 3; i++) {
        mmul_number_calculate(i == 1 ? "<" : ">", result, &operands[i], &is_beyond);
        *result = is_beyond.integer != 0 ? operands[i] : *result;
    }
    return MMUL_OK;
}

// ------------------------------------------------------------------------------------------ rows

static enum mmul_status apply_rows(struct mmul_evaluator *e, const struct mmul_node *at,
                                   struct mmul_call *call, const struct mmul_argument *arguments,
                                   struct mmul_object *result) {
    static const char *const names[] = {"x", "w", "b"};
    struct mmul_object operands[MMUL_OPERANDS] = {{0}};
    if (mmul_argument_get_matrices(e, arguments, names, call->operand_count, operands) != MMUL_OK)
        return e->err->status;
    result->axes = operands[0].axes;
    return mmul_apply_operation(e, at, call, operands, result);
}

enum mmul_status mmul_builtin_row(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                  const struct mmul_node *call,
                                  const struct mmul_argument *arguments,
                                  struct mmul_object *result) {
    struct mmul_call row = {.operation = builtin->operation, .operand_count = 1};
    return apply_rows(e, call, &row, arguments, result);
}

enum mmul_status mmul_argument_get_axis_of(struct mmul_evaluator *e,
                                           const struct mmul_builtin *builtin,
                                           const struct mmul_argument *argument,
                                           const struct mmul_object *x, int *axis) {
    enum mmul_status status = mmul_argument_get_axis(e, argument, x->axes, axis);
    if (status != MMUL_OK || !x->is_row || mmul_object_number(&argument->object) < 0)
        return status;
    mmul_evaluator_fail(e, argument->node,
                        "%s along axis %d of a one-axis array, which is stored as a row (1 x %lld)",
                        builtin->name, *axis, (long long)x->shape.cols);
    mmul_hint(e->err, "axis=-1 runs along its elements");
    return MMUL_ERR_DATA;
}

enum mmul_status mmul_argument_get_axes_of(struct mmul_evaluator *e,
                                           const struct mmul_builtin *builtin,
                                           const struct mmul_argument *argument,
                                           const struct mmul_object *x,
                                           bool is_given[static MMUL_AXES_MOST]) {
    const struct mmul_object *axes = &argument->object;
    const bool is_tuple = axes->kind == MMUL_OBJECT_TUPLE;
    if (is_tuple && axes->count == 0)
        return mmul_evaluator_fail(e, argument->node, "axis is an empty tuple, expected an axis");
    for (int i = 0; i < (is_tuple ? axes->count : 1); i++) {
        const struct mmul_argument one = {.node = argument->node,
                                          .object = is_tuple ? axes->items[i] : *axes};
        int axis = 0;
        if (mmul_argument_get_axis_of(e, builtin, &one, x, &axis) != MMUL_OK)
            return e->err->status;
        bool *given = &is_given[MMUL_AXES_MOST - x->axes + axis];
        if (*given)
            return mmul_evaluator_fail(e, argument->node, "axis %d is given twice", axis);
        *given = true;
    }
    return MMUL_OK;
}

enum mmul_status mmul_builtin_softmax(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                      const struct mmul_node *call,
                                      const struct mmul_argument *arguments,
                                      struct mmul_object *result) {
    struct mmul_call row = {.operation = builtin->operation, .operand_count = 1};
    const struct mmul_object *x = &arguments[0].object;
    int axis = x->axes - 1;
    enum mmul_status status = mmul_argument_get_bool(e, &arguments[1], "causal", &row.with.causal);
    if (status == MMUL_OK)
        status = mmul_argument_check_matrix(e, &arguments[0], "x");
    if (status == MMUL_OK && arguments[2].node != NULL)
        status = mmul_argument_get_axis_of(e, builtin, &arguments[2], x, &axis);
    row.with.axis = axis - x->axes;
    return status == MMUL_OK ? apply_rows(e, call, &row, arguments, result) : status;
}

enum mmul_status mmul_builtin_sort(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                   const struct mmul_node *call,
                                   const struct mmul_argument *arguments,
                                   struct mmul_object *result) {
    struct mmul_call row = {.operation = builtin->operation, .operand_count = 1};
    const struct mmul_object *x = &arguments[0].object;
    int axis = x->axes - 1;
    enum mmul_status status =
        mmul_argument_get_bool(e, &arguments[2], "descending", &row.with.descending);
    if (status == MMUL_OK)
        status = mmul_argument_check_matrix(e, &arguments[0], "x");
    if (status == MMUL_OK && arguments[1].node != NULL)
        status = mmul_argument_get_axis_of(e, builtin, &arguments[1], x, &axis);
    row.with.axis = axis - x->axes;
    return status == MMUL_OK ? apply_rows(e, call, &row, arguments, result) : status;
}

// w and b may be None; the scale or the shift is then omitted.
enum mmul_status mmul_builtin_norm(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                   const struct mmul_node *call,
                                   const struct mmul_argument *arguments,
                                   struct mmul_object *result) {
    bool is_layer = strcmp(builtin->name, "layer_norm") == 0;
    const int vectors = is_layer ? 2 : 1;
    struct mmul_call row = {.operation = builtin->operation, .operand_count = 1};
    while (row.operand_count <= vectors &&
           arguments[row.operand_count].object.kind != MMUL_OBJECT_NONE)
        row.operand_count++;
    enum mmul_status status = mmul_argument_get_real(e, &arguments[1 + vectors], "eps",
                                                     is_layer ? 1e-5 : 1e-6, &row.with.epsilon);
    if (status == MMUL_OK && is_layer && row.operand_count == 1 &&
        arguments[2].object.kind != MMUL_OBJECT_NONE)
        return mmul_evaluator_fail(e, arguments[2].node, "layer_norm takes b only together with w");
    return status == MMUL_OK ? apply_rows(e, call, &row, arguments, result) : status;
}

// The engine returns values and indices side by side; the language returns a tuple of both.
enum mmul_status mmul_builtin_topk(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                   const struct mmul_node *call,
                                   const struct mmul_argument *arguments,
                                   struct mmul_object *result) {
    struct mmul_call row = {.operation = builtin->operation, .operand_count = 1};
    struct mmul_object both, halves[2];
    enum mmul_status status = mmul_argument_get_integer(e, &arguments[1], "k", &row.with.count);
    if (status == MMUL_OK)
        status = apply_rows(e, call, &row, arguments, &both);
    for (int i = 0; status == MMUL_OK && i < 2; i++) {
        struct mmul_call half = {.operation = "slice", .operand_count = 1};
        mmul_object_sizes(&both, half.with.end);
        half.with.begin[3] = i * row.with.count;
        half.with.end[3] = (i + 1) * row.with.count;
        halves[i].axes = both.axes;
        status = mmul_apply_operation(e, call, &half, &both, &halves[i]);
    }
    return status == MMUL_OK ? mmul_evaluator_tuple(e, halves, 2, result) : status;
}

enum mmul_status mmul_builtin_rope(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                   const struct mmul_node *call,
                                   const struct mmul_argument *arguments,
                                   struct mmul_object *result) {
    struct mmul_call row = {.operation = builtin->operation, .operand_count = 1};
    enum mmul_status status =
        mmul_argument_get_real(e, &arguments[1], "base", 10000, &row.with.base);
    if (status == MMUL_OK)
        status = mmul_argument_get_bool(e, &arguments[2], "interleaved", &row.with.interleaved);
    if (status == MMUL_OK && !(row.with.base > 0))
        return mmul_evaluator_fail(e, arguments[1].node, "base must be above 0");
    return status == MMUL_OK ? apply_rows(e, call, &row, arguments, result) : status;
}

// ------------------------------------------------------------------------------------ reductions

enum mmul_status mmul_reduce(struct mmul_evaluator *e, const struct mmul_node *at,
                             const char *operation, int axis, const struct mmul_object *x,
                             struct mmul_object *result) {
    struct mmul_call call = {.operation = operation, .operand_count = 1, .with = {.axis = axis}};
    result->axes = x->axes;
    return mmul_apply_operation(e, at, &call, x, result);
}

enum mmul_status mmul_builtin_reduce(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                     const struct mmul_node *call,
                                     const struct mmul_argument *arguments,
                                     struct mmul_object *result) {
    const struct mmul_object *x = &arguments[0].object;
    bool all = arguments[1].node == NULL || arguments[1].object.kind == MMUL_OBJECT_NONE;
    bool stays = true, is_reduced[MMUL_AXES_MOST] = {all, all, all, all};
    struct mmul_call made = {.operation = builtin->operation, .operand_count = 1};
    int count = 0;
    enum mmul_status status = mmul_argument_check_matrix(e, &arguments[0], "x");
    if (status == MMUL_OK && !all)
        status = mmul_argument_get_axes_of(e, builtin, &arguments[1], x, is_reduced);
    if (status == MMUL_OK && arguments[2].node != NULL)
        status = mmul_argument_get_bool(e, &arguments[2], "keepdims", &stays);
    for (int i = 0; i < MMUL_AXES_MOST; i++)
        count += is_reduced[i];
    all = all || count == x->axes;
    for (int i = 0; i < MMUL_AXES_MOST && !all; i++) {
        made.with.axes[i] = count > 1 && is_reduced[i];
        made.with.axis = count == 1 && is_reduced[i] ? i - MMUL_AXES_MOST : made.with.axis;
    }
    result->axes = x->axes;
    if (status == MMUL_OK)
        status = mmul_apply_operation(e, call, &made, x, result);
    const bool is_sum = strcmp(builtin->name, "mean") == 0 || strcmp(builtin->name, "sum") == 0;
    if (status == MMUL_OK && x->are_pairs && all && is_sum)
        status = mmul_evaluator_warn(
            e, call, "%s covers the differences of all pairs of %lld x 1 and 1 x %lld",
            builtin->name, (long long)x->shape.rows, (long long)x->shape.rows);
    if (status != MMUL_OK || stays)
        return status;
    const struct mmul_object reduced = *result;
    return mmul_drop_axes(e, call, &reduced, is_reduced, result);
}

enum mmul_status mmul_builtin_cumsum(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                     const struct mmul_node *call,
                                     const struct mmul_argument *arguments,
                                     struct mmul_object *result) {
    const struct mmul_object *x = &arguments[0].object;
    int axis = 0;
    enum mmul_status status = mmul_argument_check_matrix(e, &arguments[0], "x");
    if (status == MMUL_OK)
        status = mmul_argument_get_axis(e, &arguments[1], x->axes, &axis);
    return status == MMUL_OK ? mmul_reduce(e, call, builtin->operation, axis - x->axes, x, result)
                             : status;
}

// ----------------------------------------------------------------------------- several operations

enum mmul_status mmul_builtin_attention(struct mmul_evaluator *e,
                                        const struct mmul_builtin *builtin,
                                        const struct mmul_node *call,
                                        const struct mmul_argument *arguments,
                                        struct mmul_object *result) {
    static const char *const names[] = {"q", "k", "v", "mask"};
    static const int places[] = {0, 1, 2, 4};
    struct mmul_object operands[MMUL_OPERANDS] = {{0}};
    struct mmul_call made = {.operation = builtin->operation, .operand_count = 3};
    enum mmul_status status = mmul_argument_get_bool(e, &arguments[3], "causal", &made.with.causal);
    made.operand_count += arguments[4].object.kind != MMUL_OBJECT_NONE;
    for (int i = 0; status == MMUL_OK && i < made.operand_count; i++) {
        status = mmul_argument_check_matrix(e, &arguments[places[i]], names[i]);
        operands[i] = arguments[places[i]].object;
    }
    if (status == MMUL_OK)
        status = mmul_argument_get_real(e, &arguments[5], "scale",
                                        1 / sqrt((double)operands[0].shape.cols), &made.with.scale);
    result->axes = status == MMUL_OK ? operands[0].axes : 0;
    return status == MMUL_OK ? mmul_apply_operation(e, call, &made, operands, result) : status;
}

// x @ w.T + b
enum mmul_status mmul_builtin_linear(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                     const struct mmul_node *call,
                                     const struct mmul_argument *arguments,
                                     struct mmul_object *result) {
    const struct mmul_object *x = &arguments[0].object, *w = &arguments[1].object;
    struct mmul_argument factors[2] = {arguments[0], arguments[1]};
    struct mmul_call turn = {.operation = "transpose", .operand_count = 1};
    char left[96], right[96];
    enum mmul_status status = mmul_argument_check_matrix(e, &arguments[0], "x");
    if (status == MMUL_OK)
        status = mmul_argument_check_matrix(e, &arguments[1], "w");
    if (status != MMUL_OK)
        return status;
    if (x->shape.cols != w->shape.cols)
        return mmul_evaluator_fail(
            e, call, "%s: x (%s) and w (%s) have rows of %lld and %lld elements", builtin->name,
            mmul_object_shape(x, left), mmul_object_shape(w, right), (long long)x->shape.cols,
            (long long)w->shape.cols);
    factors[1].object.axes = w->axes;
    status = mmul_apply_operation(e, arguments[1].node, &turn, w, &factors[1].object);
    if (status == MMUL_OK)
        status = mmul_apply_matmul(e, call, factors, result);
    if (status != MMUL_OK || arguments[2].object.kind == MMUL_OBJECT_NONE)
        return status;
    const struct mmul_argument summands[2] = {{.node = call, .object = *result}, arguments[2]};
    return mmul_apply_elements(e, call, "add", summands, 2, result);
}
