// SPDX-License-Identifier: MIT
// Losses, the functions they are made of, and grad for a matrix or nested tuples of matrices. The
// engine computes the gradients; this file only keeps the structure of the tuples.
#include "base/memory.h"
#include "base/status.h"
#include "tensor/builtins.h"
#include "tensor/jobs.h"

// Adds an axis. One-axis indices give one row each.
enum mmul_status mmul_builtin_one_hot(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                      const struct mmul_node *call,
                                      const struct mmul_argument *arguments,
                                      struct mmul_object *result) {
    struct mmul_call made = {.operation = builtin->operation, .operand_count = 1};
    const struct mmul_object *ids = &arguments[0].object;
    enum mmul_status status = mmul_argument_check_matrix(e, &arguments[0], "ids");
    if (status == MMUL_OK)
        status = mmul_argument_get_integer(e, &arguments[1], "v", &made.with.count);
    if (status == MMUL_OK)
        status = mmul_argument_check_ids(e, &arguments[0]);
    result->axes = ids->is_row ? 2 : ids->axes + 1;
    return status == MMUL_OK ? mmul_apply_operation(e, call, &made, ids, result) : status;
}

enum mmul_status mmul_builtin_add_at(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                     const struct mmul_node *call,
                                     const struct mmul_argument *arguments,
                                     struct mmul_object *result) {
    static const char *const names[] = {"table", "ids", "rows"};
    struct mmul_call made = {.operation = builtin->operation, .operand_count = 3};
    struct mmul_object matrices[3];
    enum mmul_status status = mmul_argument_get_matrices(e, arguments, names, 3, matrices);
    result->axes = 2;
    return status == MMUL_OK ? mmul_apply_operation(e, call, &made, matrices, result) : status;
}

// Computes one number from two matrices.
enum mmul_status mmul_builtin_loss(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                   const struct mmul_node *call,
                                   const struct mmul_argument *arguments,
                                   struct mmul_object *result) {
    static const char *const names[] = {"the first", "the second"};
    struct mmul_call made = {.operation = builtin->operation, .operand_count = 2};
    struct mmul_object matrices[2];
    enum mmul_status status = mmul_argument_get_matrices(e, arguments, names, 2, matrices);
    result->axes = 2;
    return status == MMUL_OK ? mmul_apply_operation(e, call, &made, matrices, result) : status;
}

enum mmul_status mmul_builtin_dropout(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                      const struct mmul_node *call,
                                      const struct mmul_argument *arguments,
                                      struct mmul_object *result) {
    struct mmul_call made = {.operation = builtin->operation, .operand_count = 4};
    struct mmul_object operands[4] = {arguments[0].object};
    double p = 0;
    enum mmul_status status = mmul_argument_check_matrix(e, &arguments[0], "x");
    if (status == MMUL_OK)
        status = mmul_argument_get_real(e, &arguments[1], "p", 0, &p);
    operands[1] = mmul_object_from_real(p);
    for (int i = 2; i < 4 && status == MMUL_OK; i++) {
        int64_t number = 0;
        status = mmul_argument_get_integer(e, &arguments[i], i == 2 ? "seed" : "turn", &number);
        operands[i] = mmul_object_from_integer(number);
    }
    result->axes = operands[0].axes;
    return status == MMUL_OK ? mmul_apply_operation(e, call, &made, operands, result) : status;
}

// -------------------------------------------------------------------------------------- gradients

// Stores the values of the matrices in nested tuples, in order. Returns the place after them.
static int *list_values(struct mmul_evaluator *e, const struct mmul_object *x, int *values) {
    if (x->kind == MMUL_OBJECT_MATRIX)
        *values++ = mmul_job_value(e, NULL, x);
    for (int i = 0; x->kind == MMUL_OBJECT_TUPLE && i < x->count; i++)
        values = list_values(e, &x->items[i], values);
    return values;
}

// Returns the first object that is no matrix; NULL if there is none.
static const struct mmul_object *find_non_matrix(const struct mmul_object *x) {
    const struct mmul_object *other = NULL;
    if (x->kind != MMUL_OBJECT_TUPLE)
        return x->kind == MMUL_OBJECT_MATRIX ? NULL : x;
    for (int i = 0; i < x->count && other == NULL; i++)
        other = find_non_matrix(&x->items[i]);
    return other;
}

// Builds a tuple shaped like x from the next of `values`.
static enum mmul_status rebuild_structure(struct mmul_evaluator *e, const struct mmul_object *x,
                                          const int **values, struct mmul_object *made) {
    struct mmul_object items[MMUL_TUPLE_MOST];
    if (x->kind == MMUL_OBJECT_MATRIX) {
        *made = mmul_matrix_object(e, *(*values)++, x->axes);
        made->is_row = x->is_row;
        return MMUL_OK;
    }
    for (int i = 0; i < x->count; i++)
        if (rebuild_structure(e, &x->items[i], values, &items[i]) != MMUL_OK)
            return e->err->status;
    return mmul_evaluator_tuple(e, items, x->count, made);
}

enum mmul_status mmul_builtin_grad(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                   const struct mmul_node *call,
                                   const struct mmul_argument *arguments,
                                   struct mmul_object *result) {
    const struct mmul_object *x = &arguments[1].object, *other = find_non_matrix(x);
    const int count = mmul_object_count_matrices(x);
    char origin[96];
    int *values = NULL;
    (void)builtin;
    if (mmul_argument_check_matrix(e, &arguments[0], "y") != MMUL_OK)
        return e->err->status;
    if (other != NULL || count == 0)
        return mmul_evaluator_fail(
            e, arguments[1].node, "grad: x must be a matrix or nested tuples of matrices, found %s",
            other != NULL ? mmul_object_name(other) : "an empty tuple");
    values = mmul_arena_allocate(e->arena, 2 * (size_t)count * sizeof *values, e->err);
    if (values == NULL)
        return e->err->status;
    int *const made = list_values(e, x, values);
    const int *gradients = made;
    const struct mmul_gradient_request request = {
        .y = mmul_job_value(e, call, &arguments[0].object),
        .xs = values,
        .count = count,
        .origin = mmul_source_place(e->source, call->at, origin)};
    const bool is_of_before = arguments[0].object.job != e->job;
    char y[48];
    if (mmul_program_gradients(e->program, &request, made, e->err) != MMUL_OK) {
        if (is_of_before) { // the values of an earlier program have no names here
            mmul_fail(e->err, MMUL_ERR_DATA, "'%s' has no gradient here: it was computed before",
                      mmul_source_quote(e->source, arguments[0].node->at, y));
            mmul_hint(e->err,
                      "compute a gradient in the same turn as its y, before any 'if' on a number "
                      "that is computed");
        }
        return mmul_evaluator_locate(e, call);
    }
    return rebuild_structure(e, x, &gradients, result);
}
