// SPDX-License-Identifier: MIT
// Checks and converts arguments of built-in functions, one function per kind.
#include <string.h>

#include "base/status.h"
#include "tensor/evaluator.h"

static enum mmul_status fail_kind(struct mmul_evaluator *e, const struct mmul_argument *argument,
                                  const char *what, const char *expected) {
    return mmul_evaluator_fail(e, argument->node, "%s is %s, expected %s", what,
                               mmul_object_name(&argument->object), expected);
}

enum mmul_status mmul_argument_check_matrix(struct mmul_evaluator *e,
                                            const struct mmul_argument *argument,
                                            const char *what) {
    if (argument->object.kind == MMUL_OBJECT_MATRIX)
        return MMUL_OK;
    return fail_kind(e, argument, what, "a matrix");
}

enum mmul_status mmul_argument_get_matrices(struct mmul_evaluator *e,
                                            const struct mmul_argument *arguments,
                                            const char *const names[], int count,
                                            struct mmul_object *matrices) {
    for (int i = 0; i < count; i++) {
        if (mmul_argument_check_matrix(e, &arguments[i], names[i]) != MMUL_OK)
            return e->err->status;
        matrices[i] = arguments[i].object;
    }
    return MMUL_OK;
}

enum mmul_status mmul_argument_check_ids(struct mmul_evaluator *e,
                                         const struct mmul_argument *argument) {
    char shape[96];
    if (argument->object.axes < MMUL_AXES_MOST)
        return MMUL_OK;
    mmul_evaluator_fail(e, argument->node,
                        "ids has 4 axes (%s), expected 1 to 3: the result has one more",
                        mmul_object_shape(&argument->object, shape));
    mmul_hint(e->err, "reshape(ids, (m, n)) before the call, reshape(..., shape) after it");
    return MMUL_ERR_DATA;
}

enum mmul_status mmul_argument_get_integer(struct mmul_evaluator *e,
                                           const struct mmul_argument *argument, const char *what,
                                           int64_t *number) {
    if (!mmul_object_is_integer(&argument->object))
        return fail_kind(e, argument, what, "a whole number");
    *number = argument->object.integer;
    return MMUL_OK;
}

enum mmul_status mmul_argument_get_real(struct mmul_evaluator *e,
                                        const struct mmul_argument *argument, const char *what,
                                        double otherwise, double *number) {
    *number = otherwise;
    if (argument->node == NULL || argument->object.kind == MMUL_OBJECT_NONE)
        return MMUL_OK;
    if (!mmul_object_is_number(&argument->object))
        return fail_kind(e, argument, what, "a number");
    *number = mmul_object_number(&argument->object);
    return MMUL_OK;
}

enum mmul_status mmul_argument_get_bool(struct mmul_evaluator *e,
                                        const struct mmul_argument *argument, const char *what,
                                        bool *is_true) {
    *is_true = false;
    if (argument->node == NULL)
        return MMUL_OK;
    const struct mmul_object *o = &argument->object;
    if (!mmul_object_is_integer(o))
        return fail_kind(e, argument, what, "True, False, 1 or 0");
    if (o->integer != 0 && o->integer != 1)
        return mmul_evaluator_fail(e, argument->node, "%s is %lld, expected True, False, 1 or 0",
                                   what, (long long)o->integer);
    *is_true = o->integer == 1;
    return MMUL_OK;
}

enum mmul_status mmul_argument_get_text(struct mmul_evaluator *e,
                                        const struct mmul_argument *argument, const char *what,
                                        const char *otherwise, const char **text) {
    *text = otherwise;
    if (argument->node == NULL)
        return MMUL_OK;
    if (argument->object.kind != MMUL_OBJECT_STRING)
        return fail_kind(e, argument, what, "a string");
    *text = argument->object.text;
    return MMUL_OK;
}

enum mmul_status mmul_argument_get_sizes(struct mmul_evaluator *e,
                                         const struct mmul_argument *argument, const char *what,
                                         int64_t sizes[static MMUL_AXES_MOST], int *count) {
    const struct mmul_object *o = &argument->object;
    *count = o->kind == MMUL_OBJECT_TUPLE ? o->count : 1;
    if (*count < 1 || *count > MMUL_AXES_MOST)
        return mmul_evaluator_fail(e, argument->node, "%s has %d elements, expected 1 to %d", what,
                                   *count, MMUL_AXES_MOST);
    for (int i = 0; i < *count; i++) {
        const struct mmul_object *item = o->kind == MMUL_OBJECT_TUPLE ? &o->items[i] : o;
        if (!mmul_object_is_integer(item))
            return mmul_evaluator_fail(e, argument->node, "%s holds %s, expected whole numbers",
                                       what, mmul_object_name(item));
        sizes[i] = item->integer;
    }
    return MMUL_OK;
}

enum mmul_status mmul_argument_get_axis(struct mmul_evaluator *e,
                                        const struct mmul_argument *argument, int axes, int *axis) {
    int64_t number = 0;
    enum mmul_status status = mmul_argument_get_integer(e, argument, "axis", &number);
    if (status == MMUL_OK && (number < -axes || number >= axes))
        return mmul_evaluator_fail(e, argument->node, "axis %lld of %d axes: expected %d to %d",
                                   (long long)number, axes, -axes, axes - 1);
    *axis = (int)(number < 0 ? number + axes : number);
    return status;
}

enum mmul_status mmul_argument_get_choice(struct mmul_evaluator *e,
                                          const struct mmul_argument *argument, const char *what,
                                          const char *const *words, int *choice) {
    const char *text = NULL;
    char all[128] = "";
    enum mmul_status status = mmul_argument_get_text(e, argument, what, words[0], &text);
    for (*choice = 0; status == MMUL_OK && words[*choice] != NULL; ++*choice)
        if (strcmp(words[*choice], text) == 0)
            return MMUL_OK;
    if (status != MMUL_OK)
        return status;
    for (int i = 0; words[i] != NULL; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s",
                 i == 0                 ? ""
                 : words[i + 1] != NULL ? ", "
                                        : " or ",
                 words[i]);
    const char *nearest = mmul_nearest(text, words);
    mmul_evaluator_fail(e, argument->node, "%s '%s' is unknown: expected %s", what, text, all);
    if (nearest != NULL)
        mmul_hint(e->err, "\"%s\"?", nearest);
    return MMUL_ERR_DATA;
}
