// SPDX-License-Identifier: MIT
// Collects the types of values in text order during the first reading, and chooses them at its end.
#include "tensor/held_types.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "model/program.h"
#include "tensor/jobs.h"
#include "tensor/script.h"

enum type { FITS_BOTH, FLOAT32, FLOAT64 };

struct note {
    struct mmul_held_place place;
    int group; // notes taken at the same moment
    int value;
    enum type type;
    int before;       // index of the same matrix before the iteration; -1 if unknown
    const char *file; // file of a checkpoint; NULL for none
    bool is_restored; // restored from the file; false: written to it
    bool is_double;   // result: the chosen type is float64
};

struct line {
    const char *text;
    struct line *next;
};

struct choice {
    const struct mmul_node *branch;
    bool is_true, is_free;
    struct choice *next;
};

struct mmul_held_types {
    struct mmul_arena arena; // holds names and lines
    struct note *notes;      // owned
    int count, capacity, groups;
    struct choice *choices, *tried; // `tried` only uses `branch`
    struct line *rounded;           // paths
    struct line *changes;           // in order of appearance
};

bool mmul_held_types_are_needed(const struct mmul_node *node) {
    if (node->kind == MMUL_NODE_NAME &&
        (strcmp(node->text, "loop") == 0 || strcmp(node->text, "apart") == 0 ||
         strcmp(node->text, "checkpoint") == 0))
        return true;
    for (const struct mmul_node *child = node->first; child != NULL; child = child->next)
        if (mmul_held_types_are_needed(child))
            return true;
    return false;
}

enum mmul_status mmul_held_types_create(struct mmul_held_types **foreseen, struct mmul_error *err) {
    return MMUL_ALLOCATE(*foreseen, 1, "types of values", err);
}

void mmul_held_types_destroy(struct mmul_held_types *foreseen) {
    if (foreseen == NULL)
        return;
    mmul_arena_fini(&foreseen->arena);
    mmul_free(foreseen->notes);
    mmul_free(foreseen);
}

static enum mmul_status add_line(struct mmul_held_types *f, struct line **end, const char *text,
                                 struct mmul_error *err) {
    struct line *made = mmul_arena_allocate(&f->arena, sizeof *made, err);
    if (made == NULL)
        return err->status;
    made->next = NULL;
    made->text = mmul_arena_copy_text(&f->arena, text, err);
    *end = made;
    return made->text != NULL ? MMUL_OK : err->status;
}

// ---------------------------------------------------------------------------------- first reading

static enum mmul_status grow_notes(struct mmul_held_types *f, struct mmul_error *err) {
    struct note *more = NULL;
    const int capacity = 2 * f->capacity + 64;
    if (f->count < f->capacity)
        return MMUL_OK;
    if (MMUL_ALLOCATE(more, capacity, "types of values", err) != MMUL_OK)
        return err->status;
    if (f->count > 0)
        memcpy(more, f->notes, (size_t)f->count * sizeof *more);
    mmul_free(f->notes);
    f->notes = more;
    f->capacity = capacity;
    return MMUL_OK;
}

static enum mmul_status note_object(struct mmul_evaluator *e, const struct mmul_object *x,
                                    struct mmul_held_place *place) {
    struct mmul_held_types *f = e->script->foreseen;
    enum mmul_status status = MMUL_OK;
    if (x->kind == MMUL_OBJECT_MATRIX) {
        const struct mmul_value *v = &e->program->values[x->value];
        if (grow_notes(f, e->err) != MMUL_OK)
            return e->err->status;
        f->notes[f->count++] = (struct note){.place = *place,
                                             .group = f->groups,
                                             .value = x->value,
                                             .type = v->has_open_type       ? FITS_BOTH
                                                     : v->dtype == MMUL_F64 ? FLOAT64
                                                                            : FLOAT32,
                                             .before = -1};
        place->index++;
    }
    for (int i = 0; x->items != NULL && status == MMUL_OK && i < x->count; i++)
        status = note_object(e, &x->items[i], place);
    return status;
}

enum mmul_status mmul_held_types_note(struct mmul_evaluator *e, const struct mmul_node *at,
                                      bool is_behind, const struct mmul_object *given) {
    struct mmul_held_types *f = e->script->foreseen;
    struct mmul_held_place place = {at->at.begin, is_behind, "", 0};
    enum mmul_status status = MMUL_OK;
    f->groups++;
    // Each group becomes a job of its own, with its own limits.
    e->steps = 0;
    e->operations = 0;
    if (given != NULL)
        status = note_object(e, given, &place);
    for (const struct mmul_binding *b = e->top->bindings; status == MMUL_OK && b != NULL;
         b = b->next) {
        if (b->object.kind != MMUL_OBJECT_MATRIX && b->object.kind != MMUL_OBJECT_TUPLE)
            continue;
        place.index = 0;
        place.name = mmul_arena_copy_text(&f->arena, b->name, e->err);
        status = place.name != NULL ? note_object(e, &b->object, &place) : e->err->status;
    }
    return status;
}

enum mmul_status mmul_held_types_note_state(struct mmul_evaluator *e, const struct mmul_node *at,
                                            const char *file, bool is_restored,
                                            const struct mmul_object *state) {
    struct mmul_held_types *f = e->script->foreseen;
    struct mmul_held_place place = {at->at.begin, false, "", 0};
    const int from = f->count;
    const char *copy = mmul_arena_copy_text(&f->arena, file, e->err);
    f->groups++;
    if (copy == NULL || note_object(e, state, &place) != MMUL_OK)
        return e->err->status;
    for (int i = from; i < f->count; i++) {
        f->notes[i].file = copy;
        f->notes[i].is_restored = is_restored;
    }
    return MMUL_OK;
}

// Returns the first note of the latest group of this loop before index `end`.
static int find_group(const struct mmul_held_types *f, int at, int end) {
    int last = end - 1;
    while (last >= 0 && f->notes[last].place.at != at)
        last--;
    int first = last;
    while (first > 0 && f->notes[first - 1].group == f->notes[last].group)
        first--;
    return first;
}

static bool is_carried(const struct mmul_carried *carried, const char *name) {
    if (carried == NULL)
        return *name == '\0';
    for (int i = 0; i < carried->count; i++)
        if (strcmp(carried->names[i].binding->name, name) == 0)
            return !carried->names[i].is_new;
    return false;
}

static enum mmul_status note_change(struct mmul_evaluator *e, const struct mmul_node *at,
                                    const struct note *before, const struct note *now) {
    struct mmul_held_types *f = e->script->foreseen;
    struct line **end = &f->changes;
    char text[256];
    if (before->type == FITS_BOTH || now->type == FITS_BOTH || before->type == now->type)
        return MMUL_OK;
    const char *name = *now->place.name != '\0' ? now->place.name : "the state";
    snprintf(text, sizeof text, "'%.100s' changes from %s to %s in %s of line %d", name,
             before->type == FLOAT64 ? "float64" : "float32",
             now->type == FLOAT64 ? "float64" : "float32",
             at->kind == MMUL_NODE_FOR ? "the loop" : "apart",
             mmul_source_line(e->source, at->at.begin));
    for (; *end != NULL; end = &(*end)->next)
        if (strcmp((*end)->text, text) == 0)
            return MMUL_OK;
    return add_line(f, end, text, e->err);
}

enum mmul_status mmul_held_types_end_turn(struct mmul_evaluator *e, const struct mmul_node *at,
                                          const struct mmul_object *given,
                                          const struct mmul_carried *carried, bool *is_settled) {
    struct mmul_held_types *f = e->script->foreseen;
    const int now = f->count;
    const int from = find_group(f, at->at.begin, now);
    enum mmul_status status = mmul_held_types_note(e, at, true, given);
    *is_settled = true;
    // Bindings are listed latest first, so reverse order is text order.
    for (int i = f->count - 1; status == MMUL_OK && from >= 0 && i >= now; i--) {
        struct note *n = &f->notes[i];
        int j = from;
        if (!is_carried(carried, n->place.name))
            continue;
        while (j < now && f->notes[j].group == f->notes[from].group &&
               (f->notes[j].place.index != n->place.index ||
                strcmp(f->notes[j].place.name, n->place.name) != 0))
            j++;
        if (j == now || f->notes[j].group != f->notes[from].group) {
            *is_settled = false; // a number became a matrix
            continue;
        }
        n->before = j;
        *is_settled &= f->notes[j].type == n->type;
        status = note_change(e, at, &f->notes[j], n);
    }
    return status;
}

bool mmul_held_types_has_branch(const struct mmul_held_types *foreseen,
                                const struct mmul_node *branch, bool is_true) {
    const struct choice *c = foreseen->choices;
    while (c != NULL && (c->branch != branch || c->is_true != is_true))
        c = c->next;
    return c != NULL;
}

static enum mmul_status add_choice(struct mmul_evaluator *e, const struct mmul_node *branch,
                                   bool is_true, bool is_free) {
    struct mmul_held_types *f = e->script->foreseen;
    if (mmul_held_types_has_branch(f, branch, is_true))
        return MMUL_OK;
    struct choice *made = mmul_arena_allocate(&f->arena, sizeof *made, e->err);
    if (made == NULL)
        return e->err->status;
    *made = (struct choice){branch, is_true, is_free, f->choices};
    f->choices = made;
    return MMUL_OK;
}

enum mmul_status mmul_held_types_note_branch(struct mmul_evaluator *e,
                                             const struct mmul_node *branch, bool is_true) {
    return add_choice(e, branch, is_true, false);
}

bool mmul_held_types_has_untried_branch(const struct mmul_held_types *foreseen,
                                        struct mmul_span part) {
    for (const struct choice *c = foreseen->choices; c != NULL; c = c->next)
        if (c->is_free && c->branch->at.begin >= part.begin && c->branch->at.begin < part.end &&
            !mmul_held_types_has_branch(foreseen, c->branch, !c->is_true))
            return true;
    return false;
}

int mmul_held_types_branch_count(const struct mmul_held_types *foreseen) {
    int count = 0;
    for (const struct choice *c = foreseen->choices; c != NULL; c = c->next)
        count++;
    return count;
}

bool mmul_held_types_try_branch(struct mmul_evaluator *e, const struct mmul_node *branch) {
    struct mmul_held_types *f = e->script->foreseen;
    for (const struct choice *c = f->tried; c != NULL; c = c->next)
        if (c->branch == branch)
            return false;
    struct mmul_error ignored;
    struct choice *made = mmul_arena_allocate(&f->arena, sizeof *made, &ignored);
    if (made == NULL)
        return false;
    *made = (struct choice){.branch = branch, .next = f->tried};
    f->tried = made;
    return true;
}

enum mmul_status mmul_held_types_choose_branch(struct mmul_evaluator *e,
                                               const struct mmul_node *branch, bool *is_true) {
    const struct mmul_held_types *f = e->script->foreseen;
    const bool is_first = !mmul_held_types_has_branch(f, branch, false);
    const bool is_second = !is_first && !mmul_held_types_has_branch(f, branch, true);
    *is_true =
        !is_first && (is_second || mmul_held_types_has_untried_branch(f, branch->first->next->at));
    return add_choice(e, branch, *is_true, true);
}

static bool is_of_one_place(struct mmul_held_place x, struct mmul_held_place y) {
    return x.at == y.at && x.index == y.index && strcmp(x.name, y.name) == 0;
}

// Returns true if the matrix of note `n` must be float64 at the beginning of any iteration.
static bool is_wanted_double(const struct mmul_held_types *f, const struct mmul_program *program,
                             const struct note *n) {
    for (int i = 0; i < f->count; i++) {
        if (f->notes[i].before < 0 || !is_of_one_place(f->notes[i].place, n->place))
            continue;
        const struct note *begin = &f->notes[f->notes[i].before];
        if (begin->type == FITS_BOTH && program->values[begin->value].dtype == MMUL_F64)
            return true;
    }
    return false;
}

static bool has_become_double(const struct mmul_program *program, const struct note *n) {
    return n->type == FLOAT64 ||
           (n->type == FITS_BOTH && program->values[n->value].dtype == MMUL_F64);
}

// Returns true if the matrix that note `n` writes to a checkpoint is float64 where it is restored.
static bool is_restored_double(const struct mmul_held_types *f, const struct mmul_program *program,
                               const struct note *n) {
    for (int i = 0; i < f->count; i++) {
        const struct note *r = &f->notes[i];
        if (r->file != NULL && r->is_restored && r->place.index == n->place.index &&
            strcmp(r->file, n->file) == 0 && has_become_double(program, r))
            return true;
    }
    return false;
}

// Propagates float64 backwards: from the beginning of an iteration to the end of the previous one,
// and from a restore to its checkpoint. The first reading skips iterations, so any of those it
// evaluated may be the next one.
static bool propagate_float64(const struct mmul_held_types *f, const struct mmul_program *program,
                              unsigned char *wants) {
    bool is_new = false;
    for (int i = 0; i < f->count; i++) {
        const struct note *n = &f->notes[i];
        if (n->type != FITS_BOTH || (wants[n->value] & MMUL_WANTS_F64) != 0)
            continue;
        if (!(n->before >= 0 && is_wanted_double(f, program, n)) &&
            !(n->file != NULL && !n->is_restored && is_restored_double(f, program, n)))
            continue;
        wants[n->value] |= MMUL_WANTS_F64;
        is_new = true;
    }
    return is_new;
}

enum mmul_status mmul_held_types_infer(struct mmul_held_types *foreseen, struct mmul_script *script,
                                       struct mmul_error *err) {
    struct mmul_program *program = script->program;
    unsigned char *wants = NULL;
    if (program == NULL)
        return MMUL_OK;
    enum mmul_status status = MMUL_ALLOCATE(wants, program->value_count + 1, "a program", err);
    if (status != MMUL_OK)
        return status;
    do
        mmul_program_choose_types(program, wants);
    while (propagate_float64(foreseen, program, wants));
    for (int i = 0; i < foreseen->count; i++) {
        struct note *n = &foreseen->notes[i];
        n->is_double = n->type == FITS_BOTH && program->values[n->value].dtype == MMUL_F64;
    }
    for (const struct mmul_script_file *file = script->files; status == MMUL_OK && file != NULL;
         file = file->next)
        if (file->value >= 0 && mmul_program_is_rounded(program, file->value)) {
            struct line *others = foreseen->rounded;
            status = add_line(foreseen, &foreseen->rounded, file->path, err);
            if (status == MMUL_OK)
                foreseen->rounded->next = others;
        }
    mmul_free(wants);
    return status;
}

// --------------------------------------------------------------------------------- second reading

bool mmul_held_types_is_double(const struct mmul_held_types *foreseen,
                               struct mmul_held_place place) {
    for (int i = 0; foreseen != NULL && place.name != NULL && i < foreseen->count; i++) {
        const struct note *n = &foreseen->notes[i];
        if (n->is_double && n->place.at == place.at && n->place.is_behind == place.is_behind &&
            n->place.index == place.index && strcmp(n->place.name, place.name) == 0)
            return true;
    }
    return false;
}

bool mmul_held_types_is_rounded(const struct mmul_held_types *foreseen, const char *path) {
    for (const struct line *l = foreseen->rounded; l != NULL; l = l->next)
        if (strcmp(l->text, path) == 0)
            return true;
    return false;
}

const char *mmul_held_types_change(const struct mmul_held_types *foreseen, int index) {
    const struct line *l = foreseen->changes;
    while (l != NULL && index-- > 0)
        l = l->next;
    return l != NULL ? l->text : NULL;
}
