// SPDX-License-Identifier: MIT
// Optimizers for parameters in nested tuples, gradient clipping and learning-rate schedules.
// Everything is composed of existing operations, so the engine needs no code for an optimizer.
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "model/matrix.h"
#include "tensor/apart.h"
#include "tensor/builtins.h"
#include "tensor/checked_loops.h"
#include "tensor/jobs.h"
#include "tensor/script.h"

// ---------------------------------------------------------------------------- emitting operations

// Emits operations one by one. After the first failure all calls do nothing.
struct writer {
    struct mmul_evaluator *e;
    const struct mmul_node *at;
    enum mmul_status status;
    // 1 x 1: 0 if the step must be skipped. None: the step is always made.
    struct mmul_object may_step;
};

static struct mmul_object number(double x) {
    return mmul_object_from_real(x);
}

static struct mmul_object apply(struct writer *w, const char *operation,
                                const struct mmul_object *operands, int count) {
    struct mmul_call call = {.operation = operation, .operand_count = count};
    struct mmul_object result = {.axes = 2};
    for (int i = 0; i < count; i++)
        if (operands[i].kind == MMUL_OBJECT_MATRIX && operands[i].axes > result.axes)
            result.axes = operands[i].axes;
    if (w->status == MMUL_OK)
        w->status = mmul_apply(w->e, w->at, &call, operands, &result);
    return result;
}

static struct mmul_object two(struct writer *w, const char *operation, struct mmul_object x,
                              struct mmul_object y) {
    return apply(w, operation, (const struct mmul_object[]){x, y}, 2);
}

static struct mmul_object one(struct writer *w, const char *operation, struct mmul_object x) {
    return apply(w, operation, &x, 1);
}

static struct mmul_object either(struct writer *w, struct mmul_object condition,
                                 struct mmul_object x, struct mmul_object y) {
    return apply(w, "where", (const struct mmul_object[]){condition, x, y}, 3);
}

// x a + y b
static struct mmul_object mixed(struct writer *w, struct mmul_object x, double a,
                                struct mmul_object y, double b) {
    return two(w, "add", two(w, "multiply", x, number(a)), two(w, "multiply", y, number(b)));
}

// Appends y to the row x; None for x starts the row.
static struct mmul_object beside(struct writer *w, struct mmul_object x, struct mmul_object y) {
    struct mmul_call call = {.operation = "concat", .operand_count = 2, .with.axis = -1};
    struct mmul_object row = {.axes = 2};
    if (x.kind != MMUL_OBJECT_MATRIX || w->status != MMUL_OK)
        return y;
    w->status = mmul_apply(w->e, w->at, &call, (const struct mmul_object[]){x, y}, &row);
    return row;
}

static struct mmul_object reduced(struct writer *w, const char *operation, struct mmul_object x) {
    struct mmul_object made = {0};
    if (w->status == MMUL_OK)
        w->status = mmul_reduce_all(w->e, w->at, operation, &x, &made);
    made.axes = 2;
    return made;
}

static struct mmul_object sum_of(struct writer *w, struct mmul_object x) {
    return reduced(w, "sum", x);
}

// ---------------------------------------------------------------------------------- nested states

// One parameter of an optimizer with its gradient and its state, before and after the step.
enum { REMEMBERED = 2 };
struct kept {
    struct mmul_object parameter, gradient, remembered[REMEMBERED];
};
typedef void optimiser(struct writer *w, const void *how, struct kept *kept);

// Updates one parameter. If the step is skipped, `where` keeps every old value bit by bit.
static void step(struct writer *w, optimiser *each, const void *how, struct kept *kept) {
    const struct kept before = *kept;
    each(w, how, kept);
    if (w->may_step.kind != MMUL_OBJECT_MATRIX)
        return;
    kept->parameter = either(w, w->may_step, kept->parameter, before.parameter);
    for (int i = 0; i < REMEMBERED; i++)
        if (kept->remembered[i].value != before.remembered[i].value ||
            kept->remembered[i].job != before.remembered[i].job)
            kept->remembered[i] = either(w, w->may_step, kept->remembered[i], before.remembered[i]);
}

static enum mmul_status fail_structure(struct writer *w, const char *what) {
    return w->status = mmul_evaluator_fail(w->e, w->at,
                                           "%s has another structure than the parameters", what);
}

// Applies `each` to nested tuples of parameters, gradients and state, all of one structure, and
// replaces them by the results. Unused slots of the state are ignored.
static void walk(struct writer *w, optimiser *each, const void *how, int remembered,
                 struct kept *kept) {
    enum { PARTS = 2 + REMEMBERED };
    const struct mmul_object *x = &kept->parameter, *g = &kept->gradient;
    if (w->status != MMUL_OK)
        return;
    if (g->kind != x->kind || g->count != x->count)
        fail_structure(w, "the gradient");
    for (int i = 0; i < remembered && w->status == MMUL_OK; i++)
        if (kept->remembered[i].kind != x->kind || kept->remembered[i].count != x->count)
            fail_structure(w, "the state");
    if (w->status == MMUL_OK && x->kind == MMUL_OBJECT_MATRIX) {
        if (!mmul_shape_equal(x->shape, g->shape))
            w->status =
                mmul_evaluator_fail(w->e, w->at, "a gradient has another shape than its parameter");
        else
            step(w, each, how, kept);
        return;
    }
    if (w->status == MMUL_OK && x->kind != MMUL_OBJECT_TUPLE)
        w->status = mmul_evaluator_fail(w->e, w->at, "parameters are matrices, or tuples of them");
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
        struct kept item = {x->items[i], g->items[i], {{0}}};
        for (int r = 0; r < remembered; r++)
            item.remembered[r] = kept->remembered[r].items[i];
        walk(w, each, how, remembered, &item);
        parts[i] = item.parameter;
        parts[count + i] = item.gradient;
        for (int r = 0; r < REMEMBERED; r++)
            parts[(2 + r) * count + i] = item.remembered[r];
    }
    struct mmul_object *made[] = {&kept->parameter, &kept->gradient, &kept->remembered[0],
                                  &kept->remembered[1]};
    for (int i = 0; i < PARTS && w->status == MMUL_OK; i++)
        w->status = mmul_evaluator_tuple(w->e, parts + i * count, count, made[i]);
}

// Reads a state tuple (parameters, remembered, ...).
static enum mmul_status take_state(struct mmul_evaluator *e, const struct mmul_argument *argument,
                                   int remembered, struct kept *kept) {
    const struct mmul_object *state = &argument->object;
    if (state->kind != MMUL_OBJECT_TUPLE || state->count != 1 + remembered)
        return mmul_evaluator_fail(e, argument->node,
                                   "state is a tuple of %d, as its function of that name makes it",
                                   1 + remembered);
    kept->parameter = state->items[0];
    for (int i = 0; i < remembered; i++)
        kept->remembered[i] = state->items[1 + i];
    return MMUL_OK;
}

static enum mmul_status give_state(struct writer *w, const struct kept *kept, int remembered,
                                   struct mmul_object *result) {
    const struct mmul_object state[] = {kept->parameter, kept->remembered[0], kept->remembered[1]};
    return w->status == MMUL_OK ? mmul_evaluator_tuple(w->e, state, 1 + remembered, result)
                                : w->status;
}

// --------------------------------------------------------------------------------------- gradients

// Reduces a matrix to one number: sum of elements, largest absolute value, or sum of squares of x *
// scale.
typedef struct mmul_object number_of(struct writer *w, struct mmul_object x,
                                     const struct mmul_object *scale);

static struct mmul_object sum_of_elements(struct writer *w, struct mmul_object x,
                                          const struct mmul_object *scale) {
    (void)scale;
    return sum_of(w, x);
}

static struct mmul_object largest_size(struct writer *w, struct mmul_object x,
                                       const struct mmul_object *scale) {
    (void)scale;
    return reduced(w, "max", one(w, "abs", x));
}

static struct mmul_object sum_of_squares(struct writer *w, struct mmul_object x,
                                         const struct mmul_object *scale) {
    const struct mmul_object scaled = two(w, "multiply", x, *scale);
    return sum_of(w, two(w, "multiply", scaled, scaled));
}

// Appends one number per matrix in x to `row`.
static struct mmul_object list_numbers(struct writer *w, const struct mmul_object *x, number_of *of,
                                       const struct mmul_object *scale, struct mmul_object row) {
    if (x->kind == MMUL_OBJECT_MATRIX)
        return beside(w, row, of(w, *x, scale));
    for (int i = 0; x->kind == MMUL_OBJECT_TUPLE && i < x->count; i++)
        row = list_numbers(w, &x->items[i], of, scale, row);
    return row;
}

static void scale(struct writer *w, const void *how, struct kept *kept) {
    kept->gradient = two(w, "multiply", kept->gradient, *(const struct mmul_object *)how);
}

// As torch's clip_grad_norm_: scales by most / (norm + 1e-6) if that is below 1.
enum mmul_status mmul_builtin_clip_grad_norm(struct mmul_evaluator *e,
                                             const struct mmul_builtin *builtin,
                                             const struct mmul_node *call,
                                             const struct mmul_argument *arguments,
                                             struct mmul_object *result) {
    struct writer w = {.e = e, .at = call};
    struct kept kept = {arguments[0].object, arguments[0].object, {{0}}};
    double most = 0;
    (void)builtin;
    if (mmul_take_real(e, &arguments[1], "most", 0, &most) != MMUL_OK)
        return e->err->status;
    const struct mmul_object none = {.kind = MMUL_OBJECT_NONE};
    const struct mmul_object sizes = list_numbers(&w, &kept.gradient, largest_size, NULL, none);
    const struct mmul_object by = one(&w, "scale_for_squares", sizes);
    const struct mmul_object squares = list_numbers(&w, &kept.gradient, sum_of_squares, &by, none);
    // Both sides are multiplied by the scale, because the norm itself may overflow.
    const struct mmul_object root = one(&w, "sqrt", sum_of(&w, squares));
    const struct mmul_object least = two(&w, "multiply", by, number(1e-6));
    const struct mmul_object quotient =
        two(&w, "divide", two(&w, "multiply", by, number(most)), two(&w, "add", root, least));
    const struct mmul_object factor = two(&w, "minimum", quotient, number(1));
    walk(&w, scale, &factor, 0, &kept);
    *result = e->clipped = kept.gradient;
    e->squares = squares;
    return w.status;
}

// Arranges the check for finite gradients. After clip_grad_norm the stored squares are checked,
// since one bad element makes all clipped gradients NaN.
static void look_at(struct writer *w, const struct mmul_argument *gradient,
                    const struct mmul_object *parameters) {
    const struct mmul_object *g = &gradient->object, *clipped = &w->e->clipped;
    const bool is_clipped = w->e->squares.kind == MMUL_OBJECT_MATRIX &&
                            w->e->squares.job == w->e->job && g->kind == clipped->kind &&
                            g->items == clipped->items && g->value == clipped->value;
    const struct mmul_object sums =
        is_clipped ? w->e->squares
                   : list_numbers(w, g, sum_of_elements, NULL,
                                  (struct mmul_object){.kind = MMUL_OBJECT_NONE});
    if (w->status != MMUL_OK || sums.kind != MMUL_OBJECT_MATRIX) // walk reports other kinds
        return;
    if (w->e->apart == NULL && w->e->script->only_checked)
        w->status = mmul_checked_mean(w->e, parameters, false);
    if (w->e->apart == NULL) // else the mean over the nodes is checked later
        w->status = mmul_view_gradient(w->e, w->at, gradient, &sums);
    else if (w->e->script->skips_nan)
        w->status = mmul_apart_mark(w->e, w->at, gradient, &sums);
    if (w->e->script->skips_nan) // 0 times a non-finite number is NaN, which equals nothing
        w->may_step = two(w, "equal", sum_of(w, two(w, "multiply", sums, number(0))), number(0));
}

// ------------------------------------------------------------------------------------- optimisers

static void begin_state(struct writer *w, const void *how, struct kept *kept) {
    const int *remembered = how;
    // The product with 0 gets the parameter's type.
    for (int i = 0; i < *remembered; i++)
        kept->remembered[i] = two(w, "multiply", kept->parameter, number(0));
}

enum mmul_status mmul_builtin_state(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                    const struct mmul_node *call,
                                    const struct mmul_argument *arguments,
                                    struct mmul_object *result) {
    struct writer w = {.e = e, .at = call};
    struct kept kept = {arguments[0].object, arguments[0].object, {{0}}};
    const int remembered = strcmp(builtin->name, "adamw_state") == 0 ? 2 : 1;
    walk(&w, begin_state, &remembered, 0, &kept);
    return give_state(&w, &kept, remembered, result);
}

struct adamw {
    double rate, first, second, epsilon, decay, first_part, second_part;
};

// Loshchilov, Hutter, "Decoupled Weight Decay Regularization", 2019; equals torch's AdamW.
static void adamw(struct writer *w, const void *how, struct kept *kept) {
    const struct adamw *a = how;
    const struct mmul_object g = kept->gradient;
    const struct mmul_object m = mixed(w, kept->remembered[0], a->first, g, 1 - a->first);
    const struct mmul_object v =
        mixed(w, kept->remembered[1], a->second, two(w, "multiply", g, g), 1 - a->second);
    const struct mmul_object root =
        one(w, "sqrt", two(w, "multiply", v, number(1 / a->second_part)));
    const struct mmul_object step =
        two(w, "divide", two(w, "multiply", m, number(a->rate / a->first_part)),
            two(w, "add", root, number(a->epsilon)));
    const struct mmul_object left =
        two(w, "multiply", kept->parameter, number(1 - a->rate * a->decay));
    kept->parameter = two(w, "subtract", left, step);
    kept->remembered[0] = m;
    kept->remembered[1] = v;
}

static enum mmul_status take_betas(struct mmul_evaluator *e, const struct mmul_argument *argument,
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
    struct writer w = {.e = e, .at = call};
    struct kept kept = {.gradient = arguments[1].object};
    struct adamw a = {0};
    int64_t turn = 0;
    (void)builtin;
    enum mmul_status status = take_state(e, &arguments[0], 2, &kept);
    if (status == MMUL_OK)
        status = mmul_take_whole(e, &arguments[2], "turn", &turn);
    if (status == MMUL_OK)
        status = mmul_take_real(e, &arguments[3], "rate", 0, &a.rate);
    if (status == MMUL_OK)
        status = take_betas(e, &arguments[4], &a);
    if (status == MMUL_OK)
        status = mmul_take_real(e, &arguments[5], "eps", 1e-8, &a.epsilon);
    if (status == MMUL_OK)
        status = mmul_take_real(e, &arguments[6], "decay", 0.01, &a.decay);
    if (status != MMUL_OK)
        return status;
    if (turn < 0)
        return mmul_evaluator_fail(e, arguments[2].node, "turn is at least 0");
    a.first_part = 1 - pow(a.first, (double)turn + 1);
    a.second_part = 1 - pow(a.second, (double)turn + 1);
    look_at(&w, &arguments[1], &kept.parameter);
    walk(&w, adamw, &a, 2, &kept);
    return give_state(&w, &kept, 2, result);
}

struct sgd {
    double rate, momentum, decay;
    bool nesterov;
};

// As torch's SGD: v = momentum v + g; the step is v, or g + momentum v for Nesterov, times the
// rate.
static void sgd(struct writer *w, const void *how, struct kept *kept) {
    const struct sgd *s = how;
    struct mmul_object g = kept->gradient;
    if (s->decay != 0)
        g = two(w, "add", g, two(w, "multiply", kept->parameter, number(s->decay)));
    if (s->momentum != 0) {
        const struct mmul_object v =
            two(w, "add", two(w, "multiply", kept->remembered[0], number(s->momentum)), g);
        kept->remembered[0] = v;
        g = s->nesterov ? two(w, "add", g, two(w, "multiply", v, number(s->momentum))) : v;
    }
    kept->parameter = two(w, "subtract", kept->parameter, two(w, "multiply", g, number(s->rate)));
}

enum mmul_status mmul_builtin_sgd(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                  const struct mmul_node *call,
                                  const struct mmul_argument *arguments,
                                  struct mmul_object *result) {
    struct writer w = {.e = e, .at = call};
    struct kept kept = {.gradient = arguments[1].object};
    struct sgd s = {0};
    (void)builtin;
    enum mmul_status status = take_state(e, &arguments[0], 1, &kept);
    if (status == MMUL_OK)
        status = mmul_take_real(e, &arguments[2], "rate", 0, &s.rate);
    if (status == MMUL_OK)
        status = mmul_take_real(e, &arguments[3], "momentum", 0, &s.momentum);
    if (status == MMUL_OK)
        status = mmul_take_bool(e, &arguments[4], "nesterov", &s.nesterov);
    if (status == MMUL_OK)
        status = mmul_take_real(e, &arguments[5], "decay", 0, &s.decay);
    if (status != MMUL_OK)
        return status;
    look_at(&w, &arguments[1], &kept.parameter);
    walk(&w, sgd, &s, 1, &kept);
    return give_state(&w, &kept, 1, result);
}

// The outer step of DiLoCo (Douillard et al., 2023). The gradient is the old parameters minus the
// new ones.
static void nesterov(struct writer *w, const void *how, struct kept *kept) {
    kept->gradient = two(w, "subtract", kept->parameter, kept->gradient);
    sgd(w, how, kept);
}

enum mmul_status mmul_builtin_nesterov(struct mmul_evaluator *e, const struct mmul_builtin *builtin,
                                       const struct mmul_node *call,
                                       const struct mmul_argument *arguments,
                                       struct mmul_object *result) {
    struct writer w = {.e = e, .at = call};
    struct kept kept = {.gradient = arguments[1].object};
    struct sgd s = {.nesterov = true};
    (void)builtin;
    enum mmul_status status = take_state(e, &arguments[0], 1, &kept);
    if (status == MMUL_OK)
        status = mmul_take_real(e, &arguments[2], "rate", 0.7, &s.rate);
    if (status == MMUL_OK)
        status = mmul_take_real(e, &arguments[3], "momentum", 0.9, &s.momentum);
    if (status != MMUL_OK)
        return status;
    look_at(&w, &arguments[1], &kept.parameter);
    walk(&w, nesterov, &s, 1, &kept);
    return give_state(&w, &kept, 1, result);
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
        if (mmul_take_real(e, &arguments[i], names[i], 0, &given[i]) != MMUL_OK)
            return e->err->status;
    const double turn = given[0], warm = given[1], turns = given[2], high = given[3],
                 low = given[4];
    const double part = turns > warm ? fmin(fmax((turn - warm) / (turns - warm), 0), 1) : 1;
    const double left =
        strcmp(builtin->name, "cosine") == 0 ? 0.5 * (1 + cos(acos(-1) * part)) : 1 - part;
    *result = number(turn < warm ? high * (turn + 1) / (warm + 1) : low + (high - low) * left);
    return MMUL_OK;
}
