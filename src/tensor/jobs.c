// SPDX-License-Identifier: MIT
// The transition from one program to the next: held values, names, carried structure, outputs.
// Nothing here evaluates a node.
#include "tensor/jobs.h"

#include <stdio.h>
#include <string.h>

#include "base/ending.h"
#include "base/memory.h"
#include "base/status.h"
#include "model/program.h"
#include "mpimatmul.h"
#include "tensor/script.h"

// ----------------------------------------------------------------------------------------- values

// A held value that the current program has loaded.
struct mmul_loaded_value {
    int64_t held;
    int value;
    struct mmul_loaded_value *next;
};

static enum mmul_status load_held(struct mmul_evaluator *e, const struct mmul_object *matrix,
                                  int *value) {
    struct mmul_loaded_value *leaf = e->leaves;
    while (leaf != NULL && leaf->held != matrix->held)
        leaf = leaf->next;
    if (leaf == NULL) {
        char name[48];
        leaf = mmul_arena_allocate(e->arena, sizeof *leaf, e->err);
        if (leaf == NULL)
            return e->err->status;
        snprintf(name, sizeof name, "%s", matrix->text != NULL ? matrix->text : "a value");
        if (mmul_program_load_held(e->program, e->context, matrix->held, name, &leaf->value,
                                   e->err) != MMUL_OK)
            return e->err->status;
        leaf->held = matrix->held;
        leaf->next = e->leaves;
        e->leaves = leaf;
        e->uses++;
    }
    *value = leaf->value;
    return MMUL_OK;
}

int mmul_job_value(struct mmul_evaluator *e, const struct mmul_node *at,
                   const struct mmul_object *matrix) {
    int value = matrix->value;
    if (matrix->parts != NULL && e->apart == NULL && at != NULL) {
        mmul_evaluator_fail(e, at, "this value differs between the nodes");
        mmul_hint(e->err, "average(x) combines them");
        return -1;
    }
    if (matrix->job == e->job)
        return value;
    if (load_held(e, matrix, &value) == MMUL_OK)
        return value;
    if (at != NULL)
        mmul_evaluator_locate(e, at);
    return -1;
}

// ---------------------------------------------------------------------------------------- holding

static enum mmul_status find_hold(struct mmul_evaluator *e, struct mmul_held_values *holds,
                                  int value, int64_t *held) {
    for (int i = 0; i < holds->count; i++)
        if (holds->all[i].value == value) {
            *held = holds->all[i].held;
            return MMUL_OK;
        }
    if (holds->count == holds->capacity) {
        struct mmul_held_value *more = NULL;
        const int capacity = 2 * holds->capacity + 16;
        if (MMUL_ALLOCATE(more, capacity, "held values", e->err) != MMUL_OK)
            return e->err->status;
        if (holds->count > 0)
            memcpy(more, holds->all, (size_t)holds->count * sizeof *more);
        mmul_free(holds->all);
        holds->all = more;
        holds->capacity = capacity;
    }
    *held = holds->like != NULL ? holds->like->all[holds->count].held : 0;
    if (mmul_program_hold(e->program, value, held, e->err) != MMUL_OK)
        return e->err->status;
    mmul_program_hold_exact(e->program,
                            mmul_held_types_is_double(e->script->foreseen, holds->place));
    holds->all[holds->count++] = (struct mmul_held_value){value, *held};
    return MMUL_OK;
}

// Copies the elements of a tuple to the next job's memory and holds its matrices.
static enum mmul_status hold_items(struct mmul_evaluator *e, struct mmul_held_values *holds,
                                   const struct mmul_object *x, struct mmul_object *held) {
    struct mmul_object *items =
        mmul_arena_allocate(e->next_arena, (size_t)x->count * sizeof *items + 1, e->err);
    if (items == NULL)
        return e->err->status;
    for (int i = 0; i < x->count; i++)
        if (mmul_held_values_add(e, holds, &x->items[i], &items[i]) != MMUL_OK)
            return e->err->status;
    held->items = items;
    return MMUL_OK;
}

enum mmul_status mmul_held_values_add(struct mmul_evaluator *e, struct mmul_held_values *holds,
                                      const struct mmul_object *x, struct mmul_object *held) {
    *held = *x;
    if (x->kind == MMUL_OBJECT_MATRIX) {
        const enum mmul_status status =
            x->job == e->job ? find_hold(e, holds, x->value, &held->held) : MMUL_OK;
        holds->place.index++;
        return status;
    }
    if (x->kind == MMUL_OBJECT_STRING) {
        held->text = mmul_arena_copy_text(e->next_arena, x->text, e->err);
        if (held->text == NULL)
            return e->err->status;
    }
    return x->items != NULL ? hold_items(e, holds, x, held) : MMUL_OK;
}

// Returns true if an expression behind position `from`, or any function, reads the name.
static bool is_read(const struct mmul_node *node, const char *name, int from) {
    from = node->kind == MMUL_NODE_DEF ? 0 : from;
    if (node->kind == MMUL_NODE_NAME && node->at.begin >= from && strcmp(node->text, name) == 0)
        return true;
    for (const struct mmul_node *child = node->first; child != NULL; child = child->next)
        if (is_read(child, name, from))
            return true;
    return false;
}

bool mmul_job_reads_name(const struct mmul_evaluator *e, const char *name) {
    return is_read(e->tree->root, name, e->loop_begin);
}

static enum mmul_status hold_all(struct mmul_evaluator *e, struct mmul_held_values *holds) {
    holds->place.name = "";
    for (struct mmul_pinned_object *pin = e->pinned_objects; pin != NULL; pin = pin->outer) {
        struct mmul_object held;
        if (mmul_held_values_add(e, holds, pin->object, &held) != MMUL_OK)
            return e->err->status;
        *pin->object = held;
    }
    for (struct mmul_binding *b = e->top->bindings; b != NULL; b = b->next) {
        struct mmul_object held;
        if (b->object.kind == MMUL_OBJECT_NONE)
            continue;
        if (!mmul_job_reads_name(e, b->name)) {
            if (b->object.kind == MMUL_OBJECT_MATRIX || b->object.items != NULL)
                b->object = (struct mmul_object){.kind = MMUL_OBJECT_NONE, .is_unknown = true};
            continue;
        }
        holds->place.name = b->name;
        holds->place.index = 0;
        if (mmul_held_values_add(e, holds, &b->object, &held) != MMUL_OK)
            return e->err->status;
        b->object = held;
    }
    holds->place.name = NULL;
    for (struct mmul_script_output *o = e->script->outputs; o != NULL; o = o->next) {
        struct mmul_object held;
        if (!o->is_deferred)
            continue;
        if (mmul_held_values_add(e, holds, &o->matrix, &held) != MMUL_OK)
            return e->err->status;
        o->matrix = held;
    }
    return MMUL_OK;
}

// --------------------------------------------------------------------------------------- releasing

static bool has_held(const struct mmul_object *x, int64_t held) {
    if (x->kind == MMUL_OBJECT_MATRIX)
        return x->held == held;
    for (int i = 0; x->items != NULL && i < x->count; i++)
        if (has_held(&x->items[i], held))
            return true;
    return false;
}

static bool is_referenced(const struct mmul_evaluator *e, int64_t held) {
    for (const struct mmul_pinned_object *pin = e->pinned_objects; pin != NULL; pin = pin->outer)
        if (has_held(pin->object, held))
            return true;
    for (const struct mmul_binding *b = e->top->bindings; b != NULL; b = b->next)
        if (has_held(&b->object, held))
            return true;
    for (const struct mmul_script_output *o = e->script->outputs; o != NULL; o = o->next)
        if (o->is_deferred && has_held(&o->matrix, held))
            return true;
    for (const struct mmul_skipped_step *l = e->skipped_steps; l != NULL; l = l->next)
        if (has_held(&l->marks, held))
            return true;
    return false;
}

enum mmul_status mmul_held_values_commit(struct mmul_evaluator *e,
                                         const struct mmul_held_values *holds, bool releases) {
    int64_t *left = NULL;
    int count = 0;
    if (MMUL_ALLOCATE(left, e->script->held_count + holds->count + 1, "held values", e->err) !=
        MMUL_OK)
        return e->err->status;
    for (int i = 0; i < e->script->held_count; i++)
        if (!releases || is_referenced(e, e->script->held[i]))
            left[count++] = e->script->held[i];
        else
            mmul_context_release(e->script->runner.context, e->script->held[i]);
    for (int i = 0; i < holds->count; i++)
        left[count++] = holds->all[i].held;
    mmul_free(e->script->held);
    e->script->held = left;
    e->script->held_count = count;
    return MMUL_OK;
}

// ------------------------------------------------------------------------ replicated on every node

static enum mmul_status spread_matrix(struct mmul_evaluator *e, const struct mmul_node *at,
                                      const struct mmul_object *x, struct mmul_object *spread) {
    const struct mmul_placement_request on_all = {.kind = MMUL_PLACE_REPLICATE, .on_all = true};
    const int value = mmul_job_value(e, at, x);
    char name[48];
    if (value < 0)
        return e->err->status;
    if (mmul_program_place_as(e->program, value, &on_all, mmul_evaluator_name(e, at, name),
                              &spread->value, e->err) != MMUL_OK)
        return mmul_evaluator_locate(e, at);
    spread->job = e->job;
    spread->held = 0;
    spread->is_whole = true;
    e->uses++;
    return MMUL_OK;
}

enum mmul_status mmul_job_replicate(struct mmul_evaluator *e, const struct mmul_node *at,
                                    const struct mmul_object *x, struct mmul_object *spread) {
    *spread = *x;
    if (x->kind == MMUL_OBJECT_MATRIX)
        return x->is_whole ? MMUL_OK : spread_matrix(e, at, x, spread);
    if (x->kind != MMUL_OBJECT_TUPLE)
        return MMUL_OK;
    struct mmul_object *items =
        mmul_arena_allocate(e->arena, (size_t)x->count * sizeof *items + 1, e->err);
    if (items == NULL)
        return e->err->status;
    for (int i = 0; i < x->count; i++)
        if (mmul_job_replicate(e, at, &x->items[i], &items[i]) != MMUL_OK)
            return e->err->status;
    spread->items = items;
    return MMUL_OK;
}

// ----------------------------------------------------------------------------------- carried names

enum first { NEITHER, READ, ASSIGNED };

// Returns how an iteration first uses a name that was bound before the loop.
static enum first find_first(const struct mmul_node *node, const char *name) {
    enum first first = NEITHER, other = NEITHER;
    switch (node->kind) {
    case MMUL_NODE_BLOCK:
        for (const struct mmul_node *s = node->first; first == NEITHER && s != NULL; s = s->next)
            first = find_first(s, name);
        return first;
    case MMUL_NODE_ASSIGN:
        first = is_read(node->last, name, 0) ? READ : NEITHER;
        return first == NEITHER && mmul_node_assigns(node, name) ? ASSIGNED : first;
    case MMUL_NODE_FOR:
        first = is_read(node->first->next, name, 0) ? READ : NEITHER;
        if (first == NEITHER && mmul_assignment_has_name(node->first, name))
            return ASSIGNED;
        return first == NEITHER ? find_first(node->last, name) : first;
    case MMUL_NODE_IF:
        if (is_read(node->first, name, 0))
            return READ;
        first = find_first(node->first->next, name);
        other = node->last != node->first->next ? find_first(node->last, name) : NEITHER;
        return first == READ || other == READ ? READ : first == other ? first : NEITHER;
    default:
        return is_read(node, name, 0) ? READ : NEITHER;
    }
}

static bool is_parameter(const struct mmul_node *function, const char *name) {
    for (const struct mmul_node *p = function->first->first; p != NULL; p = p->next)
        if (strcmp(p->text, name) == 0)
            return true;
    return false;
}

// A function may read a global name wherever it is called, unless the name is local to it.
bool mmul_functions_read_name(const struct mmul_evaluator *e, const char *name) {
    for (const struct mmul_node *s = e->tree->root->first; s != NULL; s = s->next)
        if (s->kind == MMUL_NODE_DEF && !is_parameter(s, name) &&
            !mmul_node_assigns(s->last, name) && is_read(s->last, name, 0))
            return true;
    return false;
}

enum mmul_status mmul_carried_find(struct mmul_evaluator *e, const struct mmul_node *loop,
                                   struct mmul_carried *carried) {
    int count = 0;
    *carried = (struct mmul_carried){NULL};
    for (struct mmul_binding *b = e->top->bindings; b != NULL; b = b->next)
        count++;
    if (MMUL_ALLOCATE(carried->names, count + 1, "names", e->err) != MMUL_OK)
        return e->err->status;
    for (struct mmul_binding *b = e->top->bindings; b != NULL; b = b->next)
        if (!b->object.is_unknown && mmul_node_assigns(loop, b->name))
            carried->names[carried->count++] =
                (struct mmul_carried_name){.binding = b,
                                           .is_new = find_first(loop->last, b->name) == ASSIGNED &&
                                                     !mmul_functions_read_name(e, b->name)};
    return MMUL_OK;
}

enum mmul_status mmul_copy_structure(struct mmul_evaluator *e, struct mmul_arena *arena,
                                     const struct mmul_object *x, struct mmul_object *copy) {
    *copy = *x;
    copy->text = NULL;
    if (x->kind != MMUL_OBJECT_TUPLE)
        return MMUL_OK;
    struct mmul_object *items =
        mmul_arena_allocate(arena, (size_t)x->count * sizeof *items + 1, e->err);
    if (items == NULL)
        return e->err->status;
    for (int i = 0; i < x->count; i++)
        if (mmul_copy_structure(e, arena, &x->items[i], &items[i]) != MMUL_OK)
            return e->err->status;
    copy->items = items;
    return MMUL_OK;
}

enum mmul_status mmul_carried_begin_turn(struct mmul_evaluator *e, struct mmul_carried *carried) {
    enum mmul_status status = MMUL_OK;
    mmul_arena_fini(&carried->arena);
    for (int i = 0; status == MMUL_OK && i < carried->count; i++)
        status = mmul_copy_structure(e, &carried->arena, &carried->names[i].binding->object,
                                     &carried->names[i].before);
    return status;
}

void mmul_carried_fini(struct mmul_carried *carried) {
    mmul_arena_fini(&carried->arena);
    mmul_free(carried->names);
}

bool mmul_objects_match(const struct mmul_object *x, const struct mmul_object *y) {
    if (mmul_object_is_number(x) && mmul_object_is_number(y))
        return true;
    bool alike = x->kind == y->kind && x->axes == y->axes && x->count == y->count;
    if (x->kind == MMUL_OBJECT_MATRIX)
        return alike && memcmp(&x->shape, &y->shape, sizeof x->shape) == 0;
    for (int i = 0; alike && x->kind == MMUL_OBJECT_TUPLE && i < x->count; i++)
        alike = mmul_objects_match(&x->items[i], &y->items[i]);
    return alike;
}

static enum mmul_status check_alike(struct mmul_evaluator *e, const struct mmul_node *loop,
                                    const struct mmul_carried_name *name) {
    const struct mmul_object *before = &name->before, *now = &name->binding->object;
    char here[96], there[96];
    const bool is_number = mmul_object_is_number(before) || mmul_object_is_one_element(before);
    if (mmul_objects_match(before, now) ||
        (is_number && (mmul_object_is_number(now) || mmul_object_is_one_element(now))))
        return MMUL_OK;
    if (before->kind == MMUL_OBJECT_MATRIX && now->kind == MMUL_OBJECT_MATRIX)
        return mmul_evaluator_fail(
            e, loop->first, "'%s' is %s at the beginning of a turn and %s at its end",
            name->binding->name, mmul_object_shape(before, here), mmul_object_shape(now, there));
    return mmul_evaluator_fail(
        e, loop->first,
        "'%s' is %s at the beginning of a turn but changes its structure, or is %s, at "
        "its end",
        name->binding->name, mmul_object_name(before), mmul_object_name(now));
}

enum mmul_status mmul_carried_end_turn(struct mmul_evaluator *e, const struct mmul_node *loop,
                                       const struct mmul_carried *carried) {
    for (int i = 0; i < carried->count; i++)
        if (!carried->names[i].is_new && carried->names[i].binding->name != loop->first->text &&
            check_alike(e, loop, &carried->names[i]) != MMUL_OK)
            return e->err->status;
    for (struct mmul_binding *b = e->top->bindings; b != NULL; b = b->next) {
        bool is_carried = !mmul_node_assigns(loop, b->name);
        for (int i = 0; !is_carried && i < carried->count; i++)
            is_carried = carried->names[i].binding == b;
        if (!is_carried)
            b->object = (struct mmul_object){.kind = MMUL_OBJECT_NONE, .is_unknown = true};
    }
    return MMUL_OK;
}

// -------------------------------------------------------------------------------------------- jobs

// Returns the start of the outermost `for` around a place, or the place itself. A Python `for`
// repeats the text before a loop(...) inside it, so that text is read again.
static int find_outermost_for(const struct mmul_node *around, int place) {
    while (around->kind != MMUL_NODE_FOR && around->first != NULL) {
        const struct mmul_node *inner = around->first;
        for (const struct mmul_node *n = inner; n != NULL && n->at.begin <= place; n = n->next)
            inner = n;
        around = inner;
    }
    return around->kind == MMUL_NODE_FOR ? around->at.begin : place;
}

void mmul_jobs_enter_loop(struct mmul_evaluator *e, const struct mmul_node *loop) {
    if (e->loops++ > 0)
        return;
    e->loop_begin = find_outermost_for(e->tree->root, loop->at.begin);
    e->arena = &e->arenas[0];
    e->next_arena = &e->arenas[1];
}

void mmul_jobs_leave_loop(struct mmul_evaluator *e) {
    // Named values stay in the script's memory until the end.
    if (--e->loops == 0)
        e->arena = &e->script->arena;
}

// Remembers in the file entry that its elements were rounded, because the program is destroyed now.
static void note_rounded(struct mmul_evaluator *e) {
    for (struct mmul_script_file *f = e->script->files; f != NULL; f = f->next)
        if (f->job == e->job)
            f->is_rounded |= mmul_program_is_rounded(e->program, f->value);
}

// Marks an output as written. After a checkpoint, an interrupted program can restart from it, so
// the message for that case is stored.
static void note_written(const struct mmul_script *script, struct mmul_script_output *o) {
    char text[256];
    if (o->is_checkpoint && o->output != NULL) {
        const bool is_restored =
            script->restored_file != NULL && strcmp(script->restored_file, o->file) == 0;
        snprintf(text, sizeof text, "%.*s holds turn %lld%s", (int)(o->tensor - o->path - 1),
                 o->path, (long long)o->turn,
                 is_restored ? ": the same command goes on from it" : "");
        mmul_make_printable(text);
        mmul_ending_keep(text);
    }
    o->output = NULL;
}

static enum mmul_status begin_program(struct mmul_evaluator *e) {
    struct mmul_script *script = e->script;
    note_rounded(e);
    mmul_program_destroy(script->program);
    mmul_script_temporaries_free(script);
    script->program = e->program = NULL;
    if (mmul_program_create(&script->program, e->err) != MMUL_OK)
        return e->err->status;
    e->program = script->program;
    if (script->use_float32)
        mmul_program_use_float32(e->program);
    e->job++;
    e->uses = e->operations = 0;
    e->leaves = NULL;
    script->views = script->last_view = script->next_view = NULL;
    script->is_owned_by_run = false;
    for (struct mmul_script_output *o = script->outputs; o != NULL; o = o->next)
        if (!o->is_deferred)
            note_written(e->script, o);
    return MMUL_OK;
}

enum mmul_status mmul_job_prefix_turn(struct mmul_evaluator *e, int64_t turn) {
    char text[sizeof e->err->text];
    memcpy(text, e->err->text, sizeof text);
    snprintf(e->err->text, sizeof e->err->text, "turn %lld: %.900s", (long long)turn, text);
    return e->err->status;
}

static enum mmul_status run_program(struct mmul_evaluator *e, const int64_t *turn) {
    struct mmul_script *script = e->script;
    script->is_over = e->uses == 0; // only text is printed, no matrix is used
    if (script->runner.run(script->runner.run_context, script, e->err) == MMUL_OK)
        return MMUL_OK;
    return turn != NULL ? mmul_job_prefix_turn(e, *turn) : e->err->status;
}

enum mmul_status mmul_job_run(struct mmul_evaluator *e, const struct mmul_node *at,
                              const int64_t *turn) {
    struct mmul_held_values holds = {.place = {.at = at->at.begin, .is_behind = turn != NULL}};
    enum mmul_status status = hold_all(e, &holds);
    if (status == MMUL_OK && (e->uses > 0 || e->script->views != NULL))
        status = run_program(e, turn);
    if (status == MMUL_OK)
        status = mmul_held_values_commit(e, &holds, true);
    if (status == MMUL_OK)
        status = begin_program(e);
    mmul_free(holds.all);
    // Everything that survives has been copied.
    if (status == MMUL_OK) {
        struct mmul_arena *over = e->arena;
        mmul_arena_fini(over);
        e->arena = e->next_arena;
        e->next_arena = over;
    }
    return status;
}

enum mmul_status mmul_jobs_end(struct mmul_evaluator *e) {
    note_rounded(e);
    for (struct mmul_script_output *o = e->script->outputs; o != NULL; o = o->next) {
        if (!o->is_deferred)
            continue;
        const int value = mmul_job_value(e, NULL, &o->matrix);
        if (value < 0)
            return e->err->status;
        o->is_deferred = false;
        enum mmul_status status =
            o->output != NULL ? mmul_program_save(e->program, value, o->output, e->err)
                              : mmul_program_keep(e->program, value, mmul_kept_name(o->path),
                                                  e->script->no_sync, e->err);
        if (status != MMUL_OK)
            return status;
    }
    return MMUL_OK;
}

void mmul_script_views_discard(struct mmul_script *script) {
    for (struct mmul_script_view *view = script->views; view != NULL; view = view->next)
        for (struct mmul_script_pending_value *a = view->awaited; a != NULL; a = a->next)
            if (!script->is_owned_by_run)
                mmul_output_destroy(a->output);
    script->views = script->last_view = script->next_view = NULL;
}

void mmul_jobs_fini(struct mmul_evaluator *e) {
    mmul_arena_fini(&e->arenas[0]);
    mmul_arena_fini(&e->arenas[1]);
}

void mmul_script_release_held(struct mmul_script *script) {
    for (int i = 0; i < script->held_count; i++)
        mmul_context_release(script->runner.context, script->held[i]);
    mmul_free(script->held);
}
