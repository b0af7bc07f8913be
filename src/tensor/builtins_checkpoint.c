// SPDX-License-Identifier: MIT
// checkpoint and restore: a state, which is matrices in nested tuples, in one .safetensors file.
// Tensors are named by position, "0.3.1"; the metadata holds the next iteration. Each checkpoint
// replaces the whole file.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/status.h"
#include "model/matrix.h"
#include "model/program.h"
#include "tensor/builtins.h"
#include "tensor/jobs.h"
#include "tensor/save_targets.h"

enum { NAME_BYTES = 512 };

// ------------------------------------------------------------------------------------------ states

// A traversal of a state with a function per matrix. made: the object that replaces the matrix in
// the result.
struct walk {
    const struct mmul_node *at;
    enum mmul_status (*each)(struct mmul_evaluator *e, struct walk *walk, const char *name,
                             const struct mmul_object *x, struct mmul_object *made);
    const char *path;
    struct mmul_save_target target;  // destination of a checkpoint
    struct mmul_script_output *last; // output entries of the previous checkpoint, to be reused
    int64_t turn;
    int index;                          // index of the next matrix
    const struct mmul_tensors *tensors; // contents of the restored file
    bool *seen;                         // tensors that the state contains
    int64_t next;                       // expected index of the next tensor
};

static enum mmul_status walk_state(struct mmul_evaluator *e, struct walk *w, const char *name,
                                   const struct mmul_object *x, struct mmul_object *made) {
    if (x->kind == MMUL_OBJECT_MATRIX)
        return w->each(e, w, *name != '\0' ? name : "0", x, made);
    if (x->kind != MMUL_OBJECT_TUPLE)
        return mmul_evaluator_fail(e, w->at,
                                   "a state must consist of matrices and tuples of them, found %s",
                                   mmul_object_name(x));
    struct mmul_object *items =
        mmul_arena_allocate(e->arena, (size_t)x->count * sizeof *items + 1, e->err);
    if (items == NULL)
        return e->err->status;
    for (int i = 0; i < x->count; i++) {
        char longer[NAME_BYTES];
        if (snprintf(longer, sizeof longer, "%s%s%d", name, *name != '\0' ? "." : "", i) >=
            NAME_BYTES)
            return mmul_evaluator_fail(e, w->at, "the tuples of a state are nested too deeply");
        if (walk_state(e, w, longer, &x->items[i], &items[i]) != MMUL_OK)
            return e->err->status;
    }
    return mmul_evaluator_tuple(e, items, x->count, made);
}

static enum mmul_status read_file_argument(struct mmul_evaluator *e,
                                           const struct mmul_argument *argument, struct walk *w) {
    static const char ending[] = ".safetensors";
    enum mmul_status status = mmul_argument_get_text(e, argument, "file", NULL, &w->path);
    const size_t length = status == MMUL_OK ? strlen(w->path) : 0;
    if (status == MMUL_OK &&
        (length < sizeof ending || strcmp(w->path + length - strlen(ending), ending) != 0))
        status = mmul_evaluator_fail(e, argument->node,
                                     "the name of a checkpoint must end in .safetensors");
    return status == MMUL_OK ? mmul_save_target_resolve(e, w->path, length, &w->target.file)
                             : status;
}

// ------------------------------------------------------------------------------------- checkpoints

// Reuses the entries of an earlier checkpoint, so that a thousand checkpoints need the memory of
// one.
static enum mmul_status reuse_last(struct mmul_evaluator *e, struct walk *w) {
    struct mmul_script_output **place = &e->script->outputs;
    while (*place != NULL) {
        struct mmul_script_output *o = *place;
        if (strcmp(o->file, w->target.file) != 0 || e->script->only_checked) {
            place = &o->next;
            continue;
        }
        if (!o->is_checkpoint || o->output != NULL)
            return mmul_evaluator_fail(e, w->at, "cannot checkpoint to '%s': line %d saves it%s",
                                       w->path, o->line, o->is_checkpoint ? " in this turn" : "");
        *place = o->next;
        o->next = w->last;
        w->last = o;
    }
    return MMUL_OK;
}

static struct mmul_script_output *find_last(struct walk *w, const char *name) {
    for (struct mmul_script_output **place = &w->last; *place != NULL; place = &(*place)->next) {
        struct mmul_script_output *o = *place;
        if (strcmp(o->tensor, name) != 0)
            continue;
        *place = o->next;
        return o;
    }
    return NULL;
}

static enum mmul_status create_output(struct mmul_evaluator *e, const struct walk *w,
                                      const char *name, struct mmul_script_output **output) {
    struct mmul_script_output *made = mmul_arena_allocate(&e->script->arena, sizeof *made, e->err);
    const size_t bytes = strlen(w->path) + strlen(name) + 2;
    char *path = mmul_arena_allocate(&e->script->arena, bytes, e->err);
    if (made == NULL || path == NULL)
        return e->err->status;
    snprintf(path, bytes, "%s:%s", w->path, name);
    made->path = path;
    made->file = w->target.file;
    made->tensor = path + strlen(w->path) + 1;
    made->is_checkpoint = true;
    *output = made;
    return mmul_script_copy_text(e, &made->file);
}

// Returns the type in which a matrix of the state is saved. A later restore must find the same
// type, even if nothing in this program requires float64 yet.
static enum mmul_dtype choose_type(struct mmul_evaluator *e, struct walk *w,
                                   const struct mmul_object *x) {
    const struct mmul_held_place place = {w->at->at.begin, false, "", w->index++};
    const enum mmul_dtype dtype = mmul_save_target_dtype(e, x);
    const bool is_double = dtype == MMUL_F32 && !e->script->is_first_reading &&
                           mmul_held_types_is_double(e->script->foreseen, place);
    return is_double ? MMUL_F64 : dtype;
}

static enum mmul_status add_tensor(struct mmul_evaluator *e, struct walk *w, const char *name,
                                   const struct mmul_object *x, struct mmul_object *made) {
    char turn[24];
    const char *const metadata[] = {"turn", turn, NULL};
    struct mmul_script_output *o = find_last(w, name);
    const int value = mmul_job_value(e, w->at, x);
    *made = *x;
    if (value < 0 || (o == NULL && create_output(e, w, name, &o) != MMUL_OK))
        return e->err->status;
    snprintf(turn, sizeof turn, "%lld", (long long)w->turn);
    w->target.path = o->path;
    w->target.tensor = o->tensor;
    w->target.dtype = choose_type(e, w, x);
    w->target.metadata = w->target.beside == NULL ? metadata : NULL;
    if (mmul_save_target_create(e, w->at, &w->target, x, &o->output) != MMUL_OK)
        return e->err->status;
    w->target.beside = o->output;
    o->matrix = *x;
    o->turn = w->turn;
    o->line = mmul_source_line(e->source, w->at->at.begin);
    o->next = e->script->outputs;
    e->script->outputs = o;
    if (mmul_program_save(e->program, value, o->output, e->err) != MMUL_OK)
        return mmul_evaluator_locate(e, w->at);
    if (w->target.dtype == MMUL_F64)
        mmul_program_save_double(e->program);
    return MMUL_OK;
}

enum mmul_status mmul_builtin_checkpoint(struct mmul_evaluator *e,
                                         const struct mmul_builtin *builtin,
                                         const struct mmul_node *call,
                                         const struct mmul_argument *arguments,
                                         struct mmul_object *result) {
    struct walk w = {.at = call, .each = add_tensor};
    struct mmul_object ignored;
    (void)builtin;
    *result = (struct mmul_object){.kind = MMUL_OBJECT_NONE};
    enum mmul_status status = read_file_argument(e, &arguments[0], &w);
    if (status == MMUL_OK)
        status = mmul_argument_get_integer(e, &arguments[2], "turn", &w.turn);
    if (status == MMUL_OK && w.turn < 0)
        status = mmul_evaluator_fail(e, arguments[2].node, "turn must be at least 0");
    if (status == MMUL_OK && e->script->is_first_reading)
        status = mmul_held_types_note_state(e, call, w.target.file, false, &arguments[1].object);
    if (status == MMUL_OK)
        status = reuse_last(e, &w);
    if (status == MMUL_OK)
        status = walk_state(e, &w, "", &arguments[1].object, &ignored);
    return status == MMUL_OK && w.target.beside == NULL
               ? mmul_evaluator_fail(e, arguments[1].node,
                                     "a state must contain at least one matrix")
               : status;
}

// --------------------------------------------------------------------------------------- restoring

static bool find_tensor(struct walk *w, const char *name) {
    const int64_t count = mmul_tensors_info(w->tensors).count;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = (w->next + i) % count;
        if (strcmp(mmul_tensors_get(w->tensors, at).name, name) != 0)
            continue;
        w->seen[at] = true;
        w->next = at + 1;
        return true;
    }
    return false;
}

// A float64 tensor may restore a float32 state, which became float64 before it was saved.
static bool can_restore(enum mmul_dtype stored, enum mmul_dtype wanted) {
    return stored == wanted || (stored == MMUL_F64 && wanted == MMUL_F32);
}

static enum mmul_status check_tensor(struct mmul_evaluator *e, const struct walk *w,
                                     const char *name, const struct mmul_object *x,
                                     const struct mmul_matrix *matrix) {
    const struct mmul_matrix_info info = mmul_matrix_info(matrix);
    const struct mmul_object there = {
        .kind = MMUL_OBJECT_MATRIX, .shape = info.shape, .axes = info.dimensions};
    const enum mmul_dtype wanted = mmul_save_target_dtype(e, x);
    char is[96], was[96];
    if (there.axes != x->axes || !mmul_shape_equal(there.shape, x->shape))
        return mmul_evaluator_fail(e, w->at, "'%s' of '%s' is %s, but %s in the state", name,
                                   w->path, mmul_object_shape(&there, was),
                                   mmul_object_shape(x, is));
    if (!can_restore(info.stored, wanted))
        return mmul_evaluator_fail(e, w->at, "'%s' of '%s' is %s, but %s in the state", name,
                                   w->path, mmul_dtype_name(info.stored), mmul_dtype_name(wanted));
    return MMUL_OK;
}

// Loads a tensor as a matrix of the program. The file stays open until the job ends.
static enum mmul_status read_tensor(struct mmul_evaluator *e, struct walk *w, const char *name,
                                    const struct mmul_object *x, struct mmul_object *made) {
    struct mmul_matrix *matrix = NULL;
    int value = -1;
    if (!find_tensor(w, name))
        return mmul_evaluator_fail(e, w->at, "'%s' lacks '%s' of the state", w->path, name);
    if (mmul_script_open_tensor(e, w->at, w->path, name, &matrix) != MMUL_OK ||
        check_tensor(e, w, name, x, matrix) != MMUL_OK)
        return e->err->status;
    if (mmul_program_load(e->program, matrix, &value, e->err) != MMUL_OK)
        return mmul_evaluator_locate(e, w->at);
    *made = mmul_matrix_object(e, value, x->axes);
    made->is_row = x->is_row;
    return MMUL_OK;
}

static enum mmul_status read_turn(struct mmul_evaluator *e, struct walk *w) {
    const char *text = w->tensors != NULL ? mmul_tensors_metadata(w->tensors, "turn") : NULL;
    char *end = NULL;
    errno = 0;
    w->turn = text != NULL ? strtoll(text, &end, 10) : -1;
    if (text == NULL || end == text || *end != '\0' || w->turn < 0 || errno != 0)
        return mmul_evaluator_fail(e, w->at, "'%s' is no checkpoint: no turn is stored in it",
                                   w->path);
    return MMUL_OK;
}

static enum mmul_status restore_tensors(struct mmul_evaluator *e, struct walk *w,
                                        const struct mmul_object *initial,
                                        struct mmul_object *state) {
    const int64_t count = mmul_tensors_info(w->tensors).count;
    enum mmul_status status = MMUL_ALLOCATE(w->seen, count + 1, "a checkpoint", e->err);
    if (status == MMUL_OK)
        status = walk_state(e, w, "", initial, state);
    for (int64_t i = 0; status == MMUL_OK && i < count; i++)
        if (!w->seen[i])
            status = mmul_evaluator_fail(e, w->at, "'%s' has '%s', which is not in the state",
                                         w->path, mmul_tensors_get(w->tensors, i).name);
    mmul_free(w->seen);
    return status;
}

// Restores a state from one file, opened once.
static enum mmul_status restore_from_file(struct mmul_evaluator *e, struct walk *w,
                                          const struct mmul_object *initial,
                                          struct mmul_object *state) {
    struct mmul_tensors *tensors = NULL;
    enum mmul_status status =
        mmul_inputs_open_tensors(e->script->inputs, w->path, &tensors, e->err);
    if (status == MMUL_OK && tensors != NULL)
        status = mmul_tensors_check(tensors, e->err);
    if (status != MMUL_OK)
        mmul_evaluator_locate(e, w->at);
    w->tensors = tensors;
    if (status == MMUL_OK)
        status = read_turn(e, w);
    if (status == MMUL_OK)
        status = restore_tensors(e, w, initial, state);
    mmul_tensors_close(tensors);
    return status;
}

// Records the message about the restored iteration, if a file was restored.
static enum mmul_status note_restored(struct mmul_evaluator *e, const struct walk *w,
                                      bool is_there) {
    struct mmul_arena *arena = &e->script->arena;
    char line[512];
    e->script->restored_file = mmul_arena_copy_text(arena, w->target.file, e->err);
    if (e->script->restored_file == NULL || !is_there)
        return e->script->restored_file != NULL ? MMUL_OK : e->err->status;
    snprintf(line, sizeof line, "continues from turn %lld of '%.400s'", (long long)w->turn,
             w->path);
    e->script->restored_line = mmul_arena_copy_text(arena, line, e->err);
    return e->script->restored_line != NULL ? MMUL_OK : e->err->status;
}

enum mmul_status mmul_builtin_restore(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                      const struct mmul_node *call,
                                      const struct mmul_argument *arguments,
                                      struct mmul_object *result) {
    struct walk w = {.at = call, .each = read_tensor};
    struct mmul_object pair[] = {arguments[1].object, mmul_object_from_integer(0)};
    struct stat there;
    (void)builtin;
    enum mmul_status status = read_file_argument(e, &arguments[0], &w);
    const bool is_first_run = status == MMUL_OK && stat(w.path, &there) != 0 && errno == ENOENT;
    if (status == MMUL_OK && !is_first_run)
        status = restore_from_file(e, &w, &arguments[1].object, &pair[0]);
    if (status == MMUL_OK && e->script->is_first_reading)
        status = mmul_held_types_note_state(e, call, w.target.file, true, &pair[0]);
    if (status == MMUL_OK)
        status = note_restored(e, &w, !is_first_run);
    pair[1] = mmul_object_from_integer(w.turn);
    return status == MMUL_OK ? mmul_evaluator_tuple(e, pair, 2, result) : status;
}
