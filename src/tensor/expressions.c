// SPDX-License-Identifier: MIT
// Expressions. Numbers and strings are folded; an operation on matrices becomes an operation of the
// program.
#include <string.h>

#include "base/status.h"
#include "tensor/evaluate.h"
#include "tensor/script.h"

enum mmul_status mmul_evaluate_tuple(struct mmul_evaluator *e, const struct mmul_node *node,
                                     const struct mmul_node *targets, struct mmul_object *result) {
    struct mmul_object items[MMUL_TUPLE_MOST];
    int count = 0;
    for (const struct mmul_node *child = node->first; child != NULL; child = child->next) {
        if (count == MMUL_TUPLE_MOST)
            return mmul_evaluator_fail(e, child, "a tuple can have at most %d elements",
                                       MMUL_TUPLE_MOST);
        if (targets != NULL) {
            e->named = child;
            e->name = targets->text;
            targets = targets->next;
        }
        enum mmul_status status = mmul_evaluate(e, child, &items[count++]);
        if (status != MMUL_OK)
            return status;
    }
    return mmul_evaluator_tuple(e, items, count, result);
}

static enum mmul_status evaluate_negative(struct mmul_evaluator *e, const struct mmul_node *node,
                                          struct mmul_object *result) {
    struct mmul_argument operand = {.node = node->first};
    enum mmul_status status = mmul_evaluate(e, node->first, &operand.object);
    if (status != MMUL_OK)
        return status;
    if (operand.object.kind == MMUL_OBJECT_MATRIX)
        return mmul_apply_elements(e, node, "neg", &operand, 1, result);
    if (!mmul_object_is_number(&operand.object))
        return mmul_evaluator_fail(e, node, "cannot negate %s", mmul_object_name(&operand.object));
    const struct mmul_object zero = mmul_object_from_integer(0);
    *result = mmul_object_from_real(-operand.object.real);
    const char *problem = operand.object.kind == MMUL_OBJECT_REAL
                              ? NULL
                              : mmul_number_calculate("-", &zero, &operand.object, result);
    return problem == NULL ? MMUL_OK : mmul_evaluator_fail(e, node, "%s", problem);
}

enum mmul_status mmul_evaluate_fail_condition(struct mmul_evaluator *e,
                                              const struct mmul_node *node, const char *word,
                                              const struct mmul_object *x) {
    mmul_evaluator_fail(e, node, "'%s' needs numbers, found %s", word, mmul_object_name(x));
    if (x->kind == MMUL_OBJECT_MATRIX)
        mmul_hint(e->err, "for values 0 and 1: %s",
                  word[0] == 'a'   ? "minimum(x, y)"
                  : word[0] == 'o' ? "maximum(x, y)"
                                   : "1 - x");
    return MMUL_ERR_DATA;
}

// Short-circuit rule of Python: `and` returns the first operand that is 0, `or` the first that is
// not, else the last one. Later operands are not evaluated.
static enum mmul_status read_truth(struct mmul_evaluator *e, const struct mmul_node *node,
                                   const char *word, const struct mmul_object *x, bool *is_true) {
    *is_true = mmul_object_is_number(x) && mmul_object_number(x) != 0;
    return mmul_object_is_number(x) ? MMUL_OK : mmul_evaluate_fail_condition(e, node, word, x);
}

static enum mmul_status evaluate_logic(struct mmul_evaluator *e, const struct mmul_node *node,
                                       struct mmul_object *result) {
    const bool ends = strcmp(node->text, "or") == 0;
    bool is_true = !ends;
    enum mmul_status status = MMUL_OK;
    for (const struct mmul_node *child = node->first;
         status == MMUL_OK && child != NULL && is_true != ends; child = child->next) {
        status = mmul_evaluate(e, child, result);
        if (status == MMUL_OK)
            status = read_truth(e, child, node->text, result, &is_true);
    }
    return status;
}

static enum mmul_status evaluate_not(struct mmul_evaluator *e, const struct mmul_node *node,
                                     struct mmul_object *result) {
    struct mmul_object x;
    bool is_true = false;
    enum mmul_status status = mmul_evaluate(e, node->first, &x);
    if (status == MMUL_OK)
        status = read_truth(e, node->first, "not", &x, &is_true);
    *result = mmul_object_from_bool(!is_true);
    return status;
}

// Concatenates two tuples.
static enum mmul_status join_tuples(struct mmul_evaluator *e, const struct mmul_node *node,
                                    const struct mmul_object *x, const struct mmul_object *y,
                                    struct mmul_object *result) {
    struct mmul_object items[MMUL_TUPLE_MOST];
    if (x->count + y->count > MMUL_TUPLE_MOST)
        return mmul_evaluator_fail(e, node, "a tuple can have at most %d elements",
                                   MMUL_TUPLE_MOST);
    for (int i = 0; i < x->count + y->count; i++)
        items[i] = i < x->count ? x->items[i] : y->items[i - x->count];
    return mmul_evaluator_tuple(e, items, x->count + y->count, result);
}

// Operators on other kinds: + joins tuples and strings; == and != compare strings, None and
// booleans.
static enum mmul_status apply_to_others(struct mmul_evaluator *e, const struct mmul_node *node,
                                        const struct mmul_argument operands[2],
                                        struct mmul_object *result) {
    const struct mmul_object *x = &operands[0].object, *y = &operands[1].object;
    bool strings = x->kind == MMUL_OBJECT_STRING && y->kind == MMUL_OBJECT_STRING;
    bool is_equality = strcmp(node->text, "==") == 0 || strcmp(node->text, "!=") == 0;
    if (strings && strcmp(node->text, "+") == 0) {
        char text[MMUL_STRING_MOST + 1] = "";
        enum mmul_status status = mmul_string_append(e, node, x, "", text);
        if (status == MMUL_OK)
            status = mmul_string_append(e, node, y, "", text);
        *result = (struct mmul_object){.kind = MMUL_OBJECT_STRING};
        return status == MMUL_OK ? mmul_evaluator_copy_text(e, text, &result->text) : status;
    }
    if (x->kind == MMUL_OBJECT_TUPLE && y->kind == MMUL_OBJECT_TUPLE &&
        strcmp(node->text, "+") == 0)
        return join_tuples(e, node, x, y, result);
    if (is_equality && x->kind < MMUL_OBJECT_TUPLE && y->kind < MMUL_OBJECT_TUPLE) {
        bool equal = x->kind == y->kind && (!strings || strcmp(x->text, y->text) == 0);
        *result = mmul_object_from_bool(equal == (node->text[0] == '='));
        return MMUL_OK;
    }
    return mmul_evaluator_fail(e, node, "'%s' cannot combine %s and %s", node->text,
                               mmul_object_name(x), mmul_object_name(y));
}

// Applies one operator to evaluated operands.
static enum mmul_status apply_operator(struct mmul_evaluator *e, const struct mmul_node *node,
                                       const struct mmul_argument operands[2],
                                       struct mmul_object *result) {
    const struct mmul_object *x = &operands[0].object, *y = &operands[1].object;
    bool matrix = x->kind == MMUL_OBJECT_MATRIX || y->kind == MMUL_OBJECT_MATRIX;
    bool numbers = mmul_object_is_number(x) && mmul_object_is_number(y);
    if (matrix)
        return mmul_apply_operator(e, node, operands, result);
    if (!numbers)
        return apply_to_others(e, node, operands, result);
    if (strcmp(node->text, "@") == 0)
        return mmul_evaluator_fail(e, node, "'@' needs matrices, found numbers");
    const char *problem = mmul_number_calculate(node->text, x, y, result);
    return problem == NULL ? MMUL_OK : mmul_evaluator_fail(e, node, "%s", problem);
}

// Evaluates x + y + z + ... in a loop from its left end to `node`, so that a long chain needs no
// recursion.
static enum mmul_status evaluate_binary(struct mmul_evaluator *e, const struct mmul_node *node,
                                        struct mmul_object *result) {
    const struct mmul_node *at = node;
    while (at->first->kind == MMUL_NODE_BINARY)
        at = at->first;
    enum mmul_status status = mmul_evaluate(e, at->first, result);
    for (const struct mmul_node *end = node->outer; status == MMUL_OK && at != end;
         at = at->outer) {
        struct mmul_argument operands[2] = {{at->first, *result}, {.node = at->last}};
        status = mmul_evaluate(e, at->last, &operands[1].object);
        if (status == MMUL_OK)
            status = apply_operator(e, at, operands, result);
        if (status == MMUL_OK)
            status = mmul_evaluator_step(e, at);
    }
    return status;
}

// Evaluates an f-string to a string or MMUL_OBJECT_FORMAT.
static enum mmul_status evaluate_format(struct mmul_evaluator *e, const struct mmul_node *node,
                                        struct mmul_object *result) {
    struct mmul_format_string format = {.count = 0};
    enum mmul_status status = MMUL_OK;
    for (const struct mmul_node *child = node->first; status == MMUL_OK && child != NULL;
         child = child->next) {
        const bool is_field = child->kind == MMUL_NODE_FIELD;
        struct mmul_object piece;
        status = mmul_evaluate(e, is_field ? child->first : child, &piece);
        if (status == MMUL_OK)
            status = mmul_format_string_add(e, child, &piece, is_field ? child->text : "", &format);
    }
    return status == MMUL_OK ? mmul_format_string_end(e, &format, result) : status;
}

// ------------------------------------------------------------------------ slices and attributes

// Evaluates a bound or step of a slice; an omitted one becomes `otherwise`.
static enum mmul_status read_slice_part(struct mmul_evaluator *e, const struct mmul_node *part,
                                        const char *what, int64_t otherwise, bool *is_given,
                                        int64_t *to) {
    struct mmul_argument argument = {.node = part};
    enum mmul_status status = MMUL_OK;
    *to = otherwise;
    if (part != NULL && part->kind != MMUL_NODE_ABSENT)
        status = mmul_evaluate(e, part, &argument.object);
    *is_given = status == MMUL_OK && argument.object.kind != MMUL_OBJECT_NONE;
    return *is_given ? mmul_argument_get_integer(e, &argument, what, to) : status;
}

// Evaluates numpy's begin:end:step for one axis. Negative bounds count from the end, all are
// clamped to the axis. A negative step runs from the last element to the first.
static enum mmul_status read_slice(struct mmul_evaluator *e, const struct mmul_node *slice,
                                   int axis, struct mmul_parameters *with) {
    const struct mmul_node *const parts[] = {slice->first, slice->first->next};
    const int64_t size = with->end[axis];
    int64_t step = 1, bounds[2];
    bool is_given = false;
    enum mmul_status status =
        read_slice_part(e, parts[1]->next, "a step of a slice", 1, &is_given, &step);
    if (status == MMUL_OK && step == 0)
        return mmul_evaluator_fail(e, parts[1]->next, "the step of a slice is 0");
    const int64_t least = step > 0 ? 0 : -1, most = least + size;
    for (int i = 0; status == MMUL_OK && i < 2; i++) {
        const int64_t otherwise = (step > 0) == (i == 0) ? least : most;
        status =
            read_slice_part(e, parts[i], "a bound of a slice", otherwise, &is_given, &bounds[i]);
        if (is_given && bounds[i] < 0)
            bounds[i] += size;
        bounds[i] = bounds[i] < least ? least : bounds[i] > most ? most : bounds[i];
    }
    if (status != MMUL_OK)
        return status;
    with->begin[axis] = bounds[0];
    with->end[axis] = bounds[1];
    with->step[axis] = step > size    ? size
                       : step < -size ? -size
                                      : step; // one element, as with any larger step
    if (step > 0 ? bounds[0] < bounds[1] : bounds[0] > bounds[1])
        return MMUL_OK;
    char by[32] = "";
    if (step != 1)
        snprintf(by, sizeof by, ":%lld", (long long)step);
    return mmul_evaluator_fail(e, slice, "the slice is empty: [%lld:%lld%s] of %lld",
                               (long long)bounds[0], (long long)bounds[1], by, (long long)size);
}

// Evaluates an index. As in numpy, a negative one counts from the end.
static enum mmul_status read_index(struct mmul_evaluator *e, const struct mmul_node *node,
                                   int64_t size, int64_t *to) {
    struct mmul_argument index = {.node = node};
    int64_t given = 0;
    enum mmul_status status = mmul_evaluate(e, node, &index.object);
    if (status == MMUL_OK && index.object.kind == MMUL_OBJECT_MATRIX) {
        mmul_evaluator_fail(e, node, "cannot index with a matrix: expected a number");
        mmul_hint(e->err, "take(table, ids) selects rows by a matrix of indices");
        return MMUL_ERR_DATA;
    }
    if (status == MMUL_OK)
        status = mmul_argument_get_integer(e, &index, "an index", &given);
    if (status == MMUL_OK && (given < -size || given >= size))
        return mmul_evaluator_fail(e, node, "index %lld of an axis of %lld: expected %lld to %lld",
                                   (long long)given, (long long)size, (long long)-size,
                                   (long long)size - 1);
    *to = given < 0 ? given + size : given;
    return status;
}

// x[:]
static bool is_all(const struct mmul_node *index) {
    return index->kind == MMUL_NODE_SLICE && index->first->kind == MMUL_NODE_ABSENT &&
           index->last->kind == MMUL_NODE_ABSENT;
}

static enum mmul_status slice_matrix(struct mmul_evaluator *e, const struct mmul_node *node,
                                     const struct mmul_object *x, struct mmul_object *result) {
    struct mmul_call call = {.operation = "slice", .operand_count = 1};
    char shape[96];
    int axis = MMUL_AXES_MOST - x->axes;
    bool is_dropped[MMUL_AXES_MOST] = {false}, are_dropped = false;
    if (x->is_row && node->first->next == node->last && !is_all(node->last)) {
        const bool is_slice = node->last->kind == MMUL_NODE_SLICE;
        mmul_evaluator_fail(e, node, "%s of a one-axis array, which is stored as a row (1 x %lld)",
                            is_slice ? "a slice" : "an index", (long long)x->shape.cols);
        mmul_hint(e->err, "%s",
                  is_slice ? "x[:, a:b] has elements a to b - 1" : "x[0, i] is an element");
        return MMUL_ERR_DATA;
    }
    mmul_object_sizes(x, call.with.end);
    for (const struct mmul_node *n = node->first->next; n != NULL; n = n->next, axis++) {
        if (axis == MMUL_AXES_MOST)
            return mmul_evaluator_fail(e, n, "%d indices for %d axes (%s)", x->axes + 1, x->axes,
                                       mmul_object_shape(x, shape));
        int64_t size = call.with.end[axis];
        is_dropped[axis] = n->kind != MMUL_NODE_SLICE;
        are_dropped |= is_dropped[axis];
        enum mmul_status status = is_dropped[axis] ? read_index(e, n, size, &call.with.begin[axis])
                                                   : read_slice(e, n, axis, &call.with);
        if (is_dropped[axis])
            call.with.end[axis] = call.with.begin[axis] + 1;
        if (status != MMUL_OK)
            return status;
    }
    result->axes = x->axes;
    enum mmul_status status = mmul_apply_operation(e, node, &call, x, result);
    const struct mmul_object part = *result;
    return status == MMUL_OK && are_dropped ? mmul_drop_axes(e, node, &part, is_dropped, result)
                                            : status;
}

static enum mmul_status evaluate_subscript(struct mmul_evaluator *e, const struct mmul_node *node,
                                           struct mmul_object *result) {
    struct mmul_object x;
    struct mmul_argument index = {.node = node->last};
    int64_t i = 0;
    const struct mmul_node *named = e->named;
    enum mmul_status status = mmul_evaluate(e, node->first, &x);
    e->named = named;
    if (status != MMUL_OK || x.kind == MMUL_OBJECT_MATRIX)
        return status == MMUL_OK ? slice_matrix(e, node, &x, result) : status;
    if (x.kind != MMUL_OBJECT_TUPLE)
        return mmul_evaluator_fail(e, node, "%s has no elements", mmul_object_name(&x));
    if (node->first->next != node->last || node->last->kind == MMUL_NODE_SLICE)
        return mmul_evaluator_fail(e, node, "a tuple takes a single index");
    status = mmul_evaluate(e, node->last, &index.object);
    if (status == MMUL_OK)
        status = mmul_argument_get_integer(e, &index, "an index", &i);
    if (status != MMUL_OK)
        return status;
    if (i < -x.count || i >= x.count)
        return mmul_evaluator_fail(e, node->last, "element %lld of a tuple of %d", (long long)i,
                                   x.count);
    *result = x.items[i < 0 ? i + x.count : i];
    return MMUL_OK;
}

static enum mmul_status evaluate_attribute(struct mmul_evaluator *e, const struct mmul_node *node,
                                           struct mmul_object *result) {
    static const char *const names[] = {"T", "shape", NULL};
    struct mmul_object x, sizes[MMUL_AXES_MOST];
    int64_t counts[MMUL_AXES_MOST];
    struct mmul_call call = {.operation = "transpose", .operand_count = 1};
    const struct mmul_node *named = e->named;
    enum mmul_status status = mmul_evaluate(e, node->first, &x);
    e->named = named;
    if (status != MMUL_OK)
        return status;
    if (x.kind == MMUL_OBJECT_TOKENS && strcmp(node->text, "vocabulary") == 0) {
        *result = mmul_object_from_integer(x.tokens->vocabulary);
        return MMUL_OK;
    }
    if (x.kind != MMUL_OBJECT_MATRIX)
        return mmul_evaluator_fail(e, node, "%s has no '.%s'", mmul_object_name(&x), node->text);
    result->axes = x.axes;
    if (strcmp(node->text, "T") == 0)
        return mmul_apply_operation(e, node, &call, &x, result);
    if (strcmp(node->text, "shape") == 0) {
        mmul_object_sizes(&x, counts);
        for (int s = 0; s < x.axes; s++)
            sizes[s] = mmul_object_from_integer(counts[MMUL_AXES_MOST - x.axes + s]);
        return mmul_evaluator_tuple(e, sizes, x.axes, result);
    }
    const char *nearest = mmul_nearest(node->text, names);
    mmul_evaluator_fail(e, node, "a matrix has no '.%s': available are .T and .shape", node->text);
    if (nearest != NULL)
        mmul_hint(e->err, ".%s?", nearest);
    return MMUL_ERR_DATA;
}

// --------------------------------------------------------------------------- all kinds of nodes

static enum mmul_status evaluate_kind(struct mmul_evaluator *e, const struct mmul_node *node,
                                      struct mmul_object *result) {
    switch (node->kind) {
    case MMUL_NODE_NUMBER:
        *result = node->is_integer ? mmul_object_from_integer(node->integer)
                                   : mmul_object_from_real(node->real);
        return MMUL_OK;
    case MMUL_NODE_STRING:
        *result = (struct mmul_object){.kind = MMUL_OBJECT_STRING, .text = node->text};
        return strlen(node->text) < MMUL_STRING_MOST
                   ? MMUL_OK
                   : mmul_evaluator_fail(e, node, "a string must be shorter than %d bytes",
                                         MMUL_STRING_MOST);
    case MMUL_NODE_FORMAT:
        return evaluate_format(e, node, result);
    case MMUL_NODE_CONSTANT:
        *result = mmul_object_from_bool(node->text[0] == 'T');
        if (node->text[0] == 'N')
            *result = (struct mmul_object){.kind = MMUL_OBJECT_NONE};
        return MMUL_OK;
    case MMUL_NODE_NAME:
        return mmul_evaluator_read(e, node, result);
    case MMUL_NODE_TUPLE:
        return mmul_evaluate_tuple(e, node, NULL, result);
    case MMUL_NODE_NEGATIVE:
        return evaluate_negative(e, node, result);
    case MMUL_NODE_LOGIC:
        return evaluate_logic(e, node, result);
    case MMUL_NODE_NOT:
        return evaluate_not(e, node, result);
    case MMUL_NODE_BINARY:
        return evaluate_binary(e, node, result);
    case MMUL_NODE_CALL:
        return mmul_evaluate_call(e, node, result);
    case MMUL_NODE_ATTRIBUTE:
        return evaluate_attribute(e, node, result);
    case MMUL_NODE_SUBSCRIPT:
        return evaluate_subscript(e, node, result);
    default:
        return mmul_evaluator_fail(e, node, "a value is expected here");
    }
}

enum mmul_status mmul_evaluate(struct mmul_evaluator *e, const struct mmul_node *node,
                               struct mmul_object *result) {
    enum mmul_status status = mmul_evaluator_step(e, node);
    if (status != MMUL_OK)
        return status;
    e->depth++;
    status = evaluate_kind(e, node, result);
    e->depth--;
    return status;
}
