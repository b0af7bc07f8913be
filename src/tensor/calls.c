// SPDX-License-Identifier: MIT
// Calls: binds arguments to parameters as Python does, then runs the body of the function or the
// built-in function's row of the table.
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "tensor/builtins.h"
#include "tensor/evaluate.h"

// The parameters of a function, defined in the text or built in.
struct parameters {
    const char *function;
    const char *names[MMUL_TUPLE_MOST];
    bool is_optional[MMUL_TUPLE_MOST];
    int count;
    int positional;      // number of parameters that accept positional arguments
    const char *shown;   // signature of a built-in function for the hint; NULL for others
    bool takes_function; // the first argument is a function of the text
};

// Adds the signature to an error.
static enum mmul_status hint_parameters(struct mmul_evaluator *e,
                                        const struct parameters *parameters) {
    if (parameters->shown != NULL)
        mmul_hint(e->err, "%s(%s)", parameters->function, parameters->shown);
    return MMUL_ERR_DATA;
}

static enum mmul_status fail_keyword(struct mmul_evaluator *e, const struct mmul_node *at,
                                     const struct parameters *parameters) {
    const char *candidates[MMUL_TUPLE_MOST + 1] = {NULL};
    memcpy(candidates, parameters->names, (size_t)parameters->count * sizeof *candidates);
    const char *nearest = mmul_nearest(at->text, candidates);
    mmul_evaluator_fail(e, at, "%s has no parameter '%s'", parameters->function, at->text);
    hint_parameters(e, parameters);
    if (nearest != NULL)
        mmul_hint(e->err, "'%s'?", nearest);
    return MMUL_ERR_DATA;
}

static int find_parameter(const struct parameters *parameters, const char *name) {
    int i = 0;
    while (i < parameters->count && strcmp(parameters->names[i], name) != 0)
        i++;
    return i;
}

// Evaluates the arguments in order and stores each at the index of its parameter.
static enum mmul_status bind_arguments(struct mmul_evaluator *e, const struct mmul_node *call,
                                       const struct parameters *parameters,
                                       struct mmul_argument *arguments) {
    int position = 0;
    for (const struct mmul_node *n = call->first->next; n != NULL; n = n->next) {
        bool is_keyword = n->kind == MMUL_NODE_KEYWORD;
        int index = is_keyword ? find_parameter(parameters, n->text) : position++;
        if (index >= parameters->count && is_keyword)
            return fail_keyword(e, n, parameters);
        if (!is_keyword && index >= parameters->positional) {
            mmul_evaluator_fail(e, n, "%s takes at most %d argument%s", parameters->function,
                                parameters->positional, mmul_text_plural(parameters->positional));
            return hint_parameters(e, parameters);
        }
        if (arguments[index].node != NULL) {
            mmul_evaluator_fail(e, n, "%s: '%s' is given twice", parameters->function,
                                parameters->names[index]);
            return hint_parameters(e, parameters);
        }
        arguments[index].node = is_keyword ? n->first : n;
        enum mmul_status status =
            parameters->takes_function && index == 0
                ? mmul_evaluator_read_function(e, arguments[index].node, &arguments[index].object)
                : mmul_evaluate(e, arguments[index].node, &arguments[index].object);
        if (status != MMUL_OK)
            return status;
    }
    for (int i = 0; i < parameters->count; i++)
        if (arguments[i].node == NULL && !parameters->is_optional[i]) {
            mmul_evaluator_fail(e, call, "%s: argument '%s' is missing", parameters->function,
                                parameters->names[i]);
            return hint_parameters(e, parameters);
        }
    return MMUL_OK;
}

// ------------------------------------------------------------------ functions of the program

// Evaluates the body in a new frame.
static enum mmul_status evaluate_body(struct mmul_evaluator *e, const struct mmul_node *call,
                                      const struct mmul_object *function,
                                      const struct mmul_object *arguments,
                                      struct mmul_object *result) {
    const struct mmul_node *definition = function->function;
    struct mmul_frame *frame = mmul_arena_allocate(e->arena, sizeof *frame, e->err);
    for (const struct mmul_frame *f = e->frame; f != NULL; f = f->caller)
        if (f->function == definition)
            return mmul_evaluator_fail(e, call, "%s calls itself: recursion is not supported",
                                       definition->text);
    if (frame == NULL)
        return e->err->status;
    const struct mmul_node *named = e->named;
    const char *name = e->name;
    enum mmul_status status = MMUL_OK;
    bool returned = false;
    frame->function = definition;
    frame->caller = e->frame;
    e->frame = frame;
    for (const struct mmul_node *p = definition->first->first; status == MMUL_OK && p != NULL;
         p = p->next)
        status = mmul_evaluator_bind(e, p->text, arguments++);
    *result = (struct mmul_object){.kind = MMUL_OBJECT_NONE};
    if (status == MMUL_OK)
        status = mmul_evaluate_block(e, definition->last, &returned, result);
    e->frame = frame->caller;
    e->named = named;
    e->name = name;
    return status;
}

static enum mmul_status call_function(struct mmul_evaluator *e, const struct mmul_node *call,
                                      const struct mmul_object *function,
                                      struct mmul_object *result) {
    const struct mmul_node *definition = function->function;
    struct parameters parameters = {.function = definition->text};
    struct mmul_argument arguments[MMUL_TUPLE_MOST] = {{0}};
    struct mmul_object objects[MMUL_TUPLE_MOST];
    for (const struct mmul_node *p = definition->first->first; p != NULL; p = p->next) {
        parameters.names[parameters.count] = p->text;
        parameters.is_optional[parameters.count++] = p->kind == MMUL_NODE_KEYWORD;
    }
    parameters.positional = parameters.count;
    enum mmul_status status = bind_arguments(e, call, &parameters, arguments);
    for (int i = 0; i < parameters.count; i++)
        objects[i] = arguments[i].node != NULL ? arguments[i].object : function->items[i];
    return status == MMUL_OK ? evaluate_body(e, call, function, objects, result) : status;
}

// ------------------------------------------------------------------------ built-in functions

// Splits "x, axis=None" into names.
static enum mmul_status read_parameters(struct mmul_evaluator *e,
                                        const struct mmul_builtin *builtin,
                                        struct parameters *parameters) {
    char *at = mmul_arena_allocate(e->arena, strlen(builtin->parameters) + 1, e->err);
    if (at == NULL)
        return e->err->status;
    memcpy(at, builtin->parameters, strlen(builtin->parameters));
    *parameters = (struct parameters){.function = builtin->name,
                                      .shown = builtin->parameters,
                                      .takes_function = builtin->apply == mmul_builtin_apart};
    while (*at != '\0') {
        char *end = at + strcspn(at, ",");
        bool is_last = *end == '\0';
        *end = '\0';
        char *equals = strchr(at, '=');
        if (equals != NULL)
            *equals = '\0';
        bool is_rest = strcmp(at, "...") == 0;
        do {
            parameters->names[parameters->count] = at;
            parameters->is_optional[parameters->count++] = equals != NULL || is_rest;
        } while (is_rest && parameters->count < MMUL_ARGUMENTS_MOST);
        if (is_rest)
            parameters->positional = parameters->count;
        at = is_last ? end : end + 1 + strspn(end + 1, " ");
    }
    if (parameters->positional == 0)
        parameters->positional = parameters->count;
    return MMUL_OK;
}

// Returns true for a function that needs all nodes together: files, output and collectives.
static bool needs_all_nodes(const struct mmul_builtin *builtin) {
    static const char *const names[] = {"load",   "save",         "checkpoint", "restore",
                                        "print",  "assert_close", "apart",      "average",
                                        "tokens", "encode",       "decode"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        found |= strcmp(names[i], builtin->name) == 0;
    return found;
}

static enum mmul_status fail_apart(struct mmul_evaluator *e, const struct mmul_node *call,
                                   const struct mmul_builtin *builtin) {
    mmul_evaluator_fail(e, call, "%s cannot be used inside apart(...)", builtin->name);
    mmul_hint(e->err, "call it before apart(...), or after it on average(...)");
    return MMUL_ERR_DATA;
}

static enum mmul_status call_builtin(struct mmul_evaluator *e, const struct mmul_node *call,
                                     const struct mmul_builtin *builtin,
                                     struct mmul_object *result) {
    struct parameters parameters;
    struct mmul_argument arguments[MMUL_TUPLE_MOST] = {{0}};
    const struct mmul_node *named = e->named;
    if (e->apart != NULL && needs_all_nodes(builtin))
        return fail_apart(e, call, builtin);
    e->call = evaluate_body;
    enum mmul_status status = read_parameters(e, builtin, &parameters);
    if (status == MMUL_OK)
        status = bind_arguments(e, call, &parameters, arguments);
    e->named = named;
    return status == MMUL_OK ? builtin->apply(e, builtin, call, arguments, result) : status;
}

enum mmul_status mmul_evaluate_call(struct mmul_evaluator *e, const struct mmul_node *call,
                                    struct mmul_object *result) {
    const struct mmul_node *callee = call->first;
    int count = 0;
    const struct mmul_builtin *table = mmul_builtins(&count);
    if (callee->kind == MMUL_NODE_ATTRIBUTE) {
        mmul_evaluator_fail(e, callee, "methods are not supported");
        for (int i = 0; i < count; i++)
            if (strcmp(table[i].name, callee->text) == 0)
                mmul_hint(e->err, "%s(%s)", table[i].name, table[i].parameters);
        return MMUL_ERR_DATA;
    }
    if (callee->kind != MMUL_NODE_NAME)
        return mmul_evaluator_fail(e, callee, "only a named function can be called");
    for (const struct mmul_frame *f = e->frame; f != NULL; f = f == e->top ? NULL : e->top)
        for (const struct mmul_binding *b = f->bindings; b != NULL; b = b->next) {
            if (strcmp(b->name, callee->text) != 0)
                continue;
            if (b->object.kind == MMUL_OBJECT_FUNCTION)
                return call_function(e, call, &b->object, result);
            return mmul_evaluator_fail(e, callee, "'%s' is %s, and cannot be called", callee->text,
                                       mmul_object_name(&b->object));
        }
    for (int i = 0; i < count; i++)
        if (strcmp(table[i].name, callee->text) == 0)
            return call_builtin(e, call, &table[i], result);
    if (strcmp(callee->text, "range") == 0 || strcmp(callee->text, "loop") == 0)
        return mmul_evaluator_fail(e, callee,
                                   "%s can only be used in a loop: for i in %s(...):", callee->text,
                                   callee->text);
    struct mmul_object ignored;
    return mmul_evaluate(e, callee, &ignored); // reports the unknown name
}
