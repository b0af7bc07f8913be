// SPDX-License-Identifier: MIT
// Statements: assignments, loops, branches and function definitions. Python loops are unrolled;
// loop(...) runs as jobs or, for --check, is evaluated for one iteration. Entry point for a
// program.
#include <limits.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "tensor/evaluate.h"
#include "tensor/jobs.h"
#include "tensor/loop_costs.h"
#include "tensor/loop_states.h"
#include "tensor/placement_requests.h"
#include "tensor/script.h"

static enum mmul_status bind_name(struct mmul_evaluator *e, const struct mmul_node *value,
                                  const char *name, const struct mmul_object *object) {
    struct mmul_object placed = *object;
    enum mmul_status status = mmul_request_named_placement(e, value, name, &placed);
    return status == MMUL_OK ? mmul_evaluator_bind(e, name, &placed) : status;
}

// Binds a name, or a tuple of names to the elements of a tuple.
static enum mmul_status bind_target(struct mmul_evaluator *e, const struct mmul_node *target,
                                    const struct mmul_node *value,
                                    const struct mmul_object *object) {
    if (target->kind != MMUL_NODE_TUPLE)
        return bind_name(e, value, target->text, object);
    if (object->kind != MMUL_OBJECT_TUPLE)
        return mmul_evaluator_fail(e, value, "%s cannot be unpacked into several names",
                                   mmul_object_name(object));
    int names = 0;
    for (const struct mmul_node *name = target->first; name != NULL; name = name->next)
        names++;
    if (names != object->count)
        return mmul_evaluator_fail(e, target, "%d names for %d values", names, object->count);
    const struct mmul_object *item = object->items;
    enum mmul_status status = MMUL_OK;
    for (const struct mmul_node *name = target->first; status == MMUL_OK && name != NULL;
         name = name->next)
        status = bind_name(e, value, name->text, item++);
    return status;
}

static enum mmul_status evaluate_assignment(struct mmul_evaluator *e,
                                            const struct mmul_node *node) {
    const struct mmul_node *target = node->first;
    struct mmul_object object;
    bool is_tuple = target->kind == MMUL_NODE_TUPLE;
    e->named = is_tuple ? NULL : node->last;
    e->name = target->text;
    enum mmul_status status = is_tuple && node->last->kind == MMUL_NODE_TUPLE
                                  ? mmul_evaluate_tuple(e, node->last, target->first, &object)
                                  : mmul_evaluate(e, node->last, &object);
    return status == MMUL_OK ? bind_target(e, target, node->last, &object) : status;
}

// Evaluates the bounds of range(...), one to three integers, or of loop(...), one or two.
static enum mmul_status evaluate_range(struct mmul_evaluator *e, const struct mmul_node *call,
                                       int64_t bounds[3]) {
    const bool is_loop = strcmp(call->first->text, "loop") == 0;
    const char *takes =
        is_loop ? "loop takes one or two whole numbers" : "range takes one to three whole numbers";
    int64_t given[3];
    int count = 0;
    for (const struct mmul_node *n = call->first->next; n != NULL; n = n->next) {
        struct mmul_argument argument = {.node = n};
        if (count == (is_loop ? 2 : 3) || n->kind == MMUL_NODE_KEYWORD)
            return mmul_evaluator_fail(e, n, "%s", takes);
        enum mmul_status status = mmul_evaluate(e, n, &argument.object);
        if (status == MMUL_OK)
            status = mmul_argument_get_integer(
                e, &argument, is_loop ? "a bound of loop" : "a bound of range", &given[count++]);
        if (status != MMUL_OK)
            return status;
    }
    if (count == 0)
        return mmul_evaluator_fail(e, call, "%s", takes);
    bounds[0] = count > 1 ? given[0] : 0;
    bounds[1] = count > 1 ? given[1] : given[0];
    bounds[2] = count > 2 ? given[2] : 1;
    return bounds[2] != 0 ? MMUL_OK
                          : mmul_evaluator_fail(e, call, "the step of range must not be 0");
}

// Returns true if the loop body ended with a break, and resets the control flow.
static bool end_body(struct mmul_evaluator *e) {
    const bool breaks = e->flow == MMUL_FLOW_BREAK;
    e->flow = MMUL_FLOW_ON;
    return breaks;
}

static enum mmul_status evaluate_from(struct mmul_evaluator *e, const struct mmul_node *statement,
                                      bool *returned, struct mmul_object *result);

// Evaluates one iteration. Carried values must have the same structure at its beginning and end;
// only their elements may differ.
static enum mmul_status evaluate_turn(struct mmul_evaluator *e, const struct mmul_node *node,
                                      int64_t i, int64_t end, struct mmul_carried *carried) {
    const struct mmul_object index = mmul_object_from_integer(i);
    const struct mmul_node *statement = node->last->first;
    struct mmul_object ignored;
    bool returned = false;
    enum mmul_status status = mmul_carried_begin_turn(e, carried);
    if (status == MMUL_OK)
        status = mmul_evaluator_bind(e, node->first->text, &index);
    if (status == MMUL_OK)
        status = mmul_loop_states_enter(e, node, i, end, &statement);
    if (status == MMUL_OK)
        status = evaluate_from(e, statement, &returned, &ignored);
    return status == MMUL_OK ? mmul_carried_end_turn(e, node, carried) : status;
}

static enum mmul_status run_loop(struct mmul_evaluator *e, const struct mmul_node *node,
                                 const int64_t bounds[3]) {
    struct mmul_carried carried = {NULL};
    if (e->script->runner.run == NULL)
        return mmul_evaluator_fail(e, node, "loop(...) needs `mpimatmul run`");
    const int64_t turn = e->turn; // iteration of the enclosing loop
    int64_t first = bounds[0];
    bool breaks = false;
    mmul_jobs_enter_loop(e, node);
    enum mmul_status status = mmul_loop_states_begin(e, node, &first, bounds[1]);
    if (status == MMUL_OK)
        status = mmul_job_run(e, node, NULL);
    if (status == MMUL_OK)
        status = mmul_carried_find(e, node, &carried);
    for (int64_t i = first; status == MMUL_OK && !breaks && i < bounds[1]; i++) {
        e->turn = i;
        if (e->loops == 1)
            e->script->turn = (struct mmul_script_turn){.at = i,
                                                        .first = bounds[0],
                                                        .end = bounds[1],
                                                        .may_break = mmul_loop_has_break(node)};
        e->steps = 0;
        status = evaluate_turn(e, node, i, bounds[1], &carried);
        breaks = end_body(e);
        if (status == MMUL_OK)
            status = mmul_loop_states_save(e, node, breaks || i + 1 == bounds[1]);
        if (status == MMUL_OK) // as a job of its own
            status = mmul_job_run(e, node, &i);
        if (status == MMUL_OK)
            status = mmul_loop_states_record(e);
    }
    e->turn = turn;
    if (e->loops == 1)
        e->script->turn = (struct mmul_script_turn){0};
    mmul_carried_fini(&carried);
    mmul_jobs_leave_loop(e);
    return status;
}

// Returns true if a condition in the block takes a value in this iteration that it never had. A
// condition that depends on computed values counts as unchanged.
static bool has_new_condition(struct mmul_evaluator *e, const struct mmul_node *block) {
    bool is_other = false;
    for (const struct mmul_node *s = block->first; !is_other && s != NULL; s = s->next) {
        if (s->kind == MMUL_NODE_FOR)
            is_other = has_new_condition(e, s->last);
        if (s->kind != MMUL_NODE_IF)
            continue;
        is_other = mmul_condition_may_differ(e, s);
        for (const struct mmul_node *b = s->first->next; !is_other && b != NULL; b = b->next)
            is_other = has_new_condition(e, b);
    }
    return is_other;
}

// Finds the next iteration with such a condition; `end` if there is none.
static int64_t find_new_condition(struct mmul_evaluator *e, const struct mmul_node *node,
                                  int64_t from, int64_t end) {
    enum { MOST = 100000 };
    const int64_t last = end - from > MOST ? from + MOST : end;
    for (int64_t i = from; i < last; i++) {
        const struct mmul_object index = mmul_object_from_integer(i);
        e->steps = 0;
        if (mmul_evaluator_bind(e, node->first->text, &index) != MMUL_OK)
            return end;
        if (has_new_condition(e, node->last))
            return i;
    }
    return end;
}

// Evaluates one iteration, which stands for all in the plan. A first reading evaluates more, until
// the types no longer change.
static enum mmul_status check_loop(struct mmul_evaluator *e, const struct mmul_node *node,
                                   const int64_t bounds[3]) {
    struct mmul_carried carried = {NULL};
    struct mmul_loop_cost *checked = NULL;
    bool is_over = false;
    enum mmul_status status = mmul_loop_cost_begin(e, node, bounds, &checked);
    if (status == MMUL_OK && e->script->is_first_reading)
        status = mmul_held_types_note(e, node, false, NULL);
    if (status == MMUL_OK)
        status = mmul_carried_find(e, node, &carried);
    int turns = 0, choices = 0;
    e->loops++;
    for (int64_t i = bounds[0]; status == MMUL_OK && !is_over && i < bounds[1]; i++) {
        status = evaluate_turn(e, node, i, bounds[1], &carried);
        end_body(e);
        is_over = !e->script->is_first_reading || ++turns == MMUL_HELD_TYPES_TURNS;
        if (status != MMUL_OK || is_over)
            break;
        status = mmul_held_types_end_turn(e, node, NULL, &carried, &is_over);
        const int chosen = mmul_held_types_branch_count(e->script->foreseen);
        if (chosen > choices && i > INT64_MIN &&
            mmul_held_types_has_untried_branch(e->script->foreseen, node->at)) {
            choices = chosen;
            is_over = false;
            i--; // repeat the iteration with the other branch
        } else if (is_over) {
            const int64_t other = find_new_condition(e, node, i + 1, bounds[1]);
            is_over = other == bounds[1];
            i = other - 1;
        }
    }
    e->loops--;
    if (status == MMUL_OK)
        mmul_loop_cost_end(e, checked);
    mmul_carried_fini(&carried);
    return status;
}

// Iterates over the elements of a tuple. Loops inside run as jobs, so the tuple is pinned: its
// later elements must survive them.
static enum mmul_status evaluate_for_items(struct mmul_evaluator *e, const struct mmul_node *node,
                                           bool *returned, struct mmul_object *result) {
    const struct mmul_node *over = node->first->next;
    struct mmul_object items;
    enum mmul_status status = mmul_evaluate(e, over, &items);
    if (status == MMUL_OK && items.kind != MMUL_OBJECT_TUPLE) {
        mmul_evaluator_fail(e, over,
                            "cannot iterate over %s: expected range(...), loop(...) or a tuple",
                            mmul_object_name(&items));
        if (items.kind == MMUL_OBJECT_MATRIX)
            mmul_hint(e->err, "for i in range(len(x)): x[i] is a row");
        return MMUL_ERR_DATA;
    }
    bool is_over = false;
    struct mmul_pinned_object pin = {&items, e->pinned_objects};
    e->pinned_objects = &pin;
    for (int i = 0; status == MMUL_OK && !*returned && !is_over && i < items.count; i++) {
        status = mmul_evaluator_step(e, node);
        if (status == MMUL_OK)
            status = bind_target(e, node->first, over, &items.items[i]);
        if (status == MMUL_OK)
            status = mmul_evaluate_block(e, node->last, returned, result);
        is_over = end_body(e);
    }
    e->pinned_objects = pin.outer;
    return status;
}

static enum mmul_status evaluate_for(struct mmul_evaluator *e, const struct mmul_node *node,
                                     bool *returned, struct mmul_object *result) {
    const struct mmul_node *name = node->first, *body = node->last;
    const char *kind = mmul_loop_iterable(node);
    if (kind == NULL)
        return evaluate_for_items(e, node, returned, result);
    const bool is_loop = strcmp(kind, "loop") == 0;
    int64_t bounds[3] = {0};
    enum mmul_status status = evaluate_range(e, name->next, bounds);
    const bool runs = status == MMUL_OK && is_loop && bounds[0] < bounds[1];
    if (runs && e->frame != e->top) {
        mmul_evaluator_fail(e, node, "loop(...) is not allowed inside a function");
        mmul_hint(e->err, "use range(...) inside functions");
        return MMUL_ERR_DATA;
    }
    if (runs)
        return e->script->only_checked ? check_loop(e, node, bounds) : run_loop(e, node, bounds);
    for (int64_t i = bounds[0]; status == MMUL_OK && !*returned; i += bounds[2]) {
        const struct mmul_object index = mmul_object_from_integer(i);
        if (bounds[2] > 0 ? i >= bounds[1] : i <= bounds[1])
            break;
        status = mmul_evaluator_step(e, node);
        if (status == MMUL_OK)
            status = mmul_evaluator_bind(e, name->text, &index);
        if (status == MMUL_OK)
            status = mmul_evaluate_block(e, body, returned, result);
        if (end_body(e))
            break;
        if (bounds[2] > 0 ? i > INT64_MAX - bounds[2] : i < INT64_MIN - bounds[2])
            break;
    }
    return status;
}

static enum mmul_status evaluate_if(struct mmul_evaluator *e, const struct mmul_node *node,
                                    bool *returned, struct mmul_object *result) {
    const struct mmul_node *block = node->first->next;
    bool is_true = false;
    if (mmul_evaluate_condition(e, node, &is_true) != MMUL_OK)
        return e->err->status;
    if (!is_true)
        block = block->next;
    return block != NULL ? mmul_evaluate_block(e, block, returned, result) : MMUL_OK;
}

// Defines a function. Defaults are evaluated now, as in Python, and stored in a tuple beside it.
static enum mmul_status define_function(struct mmul_evaluator *e, const struct mmul_node *node) {
    struct mmul_object function = {.kind = MMUL_OBJECT_FUNCTION, .function = node};
    struct mmul_object defaults[MMUL_TUPLE_MOST];
    int count = 0;
    if (e->frame != e->top)
        return mmul_evaluator_fail(e, node, "nested functions are not supported");
    for (const struct mmul_node *p = node->first->first; p != NULL; p = p->next) {
        if (count == MMUL_TUPLE_MOST)
            return mmul_evaluator_fail(e, p, "a function can have at most %d parameters",
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

static enum mmul_status evaluate_return(struct mmul_evaluator *e, const struct mmul_node *node,
                                        bool *returned, struct mmul_object *result) {
    *returned = true;
    *result = (struct mmul_object){.kind = MMUL_OBJECT_NONE};
    if (e->frame == e->top)
        return mmul_evaluator_fail(e, node, "return outside of a function");
    return node->first != NULL ? mmul_evaluate(e, node->first, result) : MMUL_OK;
}

// Evaluates a statement and those behind it.
static enum mmul_status evaluate_from(struct mmul_evaluator *e, const struct mmul_node *statement,
                                      bool *returned, struct mmul_object *result) {
    enum mmul_status status = MMUL_OK;
    e->depth++;
    for (const struct mmul_node *s = statement;
         status == MMUL_OK && !*returned && e->flow == MMUL_FLOW_ON && s != NULL; s = s->next) {
        struct mmul_object ignored;
        e->named = NULL;
        status = mmul_evaluator_step(e, s);
        if (status != MMUL_OK)
            break;
        if (s->kind == MMUL_NODE_ASSIGN)
            status = evaluate_assignment(e, s);
        else if (s->kind == MMUL_NODE_FOR)
            status = evaluate_for(e, s, returned, result);
        else if (s->kind == MMUL_NODE_IF)
            status = evaluate_if(e, s, returned, result);
        else if (s->kind == MMUL_NODE_DEF)
            status = define_function(e, s);
        else if (s->kind == MMUL_NODE_RETURN)
            status = evaluate_return(e, s, returned, result);
        else if (s->kind == MMUL_NODE_BREAK)
            e->flow = MMUL_FLOW_BREAK;
        else if (s->kind == MMUL_NODE_CONTINUE)
            e->flow = MMUL_FLOW_CONTINUE;
        else
            status = mmul_evaluate(e, s->first, &ignored);
    }
    e->depth--;
    return status;
}

enum mmul_status mmul_evaluate_block(struct mmul_evaluator *e, const struct mmul_node *block,
                                     bool *returned, struct mmul_object *result) {
    return evaluate_from(e, block->first, returned, result);
}

static bool has_loop(const struct mmul_node *node) {
    const char *kind = node->kind == MMUL_NODE_FOR ? mmul_loop_iterable(node) : NULL;
    if (kind != NULL && strcmp(kind, "loop") == 0)
        return true;
    for (const struct mmul_node *child = node->first; child != NULL; child = child->next)
        if (has_loop(child))
            return true;
    return false;
}

// Returns the end of the last top-level statement that contains a loop.
static int find_last_loop(const struct mmul_node *root) {
    int end = -1;
    for (const struct mmul_node *s = root->first; s != NULL; s = s->next)
        if (has_loop(s))
            end = s->next != NULL ? s->next->at.begin : INT_MAX;
    return end;
}

enum mmul_status mmul_evaluate_program(struct mmul_evaluator *e, const struct mmul_tree *tree) {
    struct mmul_frame top = {0};
    struct mmul_object ignored;
    bool returned = false;
    e->frame = e->top = &top;
    e->tree = tree;
    if (!e->script->only_checked)
        e->script->last_loop = find_last_loop(tree->root);
    enum mmul_status status = mmul_evaluate_block(e, tree->root, &returned, &ignored);
    if (status == MMUL_OK)
        status = mmul_jobs_end(e);
    e->frame = e->top = NULL;
    if (status != MMUL_OK)
        mmul_script_views_discard(e->script); // the views are in memory that ends with the job
    mmul_jobs_fini(e);
    return status;
}
