// SPDX-License-Identifier: MIT
// Variables of the program and its functions: binding, lookup, and the error for an unknown name
// with its suggestions.
#include <string.h>

#include "base/status.h"
#include "tensor/builtins.h"
#include "tensor/script.h"

static struct mmul_binding *find_binding(const struct mmul_frame *frame, const char *name) {
    for (struct mmul_binding *b = frame->bindings; b != NULL; b = b->next)
        if (strcmp(b->name, name) == 0)
            return b;
    return NULL;
}

enum mmul_status mmul_evaluator_bind(struct mmul_evaluator *e, const char *name,
                                     const struct mmul_object *object) {
    struct mmul_binding *binding = find_binding(e->frame, name);
    if (binding == NULL) {
        struct mmul_arena *arena = e->frame == e->top ? &e->script->arena : e->arena;
        binding = mmul_arena_allocate(arena, sizeof *binding, e->err);
        if (binding == NULL)
            return e->err->status;
        binding->name = name;
        binding->next = e->frame->bindings;
        e->frame->bindings = binding;
    }
    binding->object = *object;
    return MMUL_OK;
}

static enum mmul_status fail_unknown(struct mmul_evaluator *e, const struct mmul_node *node) {
    enum { MOST = 250 };
    const char *names[MOST + 1] = {NULL};
    int count = 0, builtins = 0;
    const struct mmul_builtin *table = mmul_builtins(&builtins);
    for (const struct mmul_frame *f = e->frame; f != NULL; f = f == e->top ? NULL : e->top)
        for (const struct mmul_binding *b = f->bindings; b != NULL && count < MOST - builtins;
             b = b->next)
            names[count++] = b->name;
    for (int i = 0; i < builtins; i++)
        names[count++] = table[i].name;
    const char *instead = mmul_refusal_find_alternative(node->text),
               *nearest = mmul_nearest(node->text, names);
    mmul_evaluator_fail(e, node, "unknown name '%s'", node->text);
    if (instead != NULL)
        mmul_hint(e->err, "%s", instead);
    else if (nearest != NULL)
        mmul_hint(e->err, "'%s'?", nearest);
    return MMUL_ERR_DATA;
}

enum mmul_status mmul_evaluator_read(struct mmul_evaluator *e, const struct mmul_node *node,
                                     struct mmul_object *result) {
    const struct mmul_binding *binding = find_binding(e->frame, node->text);
    int count = 0;
    const struct mmul_builtin *table = mmul_builtins(&count);
    if (binding == NULL && e->frame->function != NULL) {
        // As in Python, an assignment anywhere makes the name local to the whole function.
        if (mmul_node_assigns(e->frame->function->last, node->text))
            return mmul_evaluator_fail(e, node, "'%s' is read before it is assigned", node->text);
        binding = find_binding(e->top, node->text);
    }
    if (binding != NULL && binding->object.is_unknown) {
        mmul_evaluator_fail(e, node, "'%s' was assigned only inside a loop(...) that has ended",
                            node->text);
        mmul_hint(e->err, "assign it before the loop as well to keep it afterwards");
        return MMUL_ERR_DATA;
    }
    if (binding != NULL && binding->object.kind != MMUL_OBJECT_FUNCTION) {
        *result = binding->object;
        return MMUL_OK;
    }
    bool is_function =
        binding != NULL || strcmp(node->text, "range") == 0 || strcmp(node->text, "loop") == 0;
    for (int i = 0; i < count; i++)
        is_function |= strcmp(table[i].name, node->text) == 0;
    if (is_function)
        return mmul_evaluator_fail(e, node, "'%s' is a function: it can only be called",
                                   node->text);
    return fail_unknown(e, node);
}
