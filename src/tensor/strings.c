// SPDX-License-Identifier: MIT
// Strings that contain values. The contents of a matrix are unknown during evaluation. A
// one-element matrix is therefore kept as a piece of the string, and print fills it in after the
// program has run.
#include <string.h>

#include "base/status.h"
#include "tensor/evaluator.h"
#include "tensor/jobs.h"
#include "tensor/number_format.h"

static enum mmul_status fail_piece(struct mmul_evaluator *e, const struct mmul_node *at,
                                   const struct mmul_object *piece) {
    mmul_evaluator_fail(e, at, "%s cannot be inserted into a string", mmul_object_name(piece));
    if (piece->kind == MMUL_OBJECT_MATRIX || piece->kind == MMUL_OBJECT_FORMAT)
        mmul_hint(e->err, "print(\"...\", x) shows it beside other words");
    return MMUL_ERR_DATA;
}

static enum mmul_status fail_format(struct mmul_evaluator *e, const struct mmul_node *at,
                                    const char *problem) {
    mmul_evaluator_fail(e, at, "%s", problem);
    mmul_hint(e->err, "{x:.3f}, {x:.2e}, {n:04d}, {x:>10.3f}");
    return MMUL_ERR_DATA;
}

enum mmul_status mmul_string_append(struct mmul_evaluator *e, const struct mmul_node *at,
                                    const struct mmul_object *piece, const char *spec,
                                    char text[static MMUL_STRING_MOST + 1]) {
    if (piece->kind >= MMUL_OBJECT_TUPLE)
        return fail_piece(e, at, piece);
    const char *problem = mmul_format_write(spec, piece, text, MMUL_STRING_MOST + 1);
    if (problem != NULL)
        return fail_format(e, at, problem);
    return strlen(text) < MMUL_STRING_MOST
               ? MMUL_OK
               : mmul_evaluator_fail(e, at, "a string must be shorter than %d bytes",
                                     MMUL_STRING_MOST);
}

// Checks the format against a number that is not computed yet; only its kind (integer or real) is
// known.
static enum mmul_status check_format(struct mmul_evaluator *e, const struct mmul_node *at,
                                     const struct mmul_object *matrix, const char *spec) {
    char ignored[8] = "";
    const int value = mmul_job_value(e, at, matrix);
    bool is_whole = false;
    if (value < 0)
        return e->err->status;
    mmul_program_value_shape(e->program, value, &is_whole);
    const struct mmul_object sample =
        is_whole ? mmul_object_from_integer(0) : mmul_object_from_real(0);
    const char *problem = mmul_format_write(spec, &sample, ignored, sizeof ignored);
    return problem == NULL ? MMUL_OK : fail_format(e, at, problem);
}

enum mmul_status mmul_format_string_add(struct mmul_evaluator *e, const struct mmul_node *at,
                                        const struct mmul_object *piece, const char *spec,
                                        struct mmul_format_string *format) {
    struct mmul_object *pieces = format->pieces + format->count;
    if (!mmul_object_is_one_element(piece))
        return mmul_string_append(e, at, piece, spec, format->text);
    if (check_format(e, at, piece, spec) != MMUL_OK)
        return e->err->status;
    if (format->count + 2 >= MMUL_TUPLE_MOST)
        return mmul_evaluator_fail(e, at, "a string can contain at most %d matrices",
                                   MMUL_TUPLE_MOST / 2 - 1);
    pieces[0] = (struct mmul_object){.kind = MMUL_OBJECT_STRING};
    pieces[1] = *piece;
    pieces[1].at = at->at;
    pieces[1].format = *spec != '\0' ? spec : NULL;
    enum mmul_status status = mmul_evaluator_copy_text(e, format->text, &pieces[0].text);
    format->text[0] = '\0';
    format->count += 2;
    return status;
}

enum mmul_status mmul_format_string_end(struct mmul_evaluator *e, struct mmul_format_string *format,
                                        struct mmul_object *result) {
    struct mmul_object *last = format->pieces + format->count;
    *last = (struct mmul_object){.kind = MMUL_OBJECT_STRING};
    enum mmul_status status = mmul_evaluator_copy_text(e, format->text, &last->text);
    *result = *last;
    if (status != MMUL_OK || format->count == 0)
        return status;
    status = mmul_evaluator_tuple(e, format->pieces, format->count + 1, result);
    result->kind = MMUL_OBJECT_FORMAT;
    return status;
}
