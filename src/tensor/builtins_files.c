// SPDX-License-Identifier: MIT
// What goes in and out: files, and what is to be seen. Of what is seen only corners and sums come to root.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tensor/builtins.h"
#include "tensor/script.h"

// ----------------------------------------------------------------------------------------- files

// One name for a file however it is spelled: links are followed, also of the folder of a file that is not there yet.
static enum mmul_status find_file(struct mmul_evaluator *e, const char *path, size_t length,
                                  const char **file) {
    char text[PATH_MAX] = "", *found = NULL;
    snprintf(text, sizeof text, "%.*s", (int)length, path);
    found = realpath(text, NULL);
    if (found == NULL) {
        char *slash = strrchr(text, '/'), folder[PATH_MAX];
        snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - text + 1) : 1,
                 slash != NULL ? text : ".");
        char *in = realpath(folder, NULL);
        const char *name = slash != NULL ? slash + 1 : text;
        if (in != NULL && asprintf(&found, "%s/%s", in, name) < 0)
            found = NULL;
        free(in);
    }
    enum mmul_status status = mmul_evaluator_copy_text(e, found != NULL ? found : text, file);
    free(found);
    return status;
}

// Where a value is saved to.
struct target {
    const char *path, *file, *tensor; // as it is spelled; the file; "" where it holds one matrix
    struct mmul_output *beside;       // another one of the file; NULL: none
};

// A file that the text writes is not there yet, and is written once.
static enum mmul_status find_target(struct mmul_evaluator *e, const struct mmul_node *at,
                                    const char *what, struct target *target) {
    bool several;
    size_t length = mmul_output_file_length(target->path, &several, &target->tensor);
    enum mmul_status status = find_file(e, target->path, length, &target->file);
    for (const struct mmul_script_output *o = e->script->outputs; status == MMUL_OK && o != NULL;
         o = o->next) {
        if (o->path == NULL || strcmp(o->file, target->file) != 0)
            continue;
        bool is_same = strcmp(what, "load") == 0 || strcmp(o->tensor, target->tensor) == 0;
        if (!is_same) {
            target->beside = o->output;
            continue;
        }
        if (e->source->name == NULL) // a command's own text, which nobody sees
            return mmul_evaluator_fail(e, at, "cannot %s '%s': it is another output", what,
                                       target->path);
        if (strcmp(o->path, target->path) == 0)
            return mmul_evaluator_fail(e, at, "cannot %s '%s': line %d saves it", what,
                                       target->path, o->line);
        return mmul_evaluator_fail(e, at, "cannot %s '%s': line %d saves it as '%s'", what,
                                   target->path, o->line, o->path);
    }
    return status;
}

static struct mmul_object object_of(const struct mmul_evaluator *e,
                                    const struct mmul_script_file *file) {
    struct mmul_object object = mmul_matrix_object(e, file->value, file->axes);
    object.is_row = file->matrix != NULL && mmul_matrix_info(file->matrix).one_dimensional;
    return object;
}

enum mmul_status mmul_builtin_load(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                   const struct mmul_node *call,
                                   const struct mmul_argument *arguments,
                                   struct mmul_object *result) {
    const char *path = NULL;
    (void)builtin;
    enum mmul_status status = mmul_take_text(e, &arguments[0], "file", NULL, &path);
    struct target target = {.path = path};
    if (status == MMUL_OK && !mmul_path_is_stdin(path))
        status = find_target(e, call, "load", &target);
    if (status != MMUL_OK)
        return status;
    for (const struct mmul_script_file *f = e->script->files; f != NULL; f = f->next)
        if (strcmp(f->path, path) == 0) {
            *result = object_of(e, f);
            return MMUL_OK;
        }
    struct mmul_script_file *file = mmul_arena_allocate(e->arena, sizeof *file, e->err);
    if (file == NULL)
        return e->err->status;
    file->path = path;
    if (mmul_kept_name(path) != NULL) {
        if (mmul_program_load_kept(e->program, e->script->shard_folder, mmul_kept_name(path),
                                   &file->value, e->err) != MMUL_OK)
            return mmul_evaluator_locate(e, call);
        const struct mmul_shape s = mmul_program_value_shape(e->program, file->value, NULL);
        file->axes = s.batch > 1 ? 4 : s.depth > 1 ? 3 : 2;
        file->next = e->script->files;
        e->script->files = file;
        *result = mmul_matrix_object(e, file->value, file->axes);
        return MMUL_OK;
    }
    if (mmul_matrix_open(path, &file->matrix, e->err) != MMUL_OK)
        return mmul_evaluator_locate(e, call);
    file->next = e->script->files;
    e->script->files = file;
    if (mmul_program_load(e->program, file->matrix, &file->value, e->err) != MMUL_OK)
        return mmul_evaluator_locate(e, call);
    file->axes = mmul_matrix_info(file->matrix).dimensions;
    *result = object_of(e, file);
    return MMUL_OK;
}

// The program writes `value` there; the output is the script's from here on.
static enum mmul_status add_output(struct mmul_evaluator *e, const struct mmul_node *at,
                                   const struct target *target, const struct mmul_object *x,
                                   struct mmul_output *output) {
    struct mmul_script_output *added = mmul_arena_allocate(e->arena, sizeof *added, e->err);
    if (added == NULL) {
        mmul_output_destroy(output);
        return e->err->status;
    }
    added->path = target->path;
    added->file = target->file;
    added->tensor = target->tensor;
    added->matrix = *x;
    added->line = mmul_source_line(e->source, at->at.begin);
    added->output = output;
    added->next = e->script->outputs;
    e->script->outputs = added;
    if (mmul_program_save(e->program, x->value, output, e->err) != MMUL_OK)
        return mmul_evaluator_locate(e, at);
    return MMUL_OK;
}

static enum mmul_dtype type_of(const struct mmul_evaluator *e, const struct mmul_object *x) {
    bool integers = false;
    mmul_program_value_shape(e->program, x->value, &integers);
    return integers ? MMUL_I32 : mmul_program_value_dtype(e->program, x->value);
}

// What its file holds: a 16-bit type that is asked for, or that all inputs have, where that is asked for, is enough.
static enum mmul_dtype saved_type(const struct mmul_evaluator *e, const struct mmul_object *x) {
    const enum mmul_dtype computed = type_of(e, x);
    const struct mmul_script_file *f = e->script->files;
    if (computed == MMUL_F32 && e->script->narrow != MMUL_F32)
        return e->script->narrow;
    if (!e->script->common_types || computed != MMUL_F32 || f == NULL || f->matrix == NULL)
        return computed;
    const enum mmul_dtype common = mmul_matrix_info(f->matrix).stored;
    for (; f != NULL; f = f->next)
        if (f->matrix == NULL || mmul_matrix_info(f->matrix).stored != common)
            return computed;
    return common == MMUL_F16 || common == MMUL_BF16 ? common : computed;
}

// Doubles are held or refused; whole numbers may become float32.
static enum mmul_status check_type(struct mmul_evaluator *e, const char *path,
                                   enum mmul_dtype dtype) {
    enum mmul_format format;
    enum mmul_status status = mmul_output_format(path, MMUL_FORMAT_BY_ENDING, &format, e->err);
    if (status != MMUL_OK)
        mmul_hint(e->err, "save(\"NAME.npy\", x): the ending says what is written");
    if (status != MMUL_OK || dtype != MMUL_F64 || mmul_format_holds(format, dtype) == dtype)
        return status;
    mmul_fail(e->err, MMUL_ERR_USAGE, "cannot write '%s' as float64: %s has no such type", path,
              mmul_format_ending(format));
    mmul_hint(e->err, "--dtype float32 computes in float32");
    return e->err->status;
}

static enum mmul_status begin_output(struct mmul_evaluator *e, const struct target *target,
                                     const struct mmul_object *x, struct mmul_output **output) {
    int count = 0;
    for (const struct mmul_script_file *f = e->script->files; f != NULL; f = f->next)
        count++;
    struct mmul_matrix **inputs =
        mmul_arena_allocate(e->arena, (size_t)count * sizeof(*inputs) + 1, e->err);
    if (inputs == NULL)
        return e->err->status;
    count = 0;
    for (const struct mmul_script_file *f = e->script->files; f != NULL; f = f->next)
        if (f->matrix != NULL)
            inputs[count++] = f->matrix;
    const struct mmul_output_request request = {.path = target->path,
                                                .beside = target->beside,
                                                .shape = x->shape,
                                                .dtype = saved_type(e, x),
                                                .inputs = inputs,
                                                .input_count = count,
                                                .dimensions = x->axes};
    enum mmul_status status = mmul_output_create(&request, output, e->err);
    if (status == MMUL_OK)
        mmul_output_set_sync(*output, !e->script->no_sync);
    return status;
}

// The value is left on the ranks; a set of that name may be read before.
static enum mmul_status keep(struct mmul_evaluator *e, const struct mmul_node *at,
                             const struct target *target, const struct mmul_object *x) {
    struct mmul_script_output *added = mmul_arena_allocate(e->arena, sizeof *added, e->err);
    if (added == NULL)
        return e->err->status;
    if (mmul_program_keep(e->program, x->value, mmul_kept_name(target->path), e->script->no_sync,
                          e->err) != MMUL_OK)
        return mmul_evaluator_locate(e, at);
    added->path = target->path;
    added->file = target->file;
    added->tensor = target->tensor;
    added->matrix = *x;
    added->line = mmul_source_line(e->source, at->at.begin);
    added->next = e->script->outputs;
    e->script->outputs = added;
    return MMUL_OK;
}

enum mmul_status mmul_builtin_save(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                   const struct mmul_node *call,
                                   const struct mmul_argument *arguments,
                                   struct mmul_object *result) {
    static double nowhere;
    const struct mmul_object *x = &arguments[1].object;
    struct target target = {.tensor = ""};
    struct mmul_output *output = NULL;
    (void)builtin;
    *result = (struct mmul_object){.kind = MMUL_OBJECT_NONE};
    enum mmul_status status = mmul_take_text(e, &arguments[0], "file", NULL, &target.path);
    if (status == MMUL_OK)
        status = mmul_take_matrix(e, &arguments[1], "x");
    if (status == MMUL_OK)
        status = find_target(e, call, "save to", &target);
    if (status != MMUL_OK)
        return status;
    if (mmul_kept_name(target.path) != NULL)
        return keep(e, call, &target, x);
    e->script->writes_stdout |= mmul_path_is_stdout(target.path);
    status = check_type(e, target.path, type_of(e, x));
    if (status == MMUL_OK && e->script->only_checked)
        status = mmul_output_borrow(&nowhere, x->shape, MMUL_F64, &output, e->err);
    else if (status == MMUL_OK)
        status = begin_output(e, &target, x, &output);
    if (status == MMUL_OK)
        return add_output(e, call, &target, x, output);
    mmul_source_locate(e->source, call->at, e->err);
    return e->err->status;
}

// --------------------------------------------------------------------------------- what is seen

static enum mmul_status add_view(struct mmul_evaluator *e, const struct mmul_node *at,
                                 enum mmul_script_view_kind kind, struct mmul_script_view **view) {
    *view = mmul_arena_allocate(e->arena, sizeof **view, e->err);
    if (*view == NULL)
        return e->err->status;
    (*view)->kind = kind;
    (*view)->at = at->at;
    if (e->script->views == NULL)
        e->script->views = *view;
    else
        e->script->last_view->next = *view;
    e->script->last_view = *view;
    return MMUL_OK;
}

// Brings a small matrix to root's memory.
static enum mmul_status fetch(struct mmul_evaluator *e, const struct mmul_node *at,
                              const struct mmul_object *x, double *to) {
    struct mmul_output *output = NULL;
    enum mmul_status status = mmul_output_borrow(to, x->shape, MMUL_F64, &output, e->err);
    return status == MMUL_OK ? add_output(e, at, &(struct target){.path = NULL}, x, output)
                             : status;
}

static enum mmul_status show_corner(struct mmul_evaluator *e, const struct mmul_node *at,
                                    struct mmul_script_view *view) {
    const struct mmul_object *x = &view->matrix;
    view->rows = x->shape.rows < MMUL_CORNER_ROWS ? (int)x->shape.rows : MMUL_CORNER_ROWS;
    view->cols = x->shape.cols < MMUL_CORNER_COLS ? (int)x->shape.cols : MMUL_CORNER_COLS;
    struct mmul_call call = {
        .operation = "slice", .operand_count = 1, .with = {.end = {1, 1, view->rows, view->cols}}};
    struct mmul_object corner = {.axes = x->axes};
    view->corner = mmul_arena_allocate(
        e->arena, (size_t)(view->rows * view->cols) * sizeof *view->corner, e->err);
    if (view->corner == NULL)
        return e->err->status;
    enum mmul_status status = mmul_apply(e, at, &call, x, &corner);
    return status == MMUL_OK ? fetch(e, at, &corner, view->corner) : status;
}

static enum mmul_status show_matrix(struct mmul_evaluator *e, const struct mmul_node *at,
                                    const struct mmul_object *x) {
    static const char *const operations[MMUL_STATISTICS] = {"min", "max", "mean"};
    struct mmul_script_view *view = NULL;
    struct mmul_object number;
    char quoted[48];
    enum mmul_status status = add_view(e, at, MMUL_VIEW_MATRIX, &view);
    if (status != MMUL_OK)
        return status;
    view->matrix = *x;
    view->statistics =
        mmul_arena_allocate(e->arena, MMUL_STATISTICS * sizeof *view->statistics, e->err);
    if (view->statistics == NULL)
        return e->err->status;
    status = mmul_evaluator_copy_text(e, mmul_source_quote(e->source, at->at, quoted), &view->text);
    if (status == MMUL_OK)
        status = show_corner(e, at, view);
    for (int i = 0; status == MMUL_OK && i < MMUL_STATISTICS; i++) {
        status = mmul_reduce_all(e, at, operations[i], x, &number);
        if (status == MMUL_OK)
            status = fetch(e, at, &number, &view->statistics[i]);
    }
    return status;
}

// Numbers and strings that stand side by side are one line.
enum mmul_status mmul_builtin_print(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                    const struct mmul_node *call,
                                    const struct mmul_argument *arguments,
                                    struct mmul_object *result) {
    enum { TEXT_MOST = 2 * MMUL_STRING_MOST };
    char text[TEXT_MOST + 1] = "";
    struct mmul_script_view *view = NULL;
    enum mmul_status status = MMUL_OK;
    bool has_text = false;
    (void)builtin;
    *result = (struct mmul_object){.kind = MMUL_OBJECT_NONE};
    for (int i = 0; status == MMUL_OK && i < MMUL_ARGUMENTS_MOST; i++) {
        if (arguments[i].node == NULL)
            continue;
        if (arguments[i].object.kind == MMUL_OBJECT_MATRIX) {
            status = show_matrix(e, arguments[i].node, &arguments[i].object);
            continue;
        }
        if (has_text)
            snprintf(text + strlen(text), sizeof text - strlen(text), " ");
        mmul_object_format(&arguments[i].object, text, sizeof text);
        has_text = true;
    }
    if (status == MMUL_OK && has_text)
        status = add_view(e, call, MMUL_VIEW_TEXT, &view);
    return status == MMUL_OK && has_text ? mmul_evaluator_copy_text(e, text, &view->text) : status;
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
    enum mmul_status status = numbers
                                  ? mmul_take_matrix(e, &arguments[0], "x")
                                  : mmul_take_real(e, &arguments[2], "tolerance", 0, &tolerance);
    if (status == MMUL_OK && !(tolerance >= 0))
        return mmul_evaluator_fail(e, arguments[2].node, "tolerance must be at least 0");
    if (status == MMUL_OK)
        status = mmul_apply_elements(e, call, "subtract", arguments, 2, &difference.object);
    if (status == MMUL_OK)
        status = mmul_apply_elements(e, call, "abs", &difference, 1, &size.object);
    if (status == MMUL_OK)
        status = mmul_reduce_all(e, call, "max", &size.object, &largest);
    if (status == MMUL_OK)
        status = add_view(e, call, MMUL_VIEW_CLOSE, &view);
    if (status != MMUL_OK)
        return status;
    view->tolerance = tolerance;
    view->statistics = mmul_arena_allocate(e->arena, sizeof *view->statistics, e->err);
    return view->statistics != NULL ? fetch(e, call, &largest, view->statistics) : e->err->status;
}
