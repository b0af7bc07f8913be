// SPDX-License-Identifier: MIT
// Statements and the plain kinds of expressions. Steps, depth and memory are counted, so that no text keeps it busy for
// long.
#include "tensor/evaluator.h"

#include <stdarg.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

enum mmul_status mmul_evaluator_fail(struct mmul_evaluator *e, const struct mmul_node *at,
                                     const char *format, ...) {
    char text[sizeof e->err->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return mmul_source_fail(e->source, at->at, e->err, "%s", text);
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
    size_t bytes = strlen(text) + 1;
    char *made = mmul_arena_allocate(e->arena, bytes, e->err);
    if (made == NULL)
        return e->err->status;
    memcpy(made, text, bytes);
    *copy = made;
    return MMUL_OK;
}

// ----------------------------------------------------------------------------------------- names

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
        binding = mmul_arena_allocate(e->arena, sizeof *binding, e->err);
        if (binding == NULL)
            return e->err->status;
        binding->name = name;
        binding->next = e->frame->bindings;
        e->frame->bindings = binding;
    }
    binding->object = *object;
    return MMUL_OK;
}

// Is a name assigned to anywhere inside? Python then has it local to the whole function.
static bool assigns(const struct mmul_node *node, const char *name) {
    if (node->kind == MMUL_NODE_ASSIGN || node->kind == MMUL_NODE_FOR) {
        const struct mmul_node *target = node->first;
        bool is_tuple = target->kind == MMUL_NODE_TUPLE;
        for (const struct mmul_node *n = is_tuple ? target->first : target; n != NULL;
             n = is_tuple ? n->next : NULL)
            if (strcmp(n->text, name) == 0)
                return true;
    }
    if (node->kind != MMUL_NODE_BLOCK && node->kind != MMUL_NODE_FOR && node->kind != MMUL_NODE_IF)
        return false;
    for (const struct mmul_node *child = node->first; child != NULL; child = child->next)
        if (assigns(child, name))
            return true;
    return false;
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
    const char *instead = mmul_refusal_instead(node->text),
               *nearest = mmul_nearest(node->text, names);
    mmul_evaluator_fail(e, node, "nothing is called '%s'", node->text);
    if (instead != NULL)
        mmul_hint(e->err, "%s", instead);
    else if (nearest != NULL)
        mmul_hint(e->err, "'%s'?", nearest);
    return MMUL_ERR_DATA;
}

static enum mmul_status evaluate_name(struct mmul_evaluator *e, const struct mmul_node *node,
                                      struct mmul_object *result) {
    const struct mmul_binding *binding = find_binding(e->frame, node->text);
    int count = 0;
    const struct mmul_builtin *table = mmul_builtins(&count);
    if (binding == NULL && e->frame->function != NULL) {
        if (assigns(e->frame->function->last, node->text))
            return mmul_evaluator_fail(e, node, "'%s' is read before it is assigned to",
                                       node->text);
        binding = find_binding(e->top, node->text);
    }
    if (binding != NULL && binding->object.kind != MMUL_OBJECT_FUNCTION) {
        *result = binding->object;
        return MMUL_OK;
    }
    bool is_function = binding != NULL || strcmp(node->text, "range") == 0;
    for (int i = 0; i < count; i++)
        is_function |= strcmp(table[i].name, node->text) == 0;
    if (is_function)
        return mmul_evaluator_fail(
            e, node, "'%s' is a function: only calls of it are in this part of Python", node->text);
    return fail_unknown(e, node);
}

// ----------------------------------------------------------------------------------- expressions

// Matrices among them are called as the names in `targets` (NULL: none) say, in turn.
static enum mmul_status evaluate_tuple(struct mmul_evaluator *e, const struct mmul_node *node,
                                       const struct mmul_node *targets,
                                       struct mmul_object *result) {
    struct mmul_object items[MMUL_TUPLE_MOST];
    int count = 0;
    for (const struct mmul_node *child = node->first; child != NULL; child = child->next) {
        if (count == MMUL_TUPLE_MOST)
            return mmul_evaluator_fail(e, child, "a tuple has %d elements at most",
                                       MMUL_TUPLE_MOST);
        if (targets != NULL) {
            e->named = child;
            e->name = targets->text;
            targets = targets->next;
        }
        enum mmul_status status = mmul_evaluate(e, child, &items[count++]);
        if (status != MMUL_OK)
            return status;
    }
    return mmul_evaluator_tuple(e, items, count, result);
}

static enum mmul_status append(struct mmul_evaluator *e, const struct mmul_node *at,
                               const struct mmul_object *piece,
                               char text[static MMUL_STRING_MOST + 1]) {
    if (piece->kind >= MMUL_OBJECT_TUPLE)
        return mmul_evaluator_fail(e, at, "%s cannot be part of a string", mmul_object_name(piece));
    mmul_object_format(piece, text, MMUL_STRING_MOST + 1);
    return strlen(text) < MMUL_STRING_MOST
               ? MMUL_OK
               : mmul_evaluator_fail(e, at, "a string has fewer than %d bytes", MMUL_STRING_MOST);
}

static enum mmul_status evaluate_format(struct mmul_evaluator *e, const struct mmul_node *node,
                                        struct mmul_object *result) {
    char text[MMUL_STRING_MOST + 1] = "";
    *result = (struct mmul_object){.kind = MMUL_OBJECT_STRING};
    for (const struct mmul_node *child = node->first; child != NULL; child = child->next) {
        struct mmul_object piece;
        enum mmul_status status = mmul_evaluate(e, child, &piece);
        if (status == MMUL_OK)
            status = append(e, child, &piece, text);
        if (status != MMUL_OK)
            return status;
    }
    return mmul_evaluator_copy_text(e, text, &result->text);
}

static enum mmul_status evaluate_constant(const struct mmul_node *node,
                                          struct mmul_object *result) {
    *result = (struct mmul_object){.kind = MMUL_OBJECT_NONE};
    if (node->text[0] != 'N')
        *result = mmul_object_from_bool(node->text[0] == 'T');
    return MMUL_OK;
}

static enum mmul_status evaluate_negative(struct mmul_evaluator *e, const struct mmul_node *node,
                                          struct mmul_object *result) {
    struct mmul_argument operand = {.node = node->first};
    enum mmul_status status = mmul_evaluate(e, node->first, &operand.object);
    if (status != MMUL_OK)
        return status;
    if (operand.object.kind == MMUL_OBJECT_MATRIX)
        return mmul_apply_elements(e, node, "neg", &operand, 1, result);
    if (!mmul_object_is_number(&operand.object))
        return mmul_evaluator_fail(e, node, "%s has no negative",
                                   mmul_object_name(&operand.object));
    const struct mmul_object zero = mmul_object_from_integer(0);
    *result = mmul_object_from_real(-operand.object.real);
    const char *problem = operand.object.kind == MMUL_OBJECT_REAL
                              ? NULL
                              : mmul_object_calculate("-", &zero, &operand.object, result);
    return problem == NULL ? MMUL_OK : mmul_evaluator_fail(e, node, "%s", problem);
}

// Strings: + and comparisons for equality; None and booleans are equal to themselves.
static enum mmul_status combine_others(struct mmul_evaluator *e, const struct mmul_node *node,
                                       const struct mmul_argument operands[2],
                                       struct mmul_object *result) {
    const struct mmul_object *x = &operands[0].object, *y = &operands[1].object;
    bool strings = x->kind == MMUL_OBJECT_STRING && y->kind == MMUL_OBJECT_STRING;
    bool is_equality = strcmp(node->text, "==") == 0 || strcmp(node->text, "!=") == 0;
    if (strings && strcmp(node->text, "+") == 0) {
        char text[MMUL_STRING_MOST + 1] = "";
        enum mmul_status status = append(e, node, x, text);
        if (status == MMUL_OK)
            status = append(e, node, y, text);
        *result = (struct mmul_object){.kind = MMUL_OBJECT_STRING};
        return status == MMUL_OK ? mmul_evaluator_copy_text(e, text, &result->text) : status;
    }
    if (is_equality && x->kind < MMUL_OBJECT_TUPLE && y->kind < MMUL_OBJECT_TUPLE) {
        bool equal = x->kind == y->kind && (!strings || strcmp(x->text, y->text) == 0);
        *result = mmul_object_from_bool(equal == (node->text[0] == '='));
        return MMUL_OK;
    }
    return mmul_evaluator_fail(e, node, "'%s' is not for %s and %s", node->text,
                               mmul_object_name(x), mmul_object_name(y));
}

// One operator, of operands that are known.
static enum mmul_status combine(struct mmul_evaluator *e, const struct mmul_node *node,
                                const struct mmul_argument operands[2],
                                struct mmul_object *result) {
    const struct mmul_object *x = &operands[0].object, *y = &operands[1].object;
    bool matrix = x->kind == MMUL_OBJECT_MATRIX || y->kind == MMUL_OBJECT_MATRIX;
    bool numbers = mmul_object_is_number(x) && mmul_object_is_number(y);
    if (matrix)
        return mmul_apply_operator(e, node, operands, result);
    if (!numbers)
        return combine_others(e, node, operands, result);
    if (strcmp(node->text, "@") == 0)
        return mmul_evaluator_fail(e, node, "'@' is for matrices, not for numbers");
    const char *problem = mmul_object_calculate(node->text, x, y, result);
    return problem == NULL ? MMUL_OK : mmul_evaluator_fail(e, node, "%s", problem);
}

static enum mmul_status count_step(struct mmul_evaluator *e, const struct mmul_node *node) {
    enum { DEPTH_MOST = 4 * MMUL_NESTING_MOST };
    if (++e->steps > MMUL_STEPS_MOST)
        return mmul_evaluator_fail(e, node, "the program has more than %d steps", MMUL_STEPS_MOST);
    if (e->depth >= DEPTH_MOST)
        return mmul_evaluator_fail(e, node, "calls are nested too deeply");
    return MMUL_OK;
}

// x + y + z + ...: from its left end to `node`, however many they are.
static enum mmul_status evaluate_binary(struct mmul_evaluator *e, const struct mmul_node *node,
                                        struct mmul_object *result) {
    const struct mmul_node *at = node;
    while (at->first->kind == MMUL_NODE_BINARY)
        at = at->first;
    enum mmul_status status = mmul_evaluate(e, at->first, result);
    for (const struct mmul_node *end = node->outer; status == MMUL_OK && at != end;
         at = at->outer) {
        struct mmul_argument operands[2] = {{at->first, *result}, {.node = at->last}};
        status = mmul_evaluate(e, at->last, &operands[1].object);
        if (status == MMUL_OK)
            status = combine(e, at, operands, result);
        if (status == MMUL_OK)
            status = count_step(e, at);
    }
    return status;
}

static enum mmul_status evaluate_kind(struct mmul_evaluator *e, const struct mmul_node *node,
                                      struct mmul_object *result) {
    switch (node->kind) {
    case MMUL_NODE_NUMBER:
        *result = node->is_integer ? mmul_object_from_integer(node->integer)
                                   : mmul_object_from_real(node->real);
        return MMUL_OK;
    case MMUL_NODE_STRING:
        *result = (struct mmul_object){.kind = MMUL_OBJECT_STRING, .text = node->text};
        return strlen(node->text) < MMUL_STRING_MOST
                   ? MMUL_OK
                   : mmul_evaluator_fail(e, node, "a string has fewer than %d bytes",
                                         MMUL_STRING_MOST);
    case MMUL_NODE_FORMAT:
        return evaluate_format(e, node, result);
    case MMUL_NODE_CONSTANT:
        return evaluate_constant(node, result);
    case MMUL_NODE_NAME:
        return evaluate_name(e, node, result);
    case MMUL_NODE_TUPLE:
        return evaluate_tuple(e, node, NULL, result);
    case MMUL_NODE_NEGATIVE:
        return evaluate_negative(e, node, result);
    case MMUL_NODE_BINARY:
        return evaluate_binary(e, node, result);
    case MMUL_NODE_CALL:
        return mmul_evaluate_call(e, node, result);
    case MMUL_NODE_ATTRIBUTE:
        return mmul_evaluate_attribute(e, node, result);
    case MMUL_NODE_SUBSCRIPT:
        return mmul_evaluate_subscript(e, node, result);
    default:
        return mmul_evaluator_fail(e, node, "a value is expected here");
    }
}

enum mmul_status mmul_evaluate(struct mmul_evaluator *e, const struct mmul_node *node,
                               struct mmul_object *result) {
    enum mmul_status status = count_step(e, node);
    if (status != MMUL_OK)
        return status;
    e->depth++;
    status = evaluate_kind(e, node, result);
    e->depth--;
    return status;
}

// ------------------------------------------------------------------------------------ statements

static enum mmul_status assign(struct mmul_evaluator *e, const struct mmul_node *node) {
    const struct mmul_node *target = node->first;
    struct mmul_object object;
    bool is_tuple = target->kind == MMUL_NODE_TUPLE;
    e->named = is_tuple ? NULL : node->last;
    e->name = target->text;
    enum mmul_status status = is_tuple && node->last->kind == MMUL_NODE_TUPLE
                                  ? evaluate_tuple(e, node->last, target->first, &object)
                                  : mmul_evaluate(e, node->last, &object);
    if (status == MMUL_OK && !is_tuple)
        return mmul_evaluator_bind(e, target->text, &object);
    if (status != MMUL_OK)
        return status;
    if (object.kind != MMUL_OBJECT_TUPLE)
        return mmul_evaluator_fail(e, node->last, "%s is not several values",
                                   mmul_object_name(&object));
    int names = 0;
    for (const struct mmul_node *name = target->first; name != NULL; name = name->next)
        names++;
    if (names != object.count)
        return mmul_evaluator_fail(e, target, "%d names for %d values", names, object.count);
    const struct mmul_object *item = object.items;
    for (const struct mmul_node *name = target->first; status == MMUL_OK && name != NULL;
         name = name->next)
        status = mmul_evaluator_bind(e, name->text, item++);
    return status;
}

// The bounds of range(...): of one, two or three whole numbers.
static enum mmul_status evaluate_range(struct mmul_evaluator *e, const struct mmul_node *call,
                                       int64_t bounds[3]) {
    int64_t given[3];
    int count = 0;
    for (const struct mmul_node *n = call->first->next; n != NULL; n = n->next) {
        struct mmul_argument argument = {.node = n};
        if (count == 3 || n->kind == MMUL_NODE_KEYWORD)
            return mmul_evaluator_fail(e, n, "range takes one to three whole numbers");
        enum mmul_status status = mmul_evaluate(e, n, &argument.object);
        if (status == MMUL_OK)
            status = mmul_take_whole(e, &argument, "a bound of range", &given[count++]);
        if (status != MMUL_OK)
            return status;
    }
    if (count == 0)
        return mmul_evaluator_fail(e, call, "range takes one to three whole numbers");
    bounds[0] = count > 1 ? given[0] : 0;
    bounds[1] = count > 1 ? given[1] : given[0];
    bounds[2] = count > 2 ? given[2] : 1;
    return bounds[2] != 0 ? MMUL_OK : mmul_evaluator_fail(e, call, "the step of range is 0");
}

static enum mmul_status repeat(struct mmul_evaluator *e, const struct mmul_node *node,
                               bool *returned, struct mmul_object *result) {
    const struct mmul_node *name = node->first, *body = node->last;
    int64_t bounds[3] = {0};
    enum mmul_status status = evaluate_range(e, name->next, bounds);
    for (int64_t i = bounds[0]; status == MMUL_OK && !*returned; i += bounds[2]) {
        const struct mmul_object index = mmul_object_from_integer(i);
        if (bounds[2] > 0 ? i >= bounds[1] : i <= bounds[1])
            break;
        status = count_step(e, node);
        if (status == MMUL_OK)
            status = mmul_evaluator_bind(e, name->text, &index);
        if (status == MMUL_OK)
            status = mmul_evaluate_block(e, body, returned, result);
        if (bounds[2] > 0 ? i > INT64_MAX - bounds[2] : i < INT64_MIN - bounds[2])
            break;
    }
    return status;
}

static enum mmul_status branch(struct mmul_evaluator *e, const struct mmul_node *node,
                               bool *returned, struct mmul_object *result) {
    struct mmul_object condition;
    enum mmul_status status = mmul_evaluate(e, node->first, &condition);
    if (status != MMUL_OK)
        return status;
    if (!mmul_object_is_number(&condition)) {
        mmul_evaluator_fail(e, node->first, "a condition is a number here, not %s",
                            mmul_object_name(&condition));
        if (condition.kind == MMUL_OBJECT_MATRIX)
            mmul_hint(e->err, "where(c, x, y) chooses element by element");
        return MMUL_ERR_DATA;
    }
    const struct mmul_node *block = node->first->next;
    if (mmul_object_number(&condition) == 0)
        block = block->next;
    return block != NULL ? mmul_evaluate_block(e, block, returned, result) : MMUL_OK;
}

// Defaults are evaluated where the function is defined, into a tuple beside it.
static enum mmul_status define(struct mmul_evaluator *e, const struct mmul_node *node) {
    struct mmul_object function = {.kind = MMUL_OBJECT_FUNCTION, .function = node};
    struct mmul_object defaults[MMUL_TUPLE_MOST];
    int count = 0;
    if (e->frame != e->top)
        return mmul_evaluator_fail(e, node,
                                   "a function inside a function is not in this part of Python");
    for (const struct mmul_node *p = node->first->first; p != NULL; p = p->next) {
        if (count == MMUL_TUPLE_MOST)
            return mmul_evaluator_fail(e, p, "a function has %d parameters at most",
                                       MMUL_TUPLE_MOST);
        defaults[count] = (struct mmul_object){.kind = MMUL_OBJECT_NONE};
        if (p->kind == MMUL_NODE_KEYWORD) {
            enum mmul_status status = mmul_evaluate(e, p->first, &defaults[count]);
            if (status != MMUL_OK)
                return status;
        }
        count++;
    }
    enum mmul_status status = mmul_evaluator_tuple(e, defaults, count, &function);
    function.kind = MMUL_OBJECT_FUNCTION;
    function.function = node;
    return status == MMUL_OK ? mmul_evaluator_bind(e, node->text, &function) : status;
}

static enum mmul_status leave(struct mmul_evaluator *e, const struct mmul_node *node,
                              bool *returned, struct mmul_object *result) {
    *returned = true;
    *result = (struct mmul_object){.kind = MMUL_OBJECT_NONE};
    if (e->frame == e->top)
        return mmul_evaluator_fail(e, node, "return stands outside of a function");
    return node->first != NULL ? mmul_evaluate(e, node->first, result) : MMUL_OK;
}

enum mmul_status mmul_evaluate_block(struct mmul_evaluator *e, const struct mmul_node *block,
                                     bool *returned, struct mmul_object *result) {
    enum mmul_status status = MMUL_OK;
    e->depth++;
    for (const struct mmul_node *s = block->first; status == MMUL_OK && !*returned && s != NULL;
         s = s->next) {
        struct mmul_object ignored;
        e->named = NULL;
        status = count_step(e, s);
        if (status != MMUL_OK)
            break;
        if (s->kind == MMUL_NODE_ASSIGN)
            status = assign(e, s);
        else if (s->kind == MMUL_NODE_FOR)
            status = repeat(e, s, returned, result);
        else if (s->kind == MMUL_NODE_IF)
            status = branch(e, s, returned, result);
        else if (s->kind == MMUL_NODE_DEF)
            status = define(e, s);
        else if (s->kind == MMUL_NODE_RETURN)
            status = leave(e, s, returned, result);
        else
            status = mmul_evaluate(e, s->first, &ignored);
    }
    e->depth--;
    return status;
}

enum mmul_status mmul_evaluate_program(struct mmul_evaluator *e, const struct mmul_tree *tree) {
    struct mmul_frame top = {0};
    struct mmul_object ignored;
    bool returned = false;
    e->frame = e->top = &top;
    enum mmul_status status = mmul_evaluate_block(e, tree->root, &returned, &ignored);
    e->frame = e->top = NULL;
    return status;
}
