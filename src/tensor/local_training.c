// SPDX-License-Identifier: MIT
// Local training (DiLoCo, Douillard et al. 2023). apart() runs iterations on each node without
// communication. average() takes the mean of the copies, weighted by the data each node has seen.
// This file also collects the steps that nodes skipped because of non-finite gradients.
#include "tensor/local_training.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "mpimatmul.h"
#include "tensor/builtins.h"
#include "tensor/jobs.h"
#include "tensor/loop_costs.h"
#include "tensor/script.h"

// ------------------------------------------------------------------------------------------- nodes

static int count_nodes(const struct mmul_evaluator *e) {
    return mmul_context_nodes(e->script->runner.context);
}

// Queries the nodes and their shares before the first apart().
static enum mmul_status query_nodes(struct mmul_evaluator *e) {
    struct mmul_script *script = e->script;
    const int count = count_nodes(e);
    if (script->nodes != NULL)
        return MMUL_OK;
    struct mmul_apart_node *nodes =
        mmul_arena_allocate(&script->arena, (size_t)count * sizeof *nodes, e->err);
    double *shares = mmul_arena_allocate(&script->arena, (size_t)count * sizeof *shares, e->err);
    int64_t *windows = mmul_arena_allocate(&script->arena, (size_t)count * sizeof *windows, e->err);
    if (nodes == NULL || shares == NULL || windows == NULL)
        return e->err->status;
    memset(nodes, 0, (size_t)count * sizeof *nodes);
    memset(windows, 0, (size_t)count * sizeof *windows);
    enum mmul_status status =
        script->runner.apart(script->runner.run_context, script, NULL, nodes, e->err);
    for (int i = 0; i < count; i++)
        shares[i] = nodes[i].share;
    script->nodes = nodes;
    script->node_count = count;
    script->node_shares = shares;
    script->node_windows = windows;
    return status;
}

// ---------------------------------------------------------------------------------------- programs

// One program per node. All nodes hold the same numbers, so the list of the first node serves all.
struct node_programs {
    struct mmul_program **of; // owned, by node
    int count;
    struct mmul_held_values holds, others; // holds of the first node, and of the current later node
    struct mmul_local_node apart;
    struct all {
        struct mmul_program *program;
        struct mmul_loaded_value *leaves;
        int job, uses, operations;
        // State of the evaluator before the node programs.
    } all;
};

static enum mmul_status begin_node_programs(struct mmul_evaluator *e, struct node_programs *p) {
    *p = (struct node_programs){
        .count = count_nodes(e),
        .apart = {0, count_nodes(e), e->script->node_shares, e->script->node_windows},
        .all = {e->program, e->leaves, e->job, e->uses, e->operations}};
    e->apart = &p->apart;
    e->context = mmul_context_of_node(e->script->runner.context);
    return MMUL_ALLOCATE(p->of, p->count, "programs of nodes", e->err);
}

// Directs the evaluation to a new program for `node`.
static enum mmul_status begin_program_of_node(struct mmul_evaluator *e, struct node_programs *p,
                                              int node) {
    if (mmul_program_create(&p->of[node], e->err) != MMUL_OK)
        return e->err->status;
    if (e->script->use_float32)
        mmul_program_use_float32(p->of[node]);
    p->apart.node = node;
    mmul_free(p->others.all);
    p->others = (struct mmul_held_values){.like = &p->holds};
    e->program = p->of[node];
    e->leaves = NULL;
    e->operations = 0;
    e->job = -++e->script->node_jobs; // negative, so unlike any other job
    return MMUL_OK;
}

// Makes the current node hold x, whole on its ranks, under the number shared by all nodes.
// is_result: x is the result of the call, so its types were noted by the first reading.
static enum mmul_status hold_on_node(struct mmul_evaluator *e, struct node_programs *p,
                                     const struct mmul_node *at, const struct mmul_object *x,
                                     bool is_result, struct mmul_object *held) {
    struct mmul_held_values *holds = p->apart.node == 0 ? &p->holds : &p->others;
    struct mmul_object spread;
    enum mmul_status status = mmul_job_replicate(e, at, x, &spread);
    holds->place = (struct mmul_held_place){at->at.begin, true, is_result ? "" : NULL, 0};
    return status == MMUL_OK ? mmul_held_values_add(e, holds, &spread, held) : status;
}

static enum mmul_status run_node_programs(struct mmul_evaluator *e, const struct node_programs *p) {
    struct mmul_script *script = e->script;
    return script->runner.apart(script->runner.run_context, script,
                                (const struct mmul_program *const *)p->of, NULL, e->err);
}

static void end_node_programs(struct mmul_evaluator *e, struct node_programs *p) {
    for (int i = 0; p->of != NULL && i < p->count; i++)
        mmul_program_destroy(p->of[i]);
    MMUL_FREE_ALL(p->of, p->holds.all, p->others.all);
    e->apart = NULL;
    e->context = e->script->runner.context;
    e->program = p->all.program;
    e->leaves = p->all.leaves;
    e->job = p->all.job;
    e->uses = p->all.uses;
    e->operations = p->all.operations;
}

// Imports the summands of all nodes into the current program.
static enum mmul_status import_summands(struct mmul_evaluator *e, const struct mmul_node *at,
                                        const struct mmul_object *x, struct mmul_object *made) {
    struct mmul_object summands = *x;
    summands.parts = NULL;
    const int value = mmul_job_value(e, at, &summands);
    if (value < 0)
        return e->err->status;
    *made = mmul_matrix_object(e, value, x->axes);
    made->is_row = x->is_row;
    return MMUL_OK;
}

// ----------------------------------------------------------------------------------- skipped steps

enum mmul_status mmul_local_mark_gradient(struct mmul_evaluator *e, const struct mmul_node *at,
                                          const struct mmul_argument *gradient,
                                          const struct mmul_object *sums) {
    struct mmul_local_node *a = e->apart;
    struct mmul_call nothing = {.operation = "multiply", .operand_count = 2},
                     differs = {.operation = "not_equal", .operand_count = 2};
    const struct mmul_object zero = mmul_object_from_integer(0);
    struct mmul_object product = {.axes = 2};
    struct mmul_skipped_step *marked = mmul_arena_allocate(e->arena, sizeof *marked, e->err);
    char quoted[48];
    if (marked == NULL)
        return e->err->status;
    *marked =
        (struct mmul_skipped_step){.at = at->at, .gradient = gradient->object, .marks.axes = 2};
    enum mmul_status status = mmul_evaluator_copy_text(
        e, mmul_source_quote(e->source, gradient->node->at, quoted), &marked->text);
    if (status == MMUL_OK) // 0 times a non-finite number is NaN, which equals nothing
        status = mmul_apply_operation(e, at, &nothing, (const struct mmul_object[]){*sums, zero},
                                      &product);
    if (status == MMUL_OK)
        status = mmul_apply_operation(e, at, &differs, (const struct mmul_object[]){product, zero},
                                      &marked->marks);
    if (a->marked == NULL)
        a->marked = marked;
    else
        a->last_marked->next = marked;
    a->last_marked = marked;
    return status;
}

// The records of all iterations, in order, in memory that lasts until the current program has run.
struct list {
    struct mmul_arena *arena;
    struct mmul_skipped_step **end;
};

static enum mmul_status append_skipped_step(struct mmul_evaluator *e, struct list *list,
                                            const struct mmul_skipped_step *marked, int64_t turn) {
    struct mmul_skipped_step *made = mmul_arena_allocate(list->arena, sizeof *made, e->err);
    char *text = mmul_arena_copy_text(list->arena, marked->text, e->err);
    if (made == NULL || text == NULL)
        return e->err->status;
    *made = *marked;
    made->text = text;
    made->turn = turn;
    made->next = NULL;
    *list->end = made;
    list->end = &made->next;
    return mmul_copy_structure(e, list->arena, &marked->gradient, &made->gradient);
}

// Holds the marks of the current node on its ranks. Only the first node's records enter the list,
// since all nodes have the same ones.
static enum mmul_status hold_marks(struct mmul_evaluator *e, struct node_programs *p,
                                   const struct mmul_node *at, struct list *list, int64_t turn) {
    enum mmul_status status = MMUL_OK;
    for (struct mmul_skipped_step *m = p->apart.marked; status == MMUL_OK && m != NULL;
         m = m->next) {
        const struct mmul_object marks = m->marks;
        status = hold_on_node(e, p, at, &marks, false, &m->marks);
        if (status == MMUL_OK && p->apart.node == 0)
            status = append_skipped_step(e, list, m, turn);
    }
    p->apart.marked = NULL;
    return status;
}

// Joins all marks of the current node in its own row of a nodes x n matrix. Each rank of the node
// holds a part of the row.
static enum mmul_status join_marks(struct mmul_evaluator *e, const struct mmul_node *at,
                                   const struct mmul_skipped_step *all,
                                   struct mmul_object *joined) {
    const int node = e->apart->node, nodes = e->apart->nodes;
    struct mmul_call concat = {.operation = "concat", .operand_count = 2, .with.axis = -1},
                     column = {.operation = "slice",
                               .operand_count = 1,
                               .with = {.begin = {0, 0, 0, node}, .end = {1, 1, nodes, node + 1}}},
                     times = {.operation = "multiply", .operand_count = 2};
    const struct mmul_generated unit = {MMUL_GENERATE_IDENTITY, 1, {1, 1, nodes, nodes}};
    struct mmul_object own = {.axes = 2};
    int value = 0;
    *joined = all->marks;
    enum mmul_status status = MMUL_OK;
    for (const struct mmul_skipped_step *l = all->next; status == MMUL_OK && l != NULL;
         l = l->next) {
        const struct mmul_object both[] = {*joined, l->marks};
        joined->axes = 2;
        status = mmul_apply_operation(e, at, &concat, both, joined);
    }
    if (status == MMUL_OK)
        status = mmul_program_generate(e->program, unit, "node", &value, e->err);
    const struct mmul_object units = mmul_matrix_object(e, value, 2);
    if (status == MMUL_OK)
        status = mmul_apply_operation(e, at, &column, &units, &own);
    const struct mmul_object both[] = {own, *joined};
    joined->axes = 2;
    return status == MMUL_OK ? mmul_apply_operation(e, at, &times, both, joined) : status;
}

// Sends the skipped steps of all nodes to root with the current program.
static enum mmul_status send_skipped_steps(struct mmul_evaluator *e, const struct mmul_node *call) {
    const struct mmul_skipped_step *all = e->skipped_steps;
    struct mmul_object joined, held = {.kind = MMUL_OBJECT_NONE}, again, marks;
    struct mmul_arena *next = e->next_arena;
    struct node_programs p;
    if (all == NULL)
        return MMUL_OK;
    enum mmul_status status = begin_node_programs(e, &p);
    // The current program reads the held values, so they go to its memory.
    e->next_arena = e->arena;
    for (int node = 0; status == MMUL_OK && node < p.count; node++) {
        status = begin_program_of_node(e, &p, node);
        if (status == MMUL_OK)
            status = join_marks(e, call, all, &joined);
        if (status == MMUL_OK)
            status = hold_on_node(e, &p, call, &joined, false, node == 0 ? &held : &again);
    }
    if (status == MMUL_OK)
        status = run_node_programs(e, &p);
    e->skipped_steps = NULL;
    if (status == MMUL_OK)
        status = mmul_held_values_commit(e, &p.holds, false);
    e->next_arena = next;
    end_node_programs(e, &p);
    if (status == MMUL_OK)
        status = import_summands(e, call, &held, &marks);
    return status == MMUL_OK ? mmul_view_skipped_steps(e, call, all, &marks) : status;
}

// -------------------------------------------------------------------------------------- iterations

struct local_run {
    const struct mmul_node *call, *function;
    int64_t at;
    struct mmul_object state;
    struct list skipped_steps;
};

// Evaluates the function for one node.
static enum mmul_status evaluate_iteration(struct mmul_evaluator *e, const struct local_run *t,
                                           struct mmul_object *result) {
    struct mmul_object function;
    const struct mmul_object arguments[] = {t->state, mmul_object_from_integer(t->at)};
    e->steps = 0;
    enum mmul_status status = mmul_evaluator_read_function(e, t->function, &function);
    if (status == MMUL_OK)
        status = e->call(e, t->call, &function, arguments, result);
    if (status == MMUL_OK && !mmul_objects_match(&t->state, result))
        status = mmul_evaluator_fail(
            e, t->call, "%s changes the structure of its state: other matrices or shapes",
            t->function->text);
    return status;
}

static enum mmul_status run_iteration(struct mmul_evaluator *e, struct local_run *t) {
    struct node_programs p;
    struct mmul_object next = {.kind = MMUL_OBJECT_NONE}, made, again;
    enum mmul_status status = begin_node_programs(e, &p);
    for (int node = 0; status == MMUL_OK && node < p.count; node++) {
        status = begin_program_of_node(e, &p, node);
        if (status == MMUL_OK)
            status = evaluate_iteration(e, t, &made);
        if (status == MMUL_OK)
            status = hold_on_node(e, &p, t->call, &made, true, node == 0 ? &next : &again);
        if (status == MMUL_OK)
            status = hold_marks(e, &p, t->call, &t->skipped_steps, t->at);
    }
    if (status == MMUL_OK && run_node_programs(e, &p) != MMUL_OK)
        status = mmul_job_prefix_turn(e, t->at);
    if (status == MMUL_OK) {
        t->state = next;
        status = mmul_held_values_commit(e, &p.holds, true);
    }
    end_node_programs(e, &p);
    mmul_script_temporaries_free(e->script);
    return status;
}

// Runs the iterations. Two arenas alternate, so that memory does not grow with their number.
static enum mmul_status run_iterations(struct mmul_evaluator *e, struct local_run *t,
                                       int64_t turns) {
    struct mmul_arena arenas[2] = {0}, *outside = e->arena, *outside_next = e->next_arena;
    struct mmul_held_values none = {NULL};
    struct mmul_object state;
    enum mmul_status status = MMUL_OK;
    e->arena = &arenas[0];
    e->next_arena = &arenas[1];
    for (int64_t i = 0; status == MMUL_OK && i < turns; i++, t->at++) {
        status = run_iteration(e, t);
        struct mmul_arena *over = e->arena;
        mmul_arena_fini(over);
        e->arena = e->next_arena;
        e->next_arena = over;
    }
    e->next_arena = outside;
    if (status == MMUL_OK)
        status = mmul_held_values_add(e, &none, &t->state, &state);
    if (status == MMUL_OK)
        t->state = state;
    e->arena = outside;
    e->next_arena = outside_next;
    mmul_arena_fini(&arenas[0]);
    mmul_arena_fini(&arenas[1]);
    return status;
}

// Computes the weights of the nodes: by windows seen, or by compute shares if batch() was not used.
static enum mmul_status compute_weights(struct mmul_evaluator *e, const int64_t *before,
                                        const double **parts) {
    const int count = count_nodes(e);
    double *made = mmul_arena_allocate(&e->script->arena, (size_t)count * sizeof *made, e->err);
    int64_t sum = 0;
    if (made == NULL)
        return e->err->status;
    for (int i = 0; i < count; i++)
        sum += e->script->node_windows[i] - before[i];
    for (int i = 0; i < count; i++)
        made[i] = sum > 0 ? (double)(e->script->node_windows[i] - before[i]) / (double)sum
                          : e->script->node_shares[i];
    *parts = made;
    return MMUL_OK;
}

// Marks x as different per node with the given weights in the mean; NULL removes the mark.
static enum mmul_status set_weights(struct mmul_evaluator *e, const struct mmul_object *x,
                                    const double *parts, struct mmul_object *made) {
    struct mmul_object items[MMUL_TUPLE_MOST];
    *made = *x;
    if (x->kind == MMUL_OBJECT_MATRIX)
        made->parts = parts;
    if (x->kind != MMUL_OBJECT_TUPLE)
        return MMUL_OK;
    for (int i = 0; i < x->count; i++)
        if (set_weights(e, &x->items[i], parts, &items[i]) != MMUL_OK)
            return e->err->status;
    return mmul_evaluator_tuple(e, items, x->count, made);
}

// Replicates to all nodes what their programs read: the state and the global names used in
// functions.
static enum mmul_status replicate_inputs(struct mmul_evaluator *e, const struct mmul_node *call,
                                         struct mmul_object *state) {
    const struct mmul_object given = *state;
    enum mmul_status status = mmul_job_replicate(e, call, &given, state);
    for (struct mmul_binding *b = e->top->bindings; status == MMUL_OK && b != NULL; b = b->next) {
        const struct mmul_object object = b->object;
        if (mmul_functions_read_name(e, b->name))
            status = mmul_job_replicate(e, call, &object, &b->object);
    }
    return status;
}

static enum mmul_status run_local_training(struct mmul_evaluator *e, struct local_run *t,
                                           int64_t turns, struct mmul_object *result) {
    int64_t *before = NULL;
    const double *parts = NULL;
    const int count = count_nodes(e);
    mmul_jobs_enter_loop(e, t->call);
    enum mmul_status status = replicate_inputs(e, t->call, &t->state);
    struct mmul_pinned_object pin = {&t->state, e->pinned_objects};
    e->pinned_objects = &pin;
    if (status == MMUL_OK)
        status = mmul_job_run(e, t->call, NULL);
    if (status == MMUL_OK)
        status = query_nodes(e);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(before, count, "windows", e->err);
    if (status == MMUL_OK) {
        memcpy(before, e->script->node_windows, (size_t)count * sizeof *before);
        t->skipped_steps =
            (struct list){e->loops == 1 ? &e->script->arena : e->arena, &e->skipped_steps};
        status = run_iterations(e, t, turns);
    }
    if (status == MMUL_OK)
        status = compute_weights(e, before, &parts);
    if (status == MMUL_OK)
        status = set_weights(e, &t->state, parts, result);
    mmul_free(before);
    e->pinned_objects = pin.outer;
    mmul_jobs_leave_loop(e);
    return status == MMUL_OK ? send_skipped_steps(e, t->call) : status;
}

// For --check: evaluates one iteration as if all nodes formed one, with the same restrictions as in
// a run. A first reading evaluates more, until the types no longer change.
static enum mmul_status check_local_training(struct mmul_evaluator *e, struct local_run *t,
                                             int64_t turns, struct mmul_object *result) {
    static const double all = 1;
    int64_t windows = 0;
    struct mmul_local_node together = {.nodes = 1, .shares = &all, .windows = &windows};
    struct mmul_local_training_cost *checked = NULL;
    enum mmul_status status = mmul_local_training_cost_begin(e, t->call, turns, &checked);
    bool is_over = false;
    if (status == MMUL_OK && e->script->is_first_reading)
        status = mmul_held_types_note(e, t->call, false, &t->state);
    e->apart = &together;
    for (int64_t i = 0; status == MMUL_OK && !is_over && i < turns; i++, t->at++) {
        status = evaluate_iteration(e, t, result);
        is_over = !e->script->is_first_reading || i >= MMUL_HELD_TYPES_TURNS;
        if (status == MMUL_OK && !is_over)
            status = mmul_held_types_end_turn(e, t->call, result, NULL, &is_over);
        t->state = *result;
    }
    e->apart = NULL;
    if (status != MMUL_OK)
        return status;
    mmul_local_training_cost_end(e, checked, result);
    const struct mmul_object made = *result;
    return set_weights(e, &made, &all, result);
}

enum mmul_status mmul_builtin_apart(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                    const struct mmul_node *call,
                                    const struct mmul_argument *arguments,
                                    struct mmul_object *result) {
    const struct mmul_object *function = &arguments[0].object;
    struct local_run t = {
        .call = call, .function = arguments[0].node, .state = arguments[1].object};
    int64_t turns = 0;
    (void)builtin;
    if (function->count != 2)
        return mmul_evaluator_fail(e, arguments[0].node,
                                   "f must be a function of two parameters, a state and a turn");
    if (mmul_object_count_matrices(&t.state) == 0)
        return mmul_evaluator_fail(e, arguments[1].node, "the state must contain matrices");
    if (e->frame != e->top || e->named != call)
        return mmul_evaluator_fail(
            e, call, "apart must be assigned outside of functions: NAME = apart(...)");
    if (mmul_argument_get_integer(e, &arguments[2], "first", &t.at) != MMUL_OK ||
        mmul_argument_get_integer(e, &arguments[3], "turns", &turns) != MMUL_OK)
        return e->err->status;
    if (t.at < 0 || turns < 1)
        return mmul_evaluator_fail(e, call, "apart: first must be at least 0 and turns at least 1");
    if (e->script->only_checked)
        return check_local_training(e, &t, turns, result);
    if (e->script->runner.apart == NULL)
        return mmul_evaluator_fail(e, call, "apart(...) needs `mpimatmul run`");
    return run_local_training(e, &t, turns, result);
}

// ----------------------------------------------------------------------------------------- average

// Applies `each` to a matrix or to all matrices in nested tuples.
static enum mmul_status map_matrices(struct mmul_evaluator *e, const struct mmul_node *at,
                                     enum mmul_status (*each)(struct mmul_evaluator *,
                                                              const struct mmul_node *,
                                                              const struct mmul_object *,
                                                              struct mmul_object *),
                                     const struct mmul_object *x, struct mmul_object *made) {
    struct mmul_object items[MMUL_TUPLE_MOST];
    if (x->kind == MMUL_OBJECT_MATRIX)
        return each(e, at, x, made);
    if (x->kind != MMUL_OBJECT_TUPLE)
        return mmul_evaluator_fail(e, at, "average needs matrices or tuples of them, found %s",
                                   mmul_object_name(x));
    for (int i = 0; i < x->count; i++)
        if (map_matrices(e, at, each, &x->items[i], &items[i]) != MMUL_OK)
            return e->err->status;
    return mmul_evaluator_tuple(e, items, x->count, made);
}

static enum mmul_status check_differs_per_node(struct mmul_evaluator *e, const struct mmul_node *at,
                                               const struct mmul_object *x,
                                               struct mmul_object *made) {
    *made = *x;
    return x->parts != NULL
               ? MMUL_OK
               : mmul_evaluator_fail(
                     e, at,
                     "average needs a result of apart(...): all nodes have the same value here");
}

// Computes the node's summand; each of its ranks contributes an equal part.
static enum mmul_status weigh_by_node(struct mmul_evaluator *e, const struct mmul_node *at,
                                      const struct mmul_object *x, struct mmul_object *made) {
    struct mmul_call call = {.operation = "multiply", .operand_count = 2};
    const int node = e->apart->node;
    const struct mmul_object operands[] = {
        *x, mmul_object_from_real(x->parts[node] / e->script->nodes[node].ranks)};
    made->axes = x->axes;
    return mmul_apply_operation(e, at, &call, operands, made);
}

enum mmul_status mmul_builtin_average(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                      const struct mmul_node *call,
                                      const struct mmul_argument *arguments,
                                      struct mmul_object *result) {
    struct mmul_object x = arguments[0].object, made, held = {.kind = MMUL_OBJECT_NONE}, again;
    struct mmul_arena *next = e->next_arena;
    struct node_programs p;
    (void)builtin;
    if (map_matrices(e, call, check_differs_per_node, &x, &made) != MMUL_OK)
        return e->err->status;
    if (e->script->only_checked) {
        if (e->script->is_first_reading && mmul_held_types_note(e, call, true, &made) != MMUL_OK)
            return e->err->status;
        return set_weights(e, &made, NULL, result) == MMUL_OK
                   ? mmul_loop_cost_add_mean(e, result, true)
                   : e->err->status;
    }
    enum mmul_status status = begin_node_programs(e, &p);
    // The current program reads the held values, so they go to its memory.
    e->next_arena = e->arena;
    for (int node = 0; status == MMUL_OK && node < p.count; node++) {
        status = begin_program_of_node(e, &p, node);
        if (status == MMUL_OK)
            status = map_matrices(e, call, weigh_by_node, &x, &made);
        if (status == MMUL_OK)
            status = hold_on_node(e, &p, call, &made, true, node == 0 ? &held : &again);
    }
    if (status == MMUL_OK)
        status = run_node_programs(e, &p);
    if (status == MMUL_OK)
        status = mmul_held_values_commit(e, &p.holds, false);
    e->next_arena = next;
    end_node_programs(e, &p);
    return status == MMUL_OK ? map_matrices(e, call, import_summands, &held, result) : status;
}
