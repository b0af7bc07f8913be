// SPDX-License-Identifier: MIT
// Optimizers for parameters in nested tuples, gradient clipping and learning-rate schedules.
// Everything is composed of existing operations, so the engine needs no code for an optimizer.
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "model/matrix.h"
#include "tensor/builtins.h"
#include "tensor/jobs.h"
#include "tensor/local_training.h"
#include "tensor/loop_costs.h"
#include "tensor/script.h"

// ---------------------------------------------------------------------------- emitting operations

// Emits operations one by one. After the first failure all calls do nothing.
struct emitter {
    struct mmul_evaluator *e;
    const struct mmul_node *at;
    enum mmul_status status;
    // 1 x 1: 0 if the step must be skipped. None: the step is always made.
    struct mmul_object may_step;
};

static struct mmul_object emit_operation(struct emitter *w, const char *operation,
                                         const struct mmul_object *operands, int count) {
    struct mmul_call call = {.operation = operation, .operand_count = count};
    struct mmul_object result = {.axes = 2};
    for (int i = 0; i < count; i++)
        if (operands[i].kind == MMUL_OBJECT_MATRIX && operands[i].axes > result.axes)
            result.axes = operands[i].axes;
    if (w->status == MMUL_OK)
        w->status = mmul_apply_operation(w->e, w->at, &call, operands, &result);
    return result;
}

static struct mmul_object emit_binary(struct emitter *w, const char *operation,
                                      struct mmul_object x, struct mmul_object y) {
    return emit_operation(w, operation, (const struct mmul_object[]){x, y}, 2);
}

static struct mmul_object emit_unary(struct emitter *w, const char *operation,
                                     struct mmul_object x) {
    return emit_operation(w, operation, &x, 1);
}

static struct mmul_object emit_where(struct emitter *w, struct mmul_object condition,
                                     struct mmul_object x, struct mmul_object y) {
    return emit_operation(w, "where", (const struct mmul_object[]){condition, x, y}, 3);
}

static struct mmul_object emit_number(struct emitter *w, const char *operation,
                                      struct mmul_object x, double number) {
    return emit_binary(w, operation, x, mmul_object_from_real(number));
}

// x a + y b
static struct mmul_object emit_weighted_sum(struct emitter *w, struct mmul_object x, double a,
                                            struct mmul_object y, double b) {
    return emit_binary(w, "add", emit_number(w, "multiply", x, a),
                       emit_number(w, "multiply", y, b));
}

// Appends y to the row x; None for x starts the row.
static struct mmul_object append_column(struct emitter *w, struct mmul_object x,
                                        struct mmul_object y) {
    struct mmul_call call = {.operation = "concat", .operand_count = 2, .with.axis = -1};
    struct mmul_object row = {.axes = 2};
    if (x.kind != MMUL_OBJECT_MATRIX || w->status != MMUL_OK)
        return y;
    w->status = mmul_apply_operation(w->e, w->at, &call, (const struct mmul_object[]){x, y}, &row);
    return row;
}

static struct mmul_object emit_reduction(struct emitter *w, const char *operation,
                                         struct mmul_object x) {
    struct mmul_object made = {0};
    if (w->status == MMUL_OK)
        w->status = mmul_reduce(w->e, w->at, operation, 0, &x, &made);
    made.axes = 2;
    return made;
}

static struct mmul_object emit_sum(struct emitter *w, struct mmul_object x) {
    return emit_reduction(w, "sum", x);
}

// ---------------------------------------------------------------------------------- nested states

// One parameter of an optimizer with its gradient and its state, before and after the step.
enum { REMEMBERED = 2 };
struct parameter_state {
    struct mmul_object parameter, gradient, remembered[REMEMBERED];
};
typedef void optimiser(struct emitter *w, const void *how, struct parameter_state *entry);

// Updates one parameter. If the step is skipped, `where` keeps every old value bit by bit.
static void update_parameter(struct emitter *w, optimiser *each, const void *how,
                             struct parameter_state *entry) {
    const struct parameter_state before = *entry;
    each(w, how, entry);
    if (w->may_step.kind != MMUL_OBJECT_MATRIX)
        return;
    entry->parameter = emit_where(w, w->may_step, entry->parameter, before.parameter);
    for (int i = 0; i < REMEMBERED; i++)
        if (entry->remembered[i].value != before.remembered[i].value ||
            entry->remembered[i].job != before.remembered[i].job)
            entry->remembered[i] =
                emit_where(w, w->may_step, entry->remembered[i], before.remembered[i]);
}

static enum mmul_status fail_structure(struct emitter *w, const char *what) {
    return w->status =
               mmul_evaluator_fail(w->e, w->at, "%s and the parameters differ in structure", what);
}

// Applies `each` to nested tuples of parameters, gradients and state, all of one structure, and
// replaces them by the results. Unused slots of the state are ignored.
static void update_nested(struct emitter *w, optimiser *each, const void *how, int remembered,
                          struct parameter_state *entry) {
    enum { PARTS = 2 + REMEMBERED };
    const struct mmul_object *x = &entry->parameter, *g = &entry->gradient;
    if (w->status != MMUL_OK)
        return;
    if (g->kind != x->kind || g->count != x->count)
        fail_structure(w, "the gradient");
    for (int i = 0; i < remembered && w->status == MMUL_OK; i++)
        if (entry->remembered[i].kind != x->kind || entry->remembered[i].count != x->count)
            fail_structure(w, "the state");
    if (w->status == MMUL_OK && x->kind == MMUL_OBJECT_MATRIX) {
        if (!mmul_shape_equal(x->shape, g->shape))
            w->status =
                mmul_evaluator_fail(w->e, w->at, "a gradient and its parameter differ in shape");
        else
            update_parameter(w, each, how, entry);
        return;
    }
    if (w->status == MMUL_OK && x->kind != MMUL_OBJECT_TUPLE)
        w->status = mmul_evaluator_fail(w->e, w->at,
                                        "parameters must be matrices or nested tuples of them");
    if (w->status != MMUL_OK)
        return;
    const int count = x->count;
    struct mmul_object *parts =
        mmul_arena_allocate(w->e->arena, (size_t)(PARTS * count) * sizeof *parts + 1, w->e->err);
    if (parts == NULL) {
        w->status = w->e->err->status;
        return;
    }
    for (int i = 0; i < count; i++) {
        struct parameter_state item = {x->items[i], g->items[i], {{0}}};
        for (int r = 0; r < remembered; r++)
            item.remembered[r] = entry->remembered[r].items[i];
        update_nested(w, each, how, remembered, &item);
        parts[i] = item.parameter;
        parts[count + i] = item.gradient;
        for (int r = 0; r < REMEMBERED; r++)
            parts[(2 + r) * count + i] = item.remembered[r];
    }
    struct mmul_object *made[] = {&entry->parameter, &entry->gradient, &entry->remembered[0],
                                  &entry->remembered[1]};
    for (int i = 0; i < PARTS && w->status == MMUL_OK; i++)
        w->status = mmul_evaluator_tuple(w->e, parts + i * count, count, made[i]);
}

// Reads a state tuple (parameters, remembered, ...).
static enum mmul_status read_state(struct mmul_evaluator *e, const struct mmul_argument *argument,
                                   int remembered, struct parameter_state *entry) {
    const struct mmul_object *state = &argument->object;
    if (state->kind != MMUL_OBJECT_TUPLE || state->count != 1 + remembered)
        return mmul_evaluator_fail(
            e, argument->node,
            "state must be a tuple of %d, as made by the matching ..._state function",
            1 + remembered);
    entry->parameter = state->items[0];
    for (int i = 0; i < remembered; i++)
        entry->remembered[i] = state->items[1 + i];
    return MMUL_OK;
}

static enum mmul_status return_state(struct emitter *w, const struct parameter_state *entry,
                                     int remembered, struct mmul_object *result) {
    const struct mmul_object state[] = {entry->parameter, entry->remembered[0],
                                        entry->remembered[1]};
    return w->status == MMUL_OK ? mmul_evaluator_tuple(w->e, state, 1 + remembered, result)
                                : w->status;
}

// --------------------------------------------------------------------------------------- gradients

// Reduces a matrix to one number: sum of elements, largest absolute value, or sum of squares of x *
// scale.
typedef struct mmul_object number_of(struct emitter *w, struct mmul_object x,
                                     const struct mmul_object *scale);

static struct mmul_object sum_of_elements(struct emitter *w, struct mmul_object x,
                                          const struct mmul_object *scale) {
    (void)scale;
    return emit_sum(w, x);
}

static struct mmul_object largest_size(struct emitter *w, struct mmul_object x,
                                       const struct mmul_object *scale) {
    (void)scale;
    return emit_reduction(w, "max", emit_unary(w, "abs", x));
}

static struct mmul_object sum_of_squares(struct emitter *w, struct mmul_object x,
                                         const struct mmul_object *scale) {
    const struct mmul_object scaled = emit_binary(w, "multiply", x, *scale);
    return emit_sum(w, emit_binary(w, "multiply", scaled, scaled));
}

// Appends one number per matrix in x to `row`.
static struct mmul_object list_numbers(struct emitter *w, const struct mmul_object *x,
                                       number_of *of, const struct mmul_object *scale,
                                       struct mmul_object row) {
    if (x->kind == MMUL_OBJECT_MATRIX)
        return append_column(w, row, of(w, *x, scale));
    for (int i = 0; x->kind == MMUL_OBJECT_TUPLE && i < x->count; i++)
        row = list_numbers(w, &x->items[i], of, scale, row);
    return row;
}

static void scale_gradient(struct emitter *w, const void *how, struct parameter_state *entry) {
    entry->gradient = emit_binary(w, "multiply", entry->gradient, *(const struct mmul_object *)how);
}

// As torch's clip_grad_norm_: scales by most / (norm + 1e-6) if that is below 1.
enum mmul_status mmul_builtin_clip_grad_norm(struct mmul_evaluator *e,
                                             const struct mmul_builtin *builtin,
                                             const struct mmul_node *call,
                                             const struct mmul_argument *arguments,
                                             struct mmul_object *result) {
    struct emitter w = {.e = e, .at = call};
    struct parameter_state entry = {arguments[0].object, arguments[0].object, {{0}}};
    double most = 0;
    (void)builtin;
    if (mmul_argument_get_real(e, &arguments[1], "most", 0, &most) != MMUL_OK)
        return e->err->status;
    const struct mmul_object none = {.kind = MMUL_OBJECT_NONE};
    const struct mmul_object sizes = list_numbers(&w, &entry.gradient, largest_size, NULL, none);
    const struct mmul_object by = emit_unary(&w, "scale_for_squares", sizes);
    const struct mmul_object squares = list_numbers(&w, &entry.gradient, sum_of_squares, &by, none);
    // Both sides are multiplied by the scale, because the norm itself may overflow.
    const struct mmul_object root = emit_unary(&w, "sqrt", emit_sum(&w, squares));
    const struct mmul_object least = emit_number(&w, "multiply", by, 1e-6);
    const struct mmul_object quotient = emit_binary(
        &w, "divide", emit_number(&w, "multiply", by, most), emit_binary(&w, "add", root, least));
    const struct mmul_object factor = emit_number(&w, "minimum", quotient, 1);
    update_nested(&w, scale_gradient, &factor, 0, &entry);
    *result = e->clipped = entry.gradient;
    e->squares = squares;
    return w.status;
}

// Arranges the check for finite gradients. After clip_grad_norm the stored squares are checked,
// since one bad element makes all clipped gradients NaN.
static void check_gradient(struct emitter *w, const struct mmul_argument *gradient,
                           const struct mmul_object *parameters) {
    const struct mmul_object *g = &gradient->object, *clipped = &w->e->clipped;
    const bool is_clipped = w->e->squares.kind == MMUL_OBJECT_MATRIX &&
                            w->e->squares.job == w->e->job && g->kind == clipped->kind &&
                            g->items == clipped->items && g->value == clipped->value;
    const struct mmul_object sums =
        is_clipped ? w->e->squares
                   : list_numbers(w, g, sum_of_elements, NULL,
                                  (struct mmul_object){.kind = MMUL_OBJECT_NONE});
    if (w->status != MMUL_OK ||
        sums.kind != MMUL_OBJECT_MATRIX) // update_nested reports other kinds
        return;
    if (w->e->apart == NULL && w->e->script->only_checked)
        w->status = mmul_loop_cost_add_mean(w->e, parameters, false);
    if (w->e->apart == NULL) // else the mean over the nodes is checked later
        w->status = mmul_view_gradient(w->e, w->at, gradient, &sums);
    else if (w->e->script->skips_nan)
        w->status = mmul_local_mark_gradient(w->e, w->at, gradient, &sums);
    if (w->e->script->skips_nan) // 0 times a non-finite number is NaN, which equals nothing
        w->may_step = emit_number(w, "equal", emit_sum(w, emit_number(w, "multiply", sums, 0)), 0);
}

// ------------------------------------------------------------------------------------- optimisers

static void zero_state(struct emitter *w, const void *how, struct parameter_state *entry) {
    const int *remembered = how;
    // The product with 0 gets the parameter's type.
    for (int i = 0; i < *remembered; i++)
        entry->remembered[i] = emit_number(w, "multiply", entry->parameter, 0);
}

enum mmul_status mmul_builtin_state(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                    const struct mmul_node *call,
                                    const struct mmul_argument *arguments,
                                    struct mmul_object *result) {
    struct emitter w = {.e = e, .at = call};
    struct parameter_state entry = {arguments[0].object, arguments[0].object, {{0}}};
    const int remembered = strcmp(builtin->name, "adamw_state") == 0 ? 2 : 1;
    update_nested(&w, zero_state, &remembered, 0, &entry);
    return return_state(&w, &entry, remembered, result);
}

struct adamw {
    double rate, first, second, epsilon, decay, first_part, second_part;
};

// Loshchilov, Hutter, "Decoupled Weight Decay Regularization", 2019; equals torch's AdamW.
static void adamw(struct emitter *w, const void *how, struct parameter_state *entry) {
    const struct adamw *a = how;
    const struct mmul_object g = entry->gradient;
    const struct mmul_object m =
        emit_weighted_sum(w, entry->remembered[0], a->first, g, 1 - a->first);
    const struct mmul_object v = emit_weighted_sum(w, entry->remembered[1], a->second,
                                                   emit_binary(w, "multiply", g, g), 1 - a->second);
    const struct mmul_object root =
        emit_unary(w, "sqrt", emit_number(w, "multiply", v, 1 / a->second_part));
    const struct mmul_object step =
        emit_binary(w, "divide", emit_number(w, "multiply", m, a->rate / a->first_part),
                    emit_number(w, "add", root, a->epsilon));
    const struct mmul_object left =
        emit_number(w, "multiply", entry->parameter, 1 - a->rate * a->decay);
    entry->parameter = emit_binary(w, "subtract", left, step);
    entry->remembered[0] = m;
    entry->remembered[1] = v;
}

static enum mmul_status read_betas(struct mmul_evaluator *e, const struct mmul_argument *argument,
                                   struct adamw *a) {
    const struct mmul_object *betas = &argument->object;
    a->first = 0.9;
    a->second = 0.999;
    if (argument->node == NULL || betas->kind == MMUL_OBJECT_NONE)
        return MMUL_OK;
    if (betas->kind != MMUL_OBJECT_TUPLE || betas->count != 2 ||
        !mmul_object_is_number(&betas->items[0]) || !mmul_object_is_number(&betas->items[1]))
        return mmul_evaluator_fail(e, argument->node, "betas are two numbers: (0.9, 0.999)");
    a->first = mmul_object_number(&betas->items[0]);
    a->second = mmul_object_number(&betas->items[1]);
    return MMUL_OK;
}

enum mmul_status mmul_builtin_adamw(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                    const struct mmul_node *call,
                                    const struct mmul_argument *arguments,
                                    struct mmul_object *result) {
    struct emitter w = {.e = e, .at = call};
    struct parameter_state entry = {.gradient = arguments[1].object};
    struct adamw a = {0};
    int64_t turn = 0;
    (void)builtin;
    enum mmul_status status = read_state(e, &arguments[0], 2, &entry);
    if (status == MMUL_OK)
        status = mmul_argument_get_integer(e, &arguments[2], "turn", &turn);
    if (status == MMUL_OK)
        status = mmul_argument_get_real(e, &arguments[3], "rate", 0, &a.rate);
    if (status == MMUL_OK)
        status = read_betas(e, &arguments[4], &a);
    if (status == MMUL_OK)
        status = mmul_argument_get_real(e, &arguments[5], "eps", 1e-8, &a.epsilon);
    if (status == MMUL_OK)
        status = mmul_argument_get_real(e, &arguments[6], "decay", 0.01, &a.decay);
    if (status != MMUL_OK)
        return status;
    if (turn < 0)
        return mmul_evaluator_fail(e, arguments[2].node, "turn must be at least 0");
    a.first_part = 1 - pow(a.first, (double)turn + 1);
    a.second_part = 1 - pow(a.second, (double)turn + 1);
    check_gradient(&w, &arguments[1], &entry.parameter);
    update_nested(&w, adamw, &a, 2, &entry);
    return return_state(&w, &entry, 2, result);
}

struct sgd {
    double rate, momentum, decay;
    bool nesterov;
};

// As torch's SGD: v = momentum v + g; the step is v, or g + momentum v for Nesterov, times the
// rate.
static void sgd(struct emitter *w, const void *how, struct parameter_state *entry) {
    const struct sgd *s = how;
    struct mmul_object g = entry->gradient;
    if (s->decay != 0)
        g = emit_binary(w, "add", g, emit_number(w, "multiply", entry->parameter, s->decay));
    if (s->momentum != 0) {
        const struct mmul_object v =
            emit_binary(w, "add", emit_number(w, "multiply", entry->remembered[0], s->momentum), g);
        entry->remembered[0] = v;
        g = s->nesterov ? emit_binary(w, "add", g, emit_number(w, "multiply", v, s->momentum)) : v;
    }
    entry->parameter =
        emit_binary(w, "subtract", entry->parameter, emit_number(w, "multiply", g, s->rate));
}

enum mmul_status mmul_builtin_sgd(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                  const struct mmul_node *call,
                                  const struct mmul_argument *arguments,
                                  struct mmul_object *result) {
    struct emitter w = {.e = e, .at = call};
    struct parameter_state entry = {.gradient = arguments[1].object};
    struct sgd s = {0};
    (void)builtin;
    enum mmul_status status = read_state(e, &arguments[0], 1, &entry);
    if (status == MMUL_OK)
        status = mmul_argument_get_real(e, &arguments[2], "rate", 0, &s.rate);
    if (status == MMUL_OK)
        status = mmul_argument_get_real(e, &arguments[3], "momentum", 0, &s.momentum);
    if (status == MMUL_OK)
        status = mmul_argument_get_bool(e, &arguments[4], "nesterov", &s.nesterov);
    if (status == MMUL_OK)
        status = mmul_argument_get_real(e, &arguments[5], "decay", 0, &s.decay);
    if (status != MMUL_OK)
        return status;
    check_gradient(&w, &arguments[1], &entry.parameter);
    update_nested(&w, sgd, &s, 1, &entry);
    return return_state(&w, &entry, 1, result);
}

// The outer step of DiLoCo (Douillard et al., 2023). The gradient is the old parameters minus the
// new ones.
static void nesterov(struct emitter *w, const void *how, struct parameter_state *entry) {
    entry->gradient = emit_binary(w, "subtract", entry->parameter, entry->gradient);
    sgd(w, how, entry);
}

enum mmul_status mmul_builtin_nesterov(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                       const struct mmul_node *call,
                                       const struct mmul_argument *arguments,
                                       struct mmul_object *result) {
    struct emitter w = {.e = e, .at = call};
    struct parameter_state entry = {.gradient = arguments[1].object};
    struct sgd s = {.nesterov = true};
    (void)builtin;
    enum mmul_status status = read_state(e, &arguments[0], 1, &entry);
    if (status == MMUL_OK)
        status = mmul_argument_get_real(e, &arguments[2], "rate", 0.7, &s.rate);
    if (status == MMUL_OK)
        status = mmul_argument_get_real(e, &arguments[3], "momentum", 0.9, &s.momentum);
    if (status != MMUL_OK)
        return status;
    check_gradient(&w, &arguments[1], &entry.parameter);
    update_nested(&w, nesterov, &s, 1, &entry);
    return return_state(&w, &entry, 1, result);
}

// ------------------------------------------------------------------------------------------- rates

// Rises linearly to `high` in `warm` iterations, then falls to `low` along a cosine or a line.
enum mmul_status mmul_builtin_schedule(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                       const struct mmul_node *call,
                                       const struct mmul_argument *arguments,
                                       struct mmul_object *result) {
    static const char *const names[] = {"turn", "warm", "turns", "high", "low"};
    double given[5];
    (void)call;
    for (int i = 0; i < 5; i++)
        if (mmul_argument_get_real(e, &arguments[i], names[i], 0, &given[i]) != MMUL_OK)
            return e->err->status;
    const double turn = given[0], warm = given[1], turns = given[2], high = given[3],
                 low = given[4];
    const double part = turns > warm ? fmin(fmax((turn - warm) / (turns - warm), 0), 1) : 1;
    const double left =
        strcmp(builtin->name, "cosine") == 0 ? 0.5 * (1 + cos(acos(-1) * part)) : 1 - part;
    *result = mmul_object_from_real(turn < warm ? high * (turn + 1) / (warm + 1)
                                                : low + (high - low) * left);
    return MMUL_OK;
}
