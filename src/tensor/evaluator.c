// SPDX-License-Identifier: MIT
// Helpers for all parts of the evaluator: errors and warnings with positions, display names, and
// the limits on memory and steps. The limits stop a text that would keep the evaluator busy for
// long.
#include "tensor/evaluator.h"

#include <stdarg.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "tensor/script.h"

enum mmul_status mmul_evaluator_fail(struct mmul_evaluator *e, const struct mmul_node *at,
                                     const char *format, ...) {
    char text[sizeof e->err->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return mmul_source_fail(e->source, at->at, e->err, "%s", text);
}

enum mmul_status mmul_evaluator_warn(struct mmul_evaluator *e, const struct mmul_node *at,
                                     const char *format, ...) {
    struct mmul_script_warning **end = &e->script->warnings;
    char place[96], *line;
    for (; *end != NULL; end = &(*end)->next)
        if ((*end)->begin == at->at.begin)
            return MMUL_OK;
    struct mmul_script_warning *warning =
        mmul_arena_allocate(&e->script->arena, sizeof *warning, e->err);
    line = warning != NULL ? mmul_arena_allocate(&e->script->arena, 256, e->err) : NULL;
    if (line == NULL)
        return e->err->status;
    const int used = snprintf(line, 256, "%s: ", mmul_source_place(e->source, at->at, place));
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + used, 256 - (size_t)used, format, arguments);
    va_end(arguments);
    warning->line = line;
    warning->begin = at->at.begin;
    *end = warning;
    return MMUL_OK;
}

enum mmul_status mmul_evaluator_locate(struct mmul_evaluator *e, const struct mmul_node *at) {
    if (e->err->status == MMUL_ERR_USAGE)
        e->err->status = MMUL_ERR_DATA;
    mmul_source_locate(e->source, at->at, e->err);
    return e->err->status;
}

const char *mmul_evaluator_name(const struct mmul_evaluator *e, const struct mmul_node *node,
                                char text[static 48]) {
    return node == e->named ? e->name : mmul_source_quote(e->source, node->at, text);
}

enum mmul_status mmul_evaluator_read_function(struct mmul_evaluator *e,
                                              const struct mmul_node *node,
                                              struct mmul_object *result) {
    const struct mmul_binding *binding = e->top->bindings;
    while (binding != NULL &&
           (node->kind != MMUL_NODE_NAME || strcmp(binding->name, node->text) != 0))
        binding = binding->next;
    if (binding == NULL || binding->object.kind != MMUL_OBJECT_FUNCTION)
        return mmul_evaluator_fail(e, node, "expected the name of a function defined in this file");
    *result = binding->object;
    return MMUL_OK;
}

enum mmul_status mmul_evaluator_tuple(struct mmul_evaluator *e, const struct mmul_object *items,
                                      int count, struct mmul_object *tuple) {
    struct mmul_object *copy =
        mmul_arena_allocate(e->arena, (size_t)count * sizeof *items + 1, e->err);
    if (copy == NULL)
        return e->err->status;
    if (count > 0)
        memcpy(copy, items, (size_t)count * sizeof *items);
    *tuple = (struct mmul_object){.kind = MMUL_OBJECT_TUPLE, .items = copy, .count = count};
    return MMUL_OK;
}

enum mmul_status mmul_evaluator_copy_text(struct mmul_evaluator *e, const char *text,
                                          const char **copy) {
    *copy = mmul_arena_copy_text(e->arena, text, e->err);
    return *copy != NULL ? MMUL_OK : e->err->status;
}

enum mmul_status mmul_evaluator_step(struct mmul_evaluator *e, const struct mmul_node *node) {
    enum { DEPTH_MOST = 4 * MMUL_NESTING_MOST };
    if (++e->steps > MMUL_STEPS_MOST)
        return mmul_evaluator_fail(e, node,
                                   "the program evaluates more than %d expressions and statements",
                                   MMUL_STEPS_MOST);
    if (e->depth >= DEPTH_MOST)
        return mmul_evaluator_fail(e, node, "calls are nested too deeply");
    return MMUL_OK;
}

bool mmul_assignment_has_name(const struct mmul_node *target, const char *name) {
    bool is_tuple = target->kind == MMUL_NODE_TUPLE;
    for (const struct mmul_node *n = is_tuple ? target->first : target; n != NULL;
         n = is_tuple ? n->next : NULL)
        if (strcmp(n->text, name) == 0)
            return true;
    return false;
}

bool mmul_node_assigns(const struct mmul_node *node, const char *name) {
    if ((node->kind == MMUL_NODE_ASSIGN || node->kind == MMUL_NODE_FOR) &&
        mmul_assignment_has_name(node->first, name))
        return true;
    if (node->kind != MMUL_NODE_BLOCK && node->kind != MMUL_NODE_FOR && node->kind != MMUL_NODE_IF)
        return false;
    for (const struct mmul_node *child = node->first; child != NULL; child = child->next)
        if (mmul_node_assigns(child, name))
            return true;
    return false;
}
