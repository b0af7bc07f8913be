// SPDX-License-Identifier: MIT
// print, assert_close and the checks of gradients. Root receives only a corner and statistics of a
// matrix, or the value of a one-element matrix.
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "model/matrix.h"
#include "tensor/builtins.h"
#include "tensor/jobs.h"
#include "tensor/script.h"

static enum mmul_status add_view(struct mmul_evaluator *e, const struct mmul_node *at,
                                 struct mmul_script_view **view) {
    *view = mmul_arena_allocate(e->arena, sizeof **view, e->err);
    if (*view == NULL)
        return e->err->status;
    (*view)->at = at->at;
    if (e->script->views == NULL)
        e->script->views = e->script->next_view = *view;
    else
        e->script->last_view->next = *view;
    e->script->last_view = *view;
    return MMUL_OK;
}

// Schedules a small matrix for transfer to root's memory.
static enum mmul_status fetch_to_root(struct mmul_evaluator *e, const struct mmul_node *at,
                                      struct mmul_script_view *view, const struct mmul_object *x,
                                      double *to) {
    struct mmul_script_pending_value *awaited =
        mmul_arena_allocate(e->arena, sizeof *awaited, e->err);
    if (awaited == NULL)
        return e->err->status;
    if (mmul_output_borrow(to, x->shape, MMUL_F64, &awaited->output, e->err) != MMUL_OK)
        return e->err->status;
    awaited->next = view->awaited;
    view->awaited = awaited;
    const int value = mmul_job_value(e, at, x);
    if (value < 0)
        return e->err->status;
    if (mmul_program_save(e->program, value, awaited->output, e->err) != MMUL_OK)
        return mmul_evaluator_locate(e, at);
    return MMUL_OK;
}

// ------------------------------------------------------------------------------------------ print

// The printed line under construction.
struct line {
    struct mmul_evaluator *e;
    struct mmul_script_view *view;
    struct mmul_script_part *last; // NULL while the line is empty
};

static struct mmul_script_part *add_part(struct line *line, enum mmul_script_part_kind kind) {
    struct mmul_script_part *part = mmul_arena_allocate(line->e->arena, sizeof *part, line->e->err);
    if (part == NULL)
        return NULL;
    part->kind = kind;
    if (line->last == NULL)
        line->view->parts = part;
    else
        line->last->next = part;
    line->last = part;
    return part;
}

static enum mmul_status add_text(struct line *line, const char *text) {
    if (text[0] == '\0')
        return MMUL_OK;
    struct mmul_script_part *part = add_part(line, MMUL_PART_TEXT);
    return part != NULL ? mmul_evaluator_copy_text(line->e, text, &part->text)
                        : line->e->err->status;
}

static enum mmul_status name_part(struct line *line, struct mmul_span at,
                                  struct mmul_script_part *part) {
    char quoted[48];
    return mmul_evaluator_copy_text(line->e, mmul_source_quote(line->e->source, at, quoted),
                                    &part->text);
}

static enum mmul_status add_number(struct line *line, const struct mmul_node *at,
                                   const struct mmul_object *x) {
    struct mmul_script_part *part = add_part(line, MMUL_PART_NUMBER);
    if (part == NULL || name_part(line, x->at.end > 0 ? x->at : at->at, part) != MMUL_OK)
        return line->e->err->status;
    const int value = mmul_job_value(line->e, at, x);
    if (value < 0)
        return line->e->err->status;
    mmul_program_value_shape(line->e->program, value, &part->is_whole);
    part->format = x->format;
    return fetch_to_root(line->e, at, line->view, x, &part->number);
}

static enum mmul_status add_letters(struct line *line, const struct mmul_node *at,
                                    const struct mmul_object *ids) {
    struct mmul_script_part *part = add_part(line, MMUL_PART_LETTERS);
    if (part == NULL)
        return line->e->err->status;
    part->tokens = ids->tokens;
    mmul_shape_count(ids->shape, &part->id_count);
    part->ids = mmul_arena_allocate(line->e->arena, (size_t)part->id_count * sizeof *part->ids,
                                    line->e->err);
    return part->ids != NULL ? fetch_to_root(line->e, at, line->view, ids, part->ids)
                             : line->e->err->status;
}

static enum mmul_status fetch_corner(struct line *line, const struct mmul_node *at,
                                     struct mmul_script_part *part) {
    struct mmul_evaluator *e = line->e;
    const struct mmul_object *x = &part->matrix;
    part->rows = x->shape.rows < MMUL_CORNER_ROWS ? (int)x->shape.rows : MMUL_CORNER_ROWS;
    part->cols = x->shape.cols < MMUL_CORNER_COLS ? (int)x->shape.cols : MMUL_CORNER_COLS;
    struct mmul_call call = {
        .operation = "slice", .operand_count = 1, .with = {.end = {1, 1, part->rows, part->cols}}};
    struct mmul_object corner = {.axes = x->axes};
    part->corner = mmul_arena_allocate(
        e->arena, (size_t)(part->rows * part->cols) * sizeof *part->corner, e->err);
    if (part->corner == NULL)
        return e->err->status;
    enum mmul_status status = mmul_apply_operation(e, at, &call, x, &corner);
    return status == MMUL_OK ? fetch_to_root(e, at, line->view, &corner, part->corner) : status;
}

static enum mmul_status add_matrix(struct line *line, const struct mmul_node *at,
                                   const struct mmul_object *x) {
    static const char *const operations[MMUL_STATISTICS] = {"min", "max", "mean"};
    struct mmul_evaluator *e = line->e;
    struct mmul_script_part *part = add_part(line, MMUL_PART_MATRIX);
    struct mmul_object number;
    if (part == NULL)
        return e->err->status;
    part->matrix = *x;
    part->matrix.value = mmul_job_value(e, at, x);
    if (part->matrix.value < 0)
        return e->err->status;
    enum mmul_status status = name_part(line, at->at, part);
    if (status == MMUL_OK)
        status = fetch_corner(line, at, part);
    for (int i = 0; status == MMUL_OK && i < MMUL_STATISTICS; i++) {
        status = mmul_reduce(e, at, operations[i], 0, x, &number);
        if (status == MMUL_OK)
            status = fetch_to_root(e, at, line->view, &number, &part->statistics[i]);
    }
    return status;
}

static enum mmul_status add_argument(struct line *line, const struct mmul_node *at,
                                     const struct mmul_object *x) {
    char text[2 * MMUL_STRING_MOST + 1] = "";
    if (x->kind == MMUL_OBJECT_MATRIX && x->tokens != NULL)
        return add_letters(line, at, x);
    if (x->kind == MMUL_OBJECT_MATRIX)
        return mmul_object_is_one_element(x) ? add_number(line, at, x) : add_matrix(line, at, x);
    enum mmul_status status = MMUL_OK;
    for (int i = 0; x->kind == MMUL_OBJECT_FORMAT && status == MMUL_OK && i < x->count; i++)
        status = add_argument(line, at, &x->items[i]);
    if (x->kind == MMUL_OBJECT_FORMAT)
        return status;
    mmul_object_format(x, text, sizeof text);
    return add_text(line, text);
}

enum mmul_status mmul_builtin_print(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                    const struct mmul_node *call,
                                    const struct mmul_argument *arguments,
                                    struct mmul_object *result) {
    const struct mmul_argument *end = &arguments[MMUL_ARGUMENTS_MOST];
    struct line line = {.e = e};
    bool is_flushed = true; // ignored: every line is flushed
    (void)builtin;
    *result = (struct mmul_object){.kind = MMUL_OBJECT_NONE};
    enum mmul_status status = add_view(e, call, &line.view);
    if (status == MMUL_OK)
        status = mmul_argument_get_text(e, end, "end", "\n", &line.view->end);
    if (status == MMUL_OK)
        status = mmul_evaluator_copy_text(e, line.view->end, &line.view->end);
    if (status == MMUL_OK)
        status = mmul_argument_get_bool(e, end + 1, "flush", &is_flushed);
    for (int i = 0; status == MMUL_OK && i < MMUL_ARGUMENTS_MOST; i++) {
        if (arguments[i].node == NULL)
            continue;
        if (i > 0)
            status = add_text(&line, " ");
        if (status == MMUL_OK)
            status = add_argument(&line, arguments[i].node, &arguments[i].object);
    }
    return status;
}

enum mmul_status mmul_builtin_assert_close(struct mmul_evaluator *e,
                                           const struct mmul_builtin *builtin,
                                           const struct mmul_node *call,
                                           const struct mmul_argument *arguments,
                                           struct mmul_object *result) {
    struct mmul_script_view *view = NULL;
    struct mmul_argument difference = {.node = call}, size = {.node = call};
    struct mmul_object largest;
    double tolerance = 0;
    (void)builtin;
    *result = (struct mmul_object){.kind = MMUL_OBJECT_NONE};
    bool numbers =
        mmul_object_is_number(&arguments[0].object) && mmul_object_is_number(&arguments[1].object);
    enum mmul_status status =
        numbers ? mmul_argument_check_matrix(e, &arguments[0], "x")
                : mmul_argument_get_real(e, &arguments[2], "tolerance", 0, &tolerance);
    if (status == MMUL_OK && !(tolerance >= 0))
        return mmul_evaluator_fail(e, arguments[2].node, "tolerance must be at least 0");
    if (status == MMUL_OK)
        status = mmul_apply_elements(e, call, "subtract", arguments, 2, &difference.object);
    if (status == MMUL_OK)
        status = mmul_apply_elements(e, call, "abs", &difference, 1, &size.object);
    if (status == MMUL_OK)
        status = mmul_reduce(e, call, "max", 0, &size.object, &largest);
    if (status == MMUL_OK)
        status = add_view(e, call, &view);
    if (status != MMUL_OK)
        return status;
    view->kind = MMUL_VIEW_CLOSE;
    view->tolerance = tolerance;
    return fetch_to_root(e, call, view, &largest, &view->difference);
}

enum mmul_status mmul_view_number(struct mmul_evaluator *e, const struct mmul_node *at,
                                  const struct mmul_object *x, double *number) {
    struct mmul_script_view *view = NULL;
    if (add_view(e, at, &view) != MMUL_OK)
        return e->err->status;
    view->kind = MMUL_VIEW_NUMBER;
    return fetch_to_root(e, at, view, x, number);
}

enum mmul_status mmul_view_gradient(struct mmul_evaluator *e, const struct mmul_node *at,
                                    const struct mmul_argument *gradient,
                                    const struct mmul_object *sums) {
    struct mmul_script_view *view = NULL;
    char quoted[48];
    if (add_view(e, at, &view) != MMUL_OK)
        return e->err->status;
    view->kind = MMUL_VIEW_GRADIENT;
    view->gradient = gradient->object;
    view->sums =
        mmul_arena_allocate(e->arena, (size_t)sums->shape.cols * sizeof *view->sums, e->err);
    if (view->sums == NULL ||
        mmul_evaluator_copy_text(e, mmul_source_quote(e->source, gradient->node->at, quoted),
                                 &view->text) != MMUL_OK)
        return e->err->status;
    return fetch_to_root(e, at, view, sums, view->sums);
}

enum mmul_status mmul_view_skipped_steps(struct mmul_evaluator *e, const struct mmul_node *at,
                                         const struct mmul_skipped_step *all,
                                         const struct mmul_object *marks) {
    struct mmul_script_view *view = NULL;
    if (add_view(e, at, &view) != MMUL_OK)
        return e->err->status;
    view->kind = MMUL_VIEW_SKIPPED_STEPS;
    view->skipped_steps = all;
    view->sums = mmul_arena_allocate(
        e->arena, (size_t)(marks->shape.rows * marks->shape.cols) * sizeof *view->sums, e->err);
    return view->sums != NULL ? fetch_to_root(e, at, view, marks, view->sums) : e->err->status;
}
