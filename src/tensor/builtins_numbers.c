// SPDX-License-Identifier: MIT
// Python's functions for numbers known during evaluation: max, min, round, int, float. For
// matrices, max and min are reductions (builtins_rows.c).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tensor/builtins.h"

// ------------------------------------------------------------------------------- largest, smallest

// Lists the numbers of max(3, 4) or of a tuple. Returns false for a matrix or a named argument, as
// axis=0.
static bool list_numbers(const struct mmul_node *call, const struct mmul_argument *arguments,
                         struct mmul_object numbers[static MMUL_TUPLE_MOST], int *count) {
    const struct mmul_object *x = &arguments[0].object;
    if (x->kind == MMUL_OBJECT_MATRIX || call->last->kind == MMUL_NODE_KEYWORD)
        return false;
    const bool is_tuple = x->kind == MMUL_OBJECT_TUPLE && arguments[1].node == NULL;
    *count = is_tuple ? x->count : 0;
    if (is_tuple && x->count > 0)
        memcpy(numbers, x->items, (size_t)x->count * sizeof *numbers);
    while (!is_tuple && *count < MMUL_ARGUMENTS_MOST && arguments[*count].node != NULL) {
        numbers[*count] = arguments[*count].object;
        ++*count;
    }
    return true;
}

// Returns the first extreme element, as Python does.
static enum mmul_status choose_extreme(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                       const struct mmul_node *call,
                                       const struct mmul_object *numbers, int count,
                                       struct mmul_object *result) {
    const char *symbol = builtin->name[1] == 'a' ? ">" : "<";
    if (count == 0)
        return mmul_evaluator_fail(e, call, "%s of an empty tuple", builtin->name);
    for (int i = 0; i < count; i++) {
        struct mmul_object is_beyond = mmul_object_from_integer(1);
        if (!mmul_object_is_number(&numbers[i])) {
            mmul_evaluator_fail(e, call, "%s of several values needs numbers, found %s",
                                builtin->name, mmul_object_name(&numbers[i]));
            if (numbers[i].kind == MMUL_OBJECT_MATRIX)
                mmul_hint(e->err, "%simum(x, y) works element by element", builtin->name);
            return MMUL_ERR_DATA;
        }
        if (i > 0)
            mmul_number_calculate(symbol, &numbers[i], result, &is_beyond);
        if (is_beyond.integer != 0)
            *result = numbers[i];
    }
    return MMUL_OK;
}

enum mmul_status mmul_builtin_extreme(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                      const struct mmul_node *call,
                                      const struct mmul_argument *arguments,
                                      struct mmul_object *result) {
    struct mmul_object numbers[MMUL_TUPLE_MOST];
    int count = 0;
    if (list_numbers(call, arguments, numbers, &count))
        return choose_extreme(e, builtin, call, numbers, count, result);
    if (arguments[3].node == NULL)
        return mmul_builtin_reduce(e, builtin, call, arguments, result);
    mmul_evaluator_fail(e, arguments[3].node, "%s of a matrix takes at most 3 arguments",
                        builtin->name);
    mmul_hint(e->err, "%s(x, axis=None, keepdims=True)", builtin->name);
    return MMUL_ERR_DATA;
}

// ------------------------------------------------------------------------------------- conversions

static enum mmul_status fail_kind(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                  const struct mmul_argument *argument) {
    mmul_evaluator_fail(e, argument->node, "%s needs a number, found %s", builtin->name,
                        mmul_object_name(&argument->object));
    if (argument->object.kind == MMUL_OBJECT_MATRIX)
        mmul_hint(e->err, "x // 1 rounds down; print(f\"{x:.3f}\") prints an element rounded");
    return MMUL_ERR_DATA;
}

static enum mmul_status make_whole(struct mmul_evaluator *e, const struct mmul_node *call, double x,
                                   struct mmul_object *result) {
    if (!(fabs(x) < 0x1p63))
        return mmul_evaluator_fail(e, call, "%.6g exceeds the range of 64-bit integers", fabs(x));
    *result = mmul_object_from_integer((int64_t)x);
    return MMUL_OK;
}

// Rounds halves to even; with digits, to the decimal number nearest to x. Works elementwise on a
// matrix.
enum mmul_status mmul_builtin_round(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                    const struct mmul_node *call,
                                    const struct mmul_argument *arguments,
                                    struct mmul_object *result) {
    // Rounding to more decimal places leaves a double unchanged.
    enum { DIGITS_MOST = 323 };
    const struct mmul_object *x = &arguments[0].object;
    const bool has_digits = arguments[1].object.kind != MMUL_OBJECT_NONE;
    char text[DIGITS_MOST + 320];
    int64_t digits = 0;
    if (x->kind == MMUL_OBJECT_MATRIX && !has_digits)
        return mmul_builtin_unary(e, builtin, call, arguments, result);
    if (!mmul_object_is_number(x))
        return fail_kind(e, builtin, &arguments[0]);
    if (has_digits && mmul_argument_get_integer(e, &arguments[1], "ndigits", &digits) != MMUL_OK)
        return e->err->status;
    if (digits < 0)
        return mmul_evaluator_fail(e, arguments[1].node, "ndigits must be at least 0");
    if (mmul_object_is_integer(x)) {
        *result = mmul_object_from_integer(x->integer);
        return MMUL_OK;
    }
    if (!has_digits)
        return make_whole(e, call, nearbyint(x->real), result);
    *result = *x;
    if (!isfinite(x->real) || digits > DIGITS_MOST)
        return MMUL_OK;
    snprintf(text, sizeof text, "%.*f", (int)digits, x->real);
    result->real = strtod(text, NULL);
    return MMUL_OK;
}

enum mmul_status mmul_builtin_int(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                  const struct mmul_node *call,
                                  const struct mmul_argument *arguments,
                                  struct mmul_object *result) {
    const struct mmul_object *x = &arguments[0].object;
    if (!mmul_object_is_number(x))
        return fail_kind(e, builtin, &arguments[0]);
    *result = mmul_object_from_integer(x->integer);
    return mmul_object_is_integer(x) ? MMUL_OK : make_whole(e, call, trunc(x->real), result);
}

// Accepts "inf", "-inf" and "nan", which have no literal. A one-element matrix stays as it is.
enum mmul_status mmul_builtin_float(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                    const struct mmul_node *call,
                                    const struct mmul_argument *arguments,
                                    struct mmul_object *result) {
    const struct mmul_object *x = &arguments[0].object;
    (void)call;
    if (mmul_object_is_one_element(x)) {
        *result = *x;
        return MMUL_OK;
    }
    if (mmul_object_is_number(x)) {
        *result = mmul_object_from_real(mmul_object_number(x));
        return MMUL_OK;
    }
    if (x->kind != MMUL_OBJECT_STRING)
        return fail_kind(e, builtin, &arguments[0]);
    char *end = NULL;
    *result = mmul_object_from_real(strtod(x->text, &end));
    const bool is_number = *end == '\0' && *x->text != '\0' && strpbrk(x->text, "xX(") == NULL;
    return is_number ? MMUL_OK
                     : mmul_evaluator_fail(e, arguments[0].node, "'%s' is no number", x->text);
}
