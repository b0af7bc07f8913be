// SPDX-License-Identifier: MIT
// Functions known from numpy: argmax, flip, stack, split, tile, repeat, diagonals and einsum. Axes
// are numpy's; an array with one axis is a row (1, n) here.
#include <string.h>

#include "base/status.h"
#include "model/composite_functions.h"
#include "tensor/builtins.h"

// ----------------------------------------------------------------------------- indices, whole axes

// The reduced axis stays with size 1, unless keepdims=False.
enum mmul_status mmul_builtin_argmax(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                     const struct mmul_node *call,
                                     const struct mmul_argument *arguments,
                                     struct mmul_object *result) {
    struct mmul_call made = {.operation = builtin->operation, .operand_count = 1};
    const struct mmul_object *x = &arguments[0].object;
    bool stays = true, is_dropped[MMUL_AXES_MOST] = {false};
    int axis = x->axes - 1;
    enum mmul_status status = mmul_argument_check_matrix(e, &arguments[0], "x");
    if (status == MMUL_OK && arguments[1].node != NULL)
        status = mmul_argument_get_axis_of(e, builtin, &arguments[1], x, &axis);
    if (status == MMUL_OK && arguments[2].node != NULL)
        status = mmul_argument_get_bool(e, &arguments[2], "keepdims", &stays);
    if (status != MMUL_OK)
        return status;
    made.with.axis = axis - x->axes;
    struct mmul_object places = {.axes = x->axes};
    status = mmul_apply_operation(e, call, &made, x, &places);
    is_dropped[MMUL_AXES_MOST - x->axes + axis] = !stays;
    if (status != MMUL_OK || !stays)
        return status == MMUL_OK ? mmul_drop_axes(e, call, &places, is_dropped, result) : status;
    *result = places;
    return MMUL_OK;
}

static void reverse_axis(struct mmul_parameters *with, int axis) {
    with->begin[axis] = with->end[axis] - 1;
    with->end[axis] = with->step[axis] = -1;
}

// Reverses all axes, one axis, or those of a tuple.
enum mmul_status mmul_builtin_flip(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                   const struct mmul_node *call,
                                   const struct mmul_argument *arguments,
                                   struct mmul_object *result) {
    struct mmul_call made = {.operation = "slice", .operand_count = 1};
    const struct mmul_object *x = &arguments[0].object, *axes = &arguments[1].object;
    const bool all = axes->kind == MMUL_OBJECT_NONE;
    bool is_given[MMUL_AXES_MOST] = {false};
    enum mmul_status status = mmul_argument_check_matrix(e, &arguments[0], "x");
    if (status == MMUL_OK && !all)
        status = mmul_argument_get_axes_of(e, builtin, &arguments[1], x, is_given);
    if (status != MMUL_OK)
        return status;
    mmul_object_sizes(x, made.with.end);
    for (int i = MMUL_AXES_MOST - x->axes; i < MMUL_AXES_MOST; i++)
        if (all || is_given[i])
            reverse_axis(&made.with, i);
    result->axes = x->axes;
    return mmul_apply_operation(e, call, &made, x, result);
}

// ----------------------------------------------------------------------------------------- joining

static enum mmul_status check_alike(struct mmul_evaluator *e,
                                    const struct mmul_argument *matrices) {
    const struct mmul_object *all = &matrices->object;
    if (all->kind != MMUL_OBJECT_TUPLE || all->count < 1)
        return mmul_evaluator_fail(e, matrices->node, "stack takes a tuple of matrices: (x, y)");
    for (int i = 0; i < all->count; i++) {
        const struct mmul_object *x = &all->items[i], *first = &all->items[0];
        if (x->kind != MMUL_OBJECT_MATRIX)
            return mmul_evaluator_fail(e, matrices->node, "element %d of the tuple is %s", i,
                                       mmul_object_name(x));
        if (x->axes != first->axes || x->is_row != first->is_row)
            return mmul_evaluator_fail(e, matrices->node, "matrices of %d and of %d axes",
                                       first->is_row ? 1 : first->axes, x->is_row ? 1 : x->axes);
    }
    return MMUL_OK;
}

// Joins along a new axis. One-axis arrays become rows, or columns for axis 1.
enum mmul_status mmul_builtin_stack(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                    const struct mmul_node *call,
                                    const struct mmul_argument *arguments,
                                    struct mmul_object *result) {
    const struct mmul_object *all = &arguments[0].object;
    enum mmul_status status = check_alike(e, &arguments[0]);
    int axis = 0;
    if (status != MMUL_OK)
        return status;
    const struct mmul_object *first = &all->items[0];
    const int axes = first->is_row ? 2 : first->axes + 1;
    if (axes > MMUL_AXES_MOST)
        return mmul_evaluator_fail(e, arguments[0].node, "%s of matrices of %d axes: at most %d",
                                   builtin->name, first->axes, MMUL_AXES_MOST - 1);
    if (arguments[1].node != NULL)
        status = mmul_argument_get_axis(e, &arguments[1], axes, &axis);
    for (int i = 0; status == MMUL_OK && i < all->count; i++) {
        struct mmul_object both[2] = {*result}, next = {.axes = axes};
        struct mmul_call new_axis = {.operation = "reshape", .operand_count = 1},
                         join = {.operation = "concat",
                                 .operand_count = 2,
                                 .with = {.axis = axis - axes}};
        int64_t have[MMUL_AXES_MOST], sizes[MMUL_AXES_MOST] = {1, 1, 1, 1};
        mmul_object_sizes(&all->items[i], have);
        for (int s = 0, from = MMUL_AXES_MOST - axes + 1; s < axes; s++)
            if (s != axis)
                sizes[MMUL_AXES_MOST - axes + s] = have[from++];
        new_axis.with.shape = (struct mmul_shape){sizes[0], sizes[1], sizes[2], sizes[3]};
        both[1].axes = axes;
        status = mmul_apply_operation(e, call, &new_axis, &all->items[i], &both[1]);
        if (status == MMUL_OK && i > 0)
            status = mmul_apply_operation(e, call, &join, both, &next);
        *result = i > 0 ? next : both[1];
    }
    return status;
}

// Computes the bounds of the parts of an axis: either a number of equal parts, or a tuple of split
// positions.
static enum mmul_status read_parts(struct mmul_evaluator *e, const struct mmul_argument *argument,
                                   int64_t size, int64_t bounds[static MMUL_TUPLE_MOST + 1],
                                   int *count) {
    const struct mmul_object *o = &argument->object;
    int64_t parts = 0;
    bounds[0] = 0;
    if (o->kind != MMUL_OBJECT_TUPLE) {
        enum mmul_status status =
            mmul_argument_get_integer(e, argument, "indices_or_sections", &parts);
        if (status == MMUL_OK && (parts < 1 || parts > MMUL_TUPLE_MOST || size % parts != 0))
            return mmul_evaluator_fail(
                e, argument->node,
                "an axis of %lld cannot be divided into %lld equal parts (at most %d)",
                (long long)size, (long long)parts, MMUL_TUPLE_MOST);
        *count = (int)parts;
        for (int i = 1; i <= *count; i++)
            bounds[i] = size / parts * i;
        return status;
    }
    if (o->count >= MMUL_TUPLE_MOST)
        return mmul_evaluator_fail(e, argument->node, "a tuple can have at most %d elements",
                                   MMUL_TUPLE_MOST);
    *count = o->count + 1;
    for (int i = 1; i <= *count; i++) {
        const struct mmul_argument one = {.node = argument->node,
                                          .object = i < *count ? o->items[i - 1]
                                                               : mmul_object_from_integer(size)};
        enum mmul_status status =
            mmul_argument_get_integer(e, &one, "a place to split", &bounds[i]);
        if (status != MMUL_OK)
            return status;
        if (bounds[i] < 0)
            bounds[i] += size;
        if (bounds[i] <= bounds[i - 1] || bounds[i] > size)
            return mmul_evaluator_fail(e, argument->node, "empty part [%lld:%lld] of %lld",
                                       (long long)bounds[i - 1], (long long)bounds[i],
                                       (long long)size);
    }
    return MMUL_OK;
}

// Returns a tuple of slices. A one-axis array is split along that axis.
enum mmul_status mmul_builtin_split(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                    const struct mmul_node *call,
                                    const struct mmul_argument *arguments,
                                    struct mmul_object *result) {
    const struct mmul_object *x = &arguments[0].object;
    int64_t sizes[MMUL_AXES_MOST], bounds[MMUL_TUPLE_MOST + 1];
    struct mmul_object parts[MMUL_TUPLE_MOST];
    int axis = x->is_row ? x->axes - 1 : 0, count = 0;
    enum mmul_status status = mmul_argument_check_matrix(e, &arguments[0], "x");
    if (status == MMUL_OK && arguments[2].node != NULL)
        status = mmul_argument_get_axis_of(e, builtin, &arguments[2], x, &axis);
    if (status != MMUL_OK)
        return status;
    mmul_object_sizes(x, sizes);
    axis += MMUL_AXES_MOST - x->axes;
    status = read_parts(e, &arguments[1], sizes[axis], bounds, &count);
    for (int i = 0; status == MMUL_OK && i < count; i++) {
        struct mmul_call part = {.operation = "slice", .operand_count = 1};
        memcpy(part.with.end, sizes, sizeof part.with.end);
        part.with.begin[axis] = bounds[i];
        part.with.end[axis] = bounds[i + 1];
        parts[i].axes = x->axes;
        status = mmul_apply_operation(e, call, &part, x, &parts[i]);
    }
    return status == MMUL_OK ? mmul_evaluator_tuple(e, parts, count, result) : status;
}

// ----------------------------------------------------------------------------------------- repeats

enum mmul_status mmul_builtin_tile(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                   const struct mmul_node *call,
                                   const struct mmul_argument *arguments,
                                   struct mmul_object *result) {
    struct mmul_call made = {.operation = builtin->operation, .operand_count = 1};
    const struct mmul_object *x = &arguments[0].object;
    int64_t reps[MMUL_AXES_MOST], all[MMUL_AXES_MOST] = {1, 1, 1, 1};
    int count = 0;
    enum mmul_status status = mmul_argument_check_matrix(e, &arguments[0], "x");
    if (status == MMUL_OK)
        status = mmul_argument_get_sizes(e, &arguments[1], "reps", reps, &count);
    for (int i = 0; status == MMUL_OK && i < count; i++) {
        if (reps[i] < 1)
            return mmul_evaluator_fail(e, arguments[1].node, "reps holds %lld: at least 1",
                                       (long long)reps[i]);
        all[MMUL_AXES_MOST - count + i] = reps[i];
    }
    if (status != MMUL_OK)
        return status;
    made.with.shape = (struct mmul_shape){all[0], all[1], all[2], all[3]};
    result->axes = count > x->axes ? count : x->axes;
    status = mmul_apply_operation(e, call, &made, x, result);
    result->is_row = x->is_row && count == 1;
    return status;
}

// Without an axis, all elements are repeated in one row, as in numpy.
enum mmul_status mmul_builtin_repeat(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                     const struct mmul_node *call,
                                     const struct mmul_argument *arguments,
                                     struct mmul_object *result) {
    struct mmul_call made = {
        .operation = builtin->operation, .operand_count = 1, .with = {.axis = -1}};
    struct mmul_object x = arguments[0].object;
    const bool all = arguments[2].object.kind == MMUL_OBJECT_NONE;
    int axis = 0;
    enum mmul_status status = mmul_argument_check_matrix(e, &arguments[0], "x");
    if (status == MMUL_OK)
        status = mmul_argument_get_integer(e, &arguments[1], "repeats", &made.with.count);
    if (status == MMUL_OK && made.with.count < 1)
        return mmul_evaluator_fail(e, arguments[1].node, "repeats is %lld: at least 1",
                                   (long long)made.with.count);
    if (status == MMUL_OK && !all)
        status = mmul_argument_get_axis_of(e, builtin, &arguments[2], &x, &axis);
    if (status == MMUL_OK && all) {
        struct mmul_call row = {.operation = "reshape", .operand_count = 1};
        int64_t sizes[MMUL_AXES_MOST];
        mmul_object_sizes(&x, sizes);
        row.with.shape = (struct mmul_shape){1, 1, 1, sizes[0] * sizes[1] * sizes[2] * sizes[3]};
        struct mmul_object elements = {.axes = 2};
        status = mmul_apply_operation(e, call, &row, &x, &elements);
        x = elements;
    } else
        made.with.axis = axis - x.axes;
    if (status != MMUL_OK)
        return status;
    result->axes = x.axes;
    status = mmul_apply_operation(e, call, &made, &x, result);
    result->is_row = all || arguments[0].object.is_row;
    return status;
}

// All products of an element of a and an element of b.
enum mmul_status mmul_builtin_outer(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                    const struct mmul_node *call,
                                    const struct mmul_argument *arguments,
                                    struct mmul_object *result) {
    struct mmul_call made = {.operation = builtin->operation, .operand_count = 2};
    const struct mmul_object both[2] = {arguments[0].object, arguments[1].object};
    enum mmul_status status = mmul_argument_check_matrix(e, &arguments[0], "a");
    if (status == MMUL_OK)
        status = mmul_argument_check_matrix(e, &arguments[1], "b");
    if (status != MMUL_OK)
        return status;
    result->axes = 2;
    status = mmul_apply_operation(e, call, &made, both, result);
    result->is_row = false;
    return status;
}

// --------------------------------------------------------------------------------------- diagonals

static enum mmul_status read_diagonal(struct mmul_evaluator *e, const struct mmul_argument *k,
                                      int64_t *number) {
    *number = 0;
    return k->node != NULL ? mmul_argument_get_integer(e, k, "k", number) : MMUL_OK;
}

enum mmul_status mmul_builtin_triu(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                   const struct mmul_node *call,
                                   const struct mmul_argument *arguments,
                                   struct mmul_object *result) {
    struct mmul_call made = {.operation = builtin->operation, .operand_count = 1};
    enum mmul_status status = mmul_argument_check_matrix(e, &arguments[0], "x");
    if (status == MMUL_OK && arguments[0].object.is_row)
        return mmul_evaluator_fail(e, arguments[0].node,
                                   "%s of a one-axis array, which is stored as a row (1 x %lld)",
                                   builtin->name, (long long)arguments[0].object.shape.cols);
    if (status == MMUL_OK)
        status = read_diagonal(e, &arguments[1], &made.with.count);
    result->axes = arguments[0].object.axes;
    return status == MMUL_OK ? mmul_apply_operation(e, call, &made, &arguments[0].object, result)
                             : status;
}

// A one-axis array gives a diagonal matrix; a matrix gives its diagonal with one axis.
enum mmul_status mmul_builtin_diag(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                   const struct mmul_node *call,
                                   const struct mmul_argument *arguments,
                                   struct mmul_object *result) {
    const struct mmul_object *x = &arguments[0].object;
    struct mmul_call made = {.operation = x->is_row ? "diag" : "diagonal", .operand_count = 1};
    enum mmul_status status = mmul_argument_check_matrix(e, &arguments[0], "x");
    if (status == MMUL_OK)
        status = read_diagonal(e, &arguments[1], &made.with.count);
    if (status == MMUL_OK && x->axes != 2)
        return mmul_evaluator_fail(e, arguments[0].node, "%s of %d axes: expected 1 or 2",
                                   builtin->name, x->axes);
    result->axes = 2;
    if (status == MMUL_OK)
        status = mmul_apply_operation(e, call, &made, x, result);
    result->is_row = !x->is_row;
    return status;
}

// ------------------------------------------------------------------------------------------ einsum

// Reads one term of "ij,jk->ik". Each letter labels one of the engine's axes; 0 marks an axis
// without letter.
static enum mmul_status read_term(struct mmul_evaluator *e, const struct mmul_node *at,
                                  const char **text, int64_t labels[static MMUL_AXES_MOST],
                                  int *count) {
    const char *begin = *text;
    int64_t letters[MMUL_AXES_MOST];
    for (*count = 0; **text != '\0' && **text != ',' && **text != '-'; ++*text) {
        const char c = **text;
        const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (c == ' ')
            continue;
        if (!is_letter)
            return mmul_evaluator_fail(e, at, "einsum: expected letters, a comma and '->'");
        if (memchr(begin, c, (size_t)(*text - begin)) != NULL)
            return mmul_evaluator_fail(e, at, "einsum: '%c' occurs twice in a term", c);
        if (*count == MMUL_AXES_MOST)
            return mmul_evaluator_fail(e, at, "einsum: a term has more than %d letters",
                                       MMUL_AXES_MOST);
        letters[(*count)++] = c;
    }
    memset(labels, 0, MMUL_AXES_MOST * sizeof *labels);
    if (*count > 0)
        memcpy(labels + MMUL_AXES_MOST - *count, letters, (size_t)*count * sizeof *labels);
    return MMUL_OK;
}

// Chooses the result without '->': the letters that occur in one term only, in alphabetical order.
static enum mmul_status choose_result(struct mmul_evaluator *e, const struct mmul_node *at,
                                      const struct mmul_parameters *with,
                                      int64_t labels[static MMUL_AXES_MOST], int *count) {
    int64_t found[2 * MMUL_AXES_MOST];
    *count = 0;
    for (int64_t c = 'A'; c <= 'z'; c++)
        if (mmul_einsum_has_label(with->begin, c) != mmul_einsum_has_label(with->end, c))
            found[(*count)++] = c;
    if (*count > MMUL_AXES_MOST)
        return mmul_evaluator_fail(e, at, "einsum: the result has %d axes: at most %d", *count,
                                   MMUL_AXES_MOST);
    memset(labels, 0, MMUL_AXES_MOST * sizeof *labels);
    for (int i = 0; i < *count; i++)
        labels[MMUL_AXES_MOST - *count + i] = found[i];
    return MMUL_OK;
}

static enum mmul_status read_result(struct mmul_evaluator *e, const struct mmul_node *at,
                                    const char *text, struct mmul_parameters *with, int *count) {
    int64_t labels[MMUL_AXES_MOST];
    enum mmul_status status = MMUL_OK;
    if (strncmp(text, "->", 2) == 0) {
        text += 2;
        status = read_term(e, at, &text, labels, count);
    } else if (*text == '\0')
        status = choose_result(e, at, with, labels, count);
    if (status == MMUL_OK && *text == ',')
        return mmul_evaluator_fail(e, at, "einsum: expected two matrices");
    if (status == MMUL_OK && *text != '\0')
        return mmul_evaluator_fail(e, at, "einsum: expected letters, a comma and '->'");
    for (int s = 0; status == MMUL_OK && s < MMUL_AXES_MOST; s++) {
        with->axes[s] = (int)labels[s];
        if (labels[s] > 0 && !mmul_einsum_has_label(with->begin, labels[s]) &&
            !mmul_einsum_has_label(with->end, labels[s]))
            return mmul_evaluator_fail(e, at, "einsum: '%c' is in no operand", (char)labels[s]);
    }
    return status;
}

// Checks that equal letters have equal sizes.
static enum mmul_status check_sizes(struct mmul_evaluator *e, const struct mmul_node *call,
                                    const struct mmul_parameters *with,
                                    const struct mmul_object both[2]) {
    int64_t sizes[2][MMUL_AXES_MOST];
    mmul_object_sizes(&both[0], sizes[0]);
    mmul_object_sizes(&both[1], sizes[1]);
    for (int s = 0; s < MMUL_AXES_MOST; s++)
        for (int t = 0; t < MMUL_AXES_MOST; t++)
            if (with->begin[s] > 0 && with->begin[s] == with->end[t] && sizes[0][s] != sizes[1][t])
                return mmul_evaluator_fail(e, call, "einsum: sizes %lld and %lld of '%c' differ",
                                           (long long)sizes[0][s], (long long)sizes[1][t],
                                           (char)with->begin[s]);
    return MMUL_OK;
}

enum mmul_status mmul_builtin_einsum(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                     const struct mmul_node *call,
                                     const struct mmul_argument *arguments,
                                     struct mmul_object *result) {
    struct mmul_call made = {.operation = builtin->operation, .operand_count = 2};
    const struct mmul_object both[2] = {arguments[1].object, arguments[2].object};
    const struct mmul_node *at = arguments[0].node;
    const char *text = NULL;
    int count = 0;
    enum mmul_status status = mmul_argument_get_text(e, &arguments[0], "subscripts", "", &text);
    for (int i = 0; status == MMUL_OK && i < 2; i++) {
        status = mmul_argument_check_matrix(e, &arguments[1 + i], i == 0 ? "a" : "b");
        if (status == MMUL_OK)
            status = read_term(e, at, &text, i == 0 ? made.with.begin : made.with.end, &count);
        if (status == MMUL_OK && count != (both[i].is_row ? 1 : both[i].axes))
            return mmul_evaluator_fail(e, arguments[1 + i].node,
                                       "einsum: %d letters for %d axes (%s)", count,
                                       both[i].is_row ? 1 : both[i].axes, i == 0 ? "a" : "b");
        if (status == MMUL_OK && i == 0 && *text++ != ',')
            return mmul_evaluator_fail(e, at, "einsum: expected two matrices");
    }
    if (status == MMUL_OK)
        status = read_result(e, at, text, &made.with, &count);
    if (status == MMUL_OK)
        status = check_sizes(e, call, &made.with, both);
    if (status != MMUL_OK)
        return status;
    result->axes = count > 2 ? count : 2;
    status = mmul_apply_operation(e, call, &made, both, result);
    result->is_row = count == 1;
    return status;
}
