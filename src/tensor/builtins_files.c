// SPDX-License-Identifier: MIT
// Files and kept sets: what goes in and out.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "model/matrix.h"
#include "tensor/builtins.h"
#include "tensor/jobs.h"
#include "tensor/targets.h"

// ----------------------------------------------------------------------------------------- files

enum mmul_status mmul_target_find_file(struct mmul_evaluator *e, const char *path, size_t length,
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

// A file that the text writes is not there yet, and is written once.
static enum mmul_status find_target(struct mmul_evaluator *e, const struct mmul_node *at,
                                    const char *what, struct mmul_target *target) {
    bool several;
    size_t length = mmul_output_file_length(target->path, &several, &target->tensor);
    enum mmul_status status = mmul_target_find_file(e, target->path, length, &target->file);
    for (const struct mmul_script_output *o = e->script->outputs; status == MMUL_OK && o != NULL;
         o = o->next) {
        if (strcmp(o->file, target->file) != 0)
            continue;
        bool is_same =
            strcmp(what, "load") == 0 || o->is_checkpoint || strcmp(o->tensor, target->tensor) == 0;
        if (!is_same || e->script->is_first_reading) { // that reads what runs once more than once
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

static struct mmul_object object_of(struct mmul_evaluator *e, const struct mmul_script_file *file) {
    struct mmul_object object = mmul_matrix_object(e, file->value, file->axes);
    object.is_row = file->matrix != NULL && mmul_matrix_info(file->matrix).one_dimensional;
    return object;
}

enum mmul_status mmul_target_copy_text(struct mmul_evaluator *e, const char **text) {
    const char *copy = mmul_arena_copy_text(&e->script->arena, *text, e->err);
    if (copy == NULL)
        return e->err->status;
    *text = copy;
    return MMUL_OK;
}

// Makes it a value of the program at hand.
static enum mmul_status add_file(struct mmul_evaluator *e, struct mmul_script_file *file) {
    file->job = e->job;
    if (file->matrix != NULL)
        return mmul_program_load(e->program, file->matrix, &file->value, e->err);
    return mmul_program_load_kept(e->program, e->script->shard_folder, mmul_kept_name(file->path),
                                  &file->value, e->err);
}

// Standard input can be read once: a first reading of the text leaves it open for the second one.
static enum mmul_status open_file(struct mmul_evaluator *e, struct mmul_script_file *file) {
    struct mmul_script *later = mmul_path_is_stdin(file->path) ? e->script->later : NULL;
    struct mmul_inputs *inputs = later != NULL ? later->inputs : e->script->inputs;
    if (mmul_inputs_open_matrix(inputs, file->path, &file->matrix, e->err) != MMUL_OK)
        return e->err->status;
    if (later == NULL)
        return MMUL_OK;
    struct mmul_script_file *left = mmul_arena_allocate(&later->arena, sizeof *left, e->err);
    char *path = mmul_arena_copy_text(&later->arena, file->path, e->err);
    if (left == NULL || path == NULL) {
        mmul_matrix_close(file->matrix);
        return e->err->status;
    }
    *left = (struct mmul_script_file){.path = path,
                                      .matrix = file->matrix,
                                      .axes = mmul_matrix_info(file->matrix).dimensions,
                                      .job = INT_MIN, // of no program
                                      .next = later->files};
    later->files = left;
    file->is_borrowed = true;
    return MMUL_OK;
}

enum mmul_status mmul_builtin_load(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                   const struct mmul_node *call,
                                   const struct mmul_argument *arguments,
                                   struct mmul_object *result) {
    const char *path = NULL;
    (void)builtin;
    enum mmul_status status = mmul_take_text(e, &arguments[0], "file", NULL, &path);
    struct mmul_target target = {.path = path};
    if (status == MMUL_OK && !mmul_path_is_stdin(path))
        status = find_target(e, call, "load", &target);
    if (status != MMUL_OK)
        return status;
    for (struct mmul_script_file *f = e->script->files; f != NULL; f = f->next)
        if (strcmp(f->path, path) == 0) {
            if (f->job != e->job && add_file(e, f) != MMUL_OK)
                return mmul_evaluator_locate(e, call);
            *result = object_of(e, f);
            return MMUL_OK;
        }
    struct mmul_script_file *file = mmul_arena_allocate(&e->script->arena, sizeof *file, e->err);
    if (file == NULL || mmul_target_copy_text(e, &path) != MMUL_OK)
        return e->err->status;
    file->path = path;
    if (mmul_kept_name(path) != NULL) {
        if (add_file(e, file) != MMUL_OK)
            return mmul_evaluator_locate(e, call);
        const struct mmul_shape s = mmul_program_value_shape(e->program, file->value, NULL);
        file->axes = mmul_shape_axes(s);
        file->next = e->script->files;
        e->script->files = file;
        *result = mmul_matrix_object(e, file->value, file->axes);
        return MMUL_OK;
    }
    if (open_file(e, file) != MMUL_OK)
        return mmul_evaluator_locate(e, call);
    file->next = e->script->files;
    e->script->files = file;
    if (add_file(e, file) != MMUL_OK)
        return mmul_evaluator_locate(e, call);
    file->axes = mmul_matrix_info(file->matrix).dimensions;
    *result = object_of(e, file);
    return MMUL_OK;
}

// Of the text outside of loops, before one of them: files have their names when all of it has run.
static bool waits(const struct mmul_evaluator *e, const struct mmul_node *at) {
    return e->loops == 0 && at->at.begin < e->script->last_loop;
}

// The program writes `x` there; the output is the script's from here on. NULL: a set that is kept.
static enum mmul_status add_output(struct mmul_evaluator *e, const struct mmul_node *at,
                                   const struct mmul_target *target, const struct mmul_object *x,
                                   struct mmul_output *output) {
    struct mmul_script_output *added =
        mmul_arena_allocate(&e->script->arena, sizeof *added, e->err);
    if (added == NULL) {
        mmul_output_destroy(output);
        return e->err->status;
    }
    added->output = output;
    added->path = target->path;
    added->file = target->file;
    added->tensor = target->tensor;
    added->matrix = *x;
    added->is_waiting = waits(e, at);
    added->line = mmul_source_line(e->source, at->at.begin);
    added->next = e->script->outputs;
    e->script->outputs = added;
    if (mmul_target_copy_text(e, &added->path) != MMUL_OK ||
        mmul_target_copy_text(e, &added->file) != MMUL_OK ||
        mmul_target_copy_text(e, &added->tensor) != MMUL_OK)
        return e->err->status;
    const int value = added->is_waiting ? -1 : mmul_job_value(e, at, x);
    if (added->is_waiting || value < 0)
        return added->is_waiting ? MMUL_OK : e->err->status;
    if ((output != NULL ? mmul_program_save(e->program, value, output, e->err)
                        : mmul_program_keep(e->program, value, mmul_kept_name(added->path),
                                            e->script->no_sync, e->err)) != MMUL_OK)
        return mmul_evaluator_locate(e, at);
    return MMUL_OK;
}

enum mmul_dtype mmul_target_type(struct mmul_evaluator *e, const struct mmul_object *x) {
    bool integers = false;
    const int value = mmul_job_value(e, NULL, x);
    if (value < 0)
        return MMUL_F32;
    mmul_program_value_shape(e->program, value, &integers);
    return integers ? MMUL_I32 : mmul_program_value_dtype(e->program, value);
}

// What its file holds: a 16-bit type that is asked for, or that all inputs have, where that is asked for, is enough.
static enum mmul_dtype saved_type(struct mmul_evaluator *e, const struct mmul_object *x) {
    const enum mmul_dtype computed = mmul_target_type(e, x);
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
    if (status != MMUL_OK &&
        strncmp(e->err->hint, "--format", strlen("--format")) == 0) // of others
        mmul_hint(e->err, "\"%.*s.npy\": the ending says what is written",
                  (int)(strrchr(path, '.') - path), path);
    if (status != MMUL_OK || dtype != MMUL_F64 || mmul_format_holds(format, dtype) == dtype)
        return status;
    mmul_fail(e->err, MMUL_ERR_USAGE, "cannot write '%s' as float64: %s has no such type", path,
              mmul_format_ending(format));
    mmul_hint(e->err, "--dtype float32 computes in float32");
    return e->err->status;
}

static enum mmul_status begin_file(struct mmul_evaluator *e, const struct mmul_target *target,
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
                                                .dtype = target->dtype,
                                                .inputs = inputs,
                                                .input_count = count,
                                                .dimensions = x->axes,
                                                .metadata = target->metadata};
    enum mmul_status status = mmul_output_create(&request, output, e->err);
    if (status == MMUL_OK)
        mmul_output_set_sync(*output, !e->script->no_sync);
    return status;
}

enum mmul_status mmul_target_begin(struct mmul_evaluator *e, const struct mmul_node *at,
                                   const struct mmul_target *target, const struct mmul_object *x,
                                   struct mmul_output **output) {
    const enum mmul_status status =
        e->script->only_checked ? mmul_output_borrow(NULL, x->shape, target->dtype, output, e->err)
                                : begin_file(e, target, x, output);
    if (status != MMUL_OK)
        mmul_source_locate(e->source, at->at, e->err);
    return status;
}

enum mmul_status mmul_builtin_save(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                   const struct mmul_node *call,
                                   const struct mmul_argument *arguments,
                                   struct mmul_object *result) {
    const struct mmul_object *x = &arguments[1].object;
    struct mmul_target target = {.tensor = ""};
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
        return add_output(e, call, &target, x, NULL); // one that may have been read before
    e->script->writes_stdout |= mmul_path_is_stdout(target.path);
    if (check_type(e, target.path, mmul_target_type(e, x)) != MMUL_OK) {
        mmul_source_locate(e->source, call->at, e->err);
        return e->err->status;
    }
    target.dtype = saved_type(e, x);
    status = mmul_target_begin(e, call, &target, x, &output);
    return status == MMUL_OK ? add_output(e, call, &target, x, output) : status;
}
