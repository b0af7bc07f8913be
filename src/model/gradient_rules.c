// SPDX-License-Identifier: MIT
// Rules of the operations: the gradient of each operand from that of the result. Derivatives are
// those of textbooks. If numpy, torch or jax make a choice (at kinks, for ties), it stands beside
// the rule. dy is the gradient of the result y, which may have fewer sizes (model/gradient.h).
//
// If dy is exactly 0, the gradient of every operand is 0, even if the slope is infinite or NaN: a
// branch of `where` that is not taken gives no gradient. Rules with an unbounded slope multiply and
// divide by guarded operations.
#include <math.h>

#include "base/integer.h"
#include "model/composite.h"
#include "model/gradient.h"
#include "model/gradient_pieces.h"
#include "model/matrix.h"

enum { AXES = 4 };

// ----------------------------------------------------------------------------------------- writing

static struct mmul_term operand(const struct mmul_gradient_traversal *w, int i) {
    return (struct mmul_term){w->operation.operands[i], w->operation.with.numbers[i]};
}

static int value_of(const struct mmul_gradient_traversal *w, int i) {
    return w->operation.operands[i];
}

static bool is_number(const struct mmul_gradient_traversal *w, int i) {
    return w->operation.operands[i] == MMUL_NUMBER;
}

static struct mmul_shape shape_of(const struct mmul_gradient_traversal *w, int i) {
    return mmul_build_shape(w->b, w->operation.operands[i]);
}

static struct mmul_shape result_shape(const struct mmul_gradient_traversal *w) {
    return mmul_build_shape(w->b, w->operation.result);
}

static int multiply(const struct mmul_gradient_traversal *w, int x, int y) {
    return mmul_build_binary_values(w->b, MMUL_MULTIPLY, x, y);
}

// Multiply or divide dy by a factor, with result 0 where dy is 0.
static int multiply_guarded(const struct mmul_gradient_traversal *w, int dy, int factor) {
    return mmul_build_binary_values(w->b, MMUL_MULTIPLY_BACKWARD, dy, factor);
}

static int divide_guarded(const struct mmul_gradient_traversal *w, int dy, int divisor) {
    return mmul_build_binary_values(w->b, MMUL_DIVIDE_BACKWARD, dy, divisor);
}

// Does so by a term; a finite number needs no guard.
static int apply_guarded_factor(const struct mmul_gradient_traversal *w, bool divides,
                                struct mmul_term factor) {
    const bool is_plain =
        factor.value == MMUL_NUMBER && isfinite(factor.number) && (factor.number != 0 || !divides);
    const enum mmul_operation_kind kind = divides
                                              ? (is_plain ? MMUL_DIVIDE : MMUL_DIVIDE_BACKWARD)
                                              : (is_plain ? MMUL_MULTIPLY : MMUL_MULTIPLY_BACKWARD);
    return mmul_build_binary(w->b, kind, mmul_value_term(w->gradient), factor);
}

static int scale(const struct mmul_gradient_traversal *w, int x, double number) {
    return number == 1 ? x : mmul_build_binary_number(w->b, MMUL_MULTIPLY, x, number);
}

static int negate(const struct mmul_gradient_traversal *w, int x) {
    return mmul_build_unary(w->b, MMUL_NEG, x);
}

// Returns the gradient with all sizes of the result.
static int expand_gradient(const struct mmul_gradient_traversal *w) {
    return mmul_build_broadcast(w->b, w->gradient, result_shape(w));
}

static int transpose(const struct mmul_gradient_traversal *w, int x) {
    return mmul_build_unary(w->b, MMUL_TRANSPOSE, x);
}

static int matmul(const struct mmul_gradient_traversal *w, int x, int y) {
    return mmul_build_binary_values(w->b, MMUL_MATMUL, x, y);
}

// number - x
static int subtract_from(const struct mmul_gradient_traversal *w, double number, int x) {
    return mmul_build_binary(w->b, MMUL_SUBTRACT, mmul_number_term(number), mmul_value_term(x));
}

// ---------------------------------------------------------------------------------------- elements

// The gradient of the operand is that of the result, broadcast.
static void sum_rule(struct mmul_gradient_traversal *w) {
    mmul_gradient_add(w, 0, w->gradient);
}

static void negate_rule(struct mmul_gradient_traversal *w) {
    mmul_gradient_add(w, 0, negate(w, w->gradient));
}

static void exp_rule(struct mmul_gradient_traversal *w) {
    mmul_gradient_add(w, 0, multiply_guarded(w, w->gradient, w->operation.result));
}

// dy / x. For an infinite x the divisor is 2^100, not infinity. x may be an overflowed e^z, and dy
// times e^z must then not become 0 silently. (1 / x is 0 up to rounding all the same.)
static void give_quotient(struct mmul_gradient_traversal *w, int x) {
    const int is_infinite = mmul_build_binary_number(w->b, MMUL_EQUAL, x, INFINITY);
    const int divisor =
        mmul_build_where(w->b, is_infinite, mmul_number_term(0x1p100), mmul_value_term(x));
    mmul_gradient_add(w, 0, divide_guarded(w, w->gradient, divisor));
}

static void log_rule(struct mmul_gradient_traversal *w) {
    give_quotient(w, value_of(w, 0));
}

static void log1p_rule(struct mmul_gradient_traversal *w) {
    give_quotient(w, mmul_build_binary_number(w->b, MMUL_ADD, value_of(w, 0), 1));
}

static void sqrt_rule(struct mmul_gradient_traversal *w) {
    const int half = scale(w, w->gradient, 0.5);
    mmul_gradient_add(w, 0, divide_guarded(w, half, w->operation.result));
}

static void rsqrt_rule(struct mmul_gradient_traversal *w) { // -y^3 / 2
    const int y = w->operation.result;
    mmul_gradient_add(
        w, 0, multiply_guarded(w, scale(w, w->gradient, -0.5), multiply(w, y, multiply(w, y, y))));
}

static void abs_rule(struct mmul_gradient_traversal *w) { // 0 at 0
    const int x = value_of(w, 0);
    const int above = mmul_build_binary_number(w->b, MMUL_GREATER, x, 0),
              below = mmul_build_binary_number(w->b, MMUL_LESS, x, 0);
    mmul_gradient_add(w, 0,
                      multiply_guarded(w,
                                       mmul_build_binary_values(w->b, MMUL_SUBTRACT, above, below),
                                       w->gradient));
}

static void relu_rule(struct mmul_gradient_traversal *w) { // 0 at 0
    const int above = mmul_build_binary_number(w->b, MMUL_GREATER, value_of(w, 0), 0);
    mmul_gradient_add(
        w, 0, mmul_build_where(w->b, above, mmul_value_term(w->gradient), mmul_number_term(0)));
}

static void sigmoid_rule(struct mmul_gradient_traversal *w) {
    const int y = w->operation.result;
    mmul_gradient_add(w, 0, multiply(w, w->gradient, multiply(w, y, subtract_from(w, 1, y))));
}

static void tanh_rule(struct mmul_gradient_traversal *w) {
    const int y = w->operation.result;
    mmul_gradient_add(w, 0, multiply(w, w->gradient, subtract_from(w, 1, multiply(w, y, y))));
}

static void sin_rule(struct mmul_gradient_traversal *w) {
    mmul_gradient_add(
        w, 0, multiply_guarded(w, w->gradient, mmul_build_unary(w->b, MMUL_COS, value_of(w, 0))));
}

static void cos_rule(struct mmul_gradient_traversal *w) {
    mmul_gradient_add(w, 0,
                      multiply_guarded(w, negate(w, w->gradient),
                                       mmul_build_unary(w->b, MMUL_SIN, value_of(w, 0))));
}

static void erf_rule(struct mmul_gradient_traversal *w) { // 2 / sqrt(pi) e^(-x^2)
    const int x = value_of(w, 0);
    const int density = mmul_build_unary(w->b, MMUL_EXP, negate(w, multiply(w, x, x)));
    mmul_gradient_add(w, 0,
                      multiply_guarded(w, scale(w, w->gradient, 1.1283791670955126), density));
}

static void erfinv_rule(struct mmul_gradient_traversal *w) { // sqrt(pi) / 2 e^(y^2)
    const int y = w->operation.result;
    const int slope = mmul_build_unary(w->b, MMUL_EXP, multiply(w, y, y));
    mmul_gradient_add(w, 0, multiply_guarded(w, scale(w, w->gradient, 0.88622692545275801), slope));
}

static void arctan_rule(struct mmul_gradient_traversal *w) { // 1 / (1 + x^2)
    const int x = value_of(w, 0);
    const int divisor = mmul_build_binary_number(w->b, MMUL_ADD, multiply(w, x, x), 1);
    mmul_gradient_add(w, 0, divide_guarded(w, w->gradient, divisor));
}

static void expm1_rule(struct mmul_gradient_traversal *w) {
    mmul_gradient_add(
        w, 0, multiply_guarded(w, w->gradient, mmul_build_unary(w->b, MMUL_EXP, value_of(w, 0))));
}

static void slope_rule(struct mmul_gradient_traversal *w) {
    const enum mmul_operation_kind kind = w->operation.kind == MMUL_SILU ? MMUL_SILU_BACKWARD
                                          : w->operation.kind == MMUL_GELU
                                              ? MMUL_GELU_BACKWARD
                                              : MMUL_GELU_TANH_BACKWARD;
    mmul_gradient_add(w, 0, mmul_build_binary_values(w->b, kind, value_of(w, 0), w->gradient));
}

static void add_rule(struct mmul_gradient_traversal *w) {
    mmul_gradient_add_summed(w, 0, w->gradient);
    mmul_gradient_add_summed(w, 1, w->gradient);
}

static bool is_wanted(const struct mmul_gradient_traversal *w, int i) {
    return !is_number(w, i) && w->is_wanted[value_of(w, i)];
}

static void subtract_rule(struct mmul_gradient_traversal *w) {
    mmul_gradient_add_summed(w, 0, w->gradient);
    if (is_wanted(w, 1))
        mmul_gradient_add_summed(w, 1, negate(w, w->gradient));
}

static void multiply_rule(struct mmul_gradient_traversal *w) {
    for (int i = 0; i < 2; i++)
        if (is_wanted(w, i))
            mmul_gradient_add_summed(w, i, apply_guarded_factor(w, false, operand(w, 1 - i)));
}

static void divide_rule(struct mmul_gradient_traversal *w) { // 1 / b, -y / b
    const int each = apply_guarded_factor(w, true, operand(w, 1));
    mmul_gradient_add_summed(w, 0, each);
    if (is_wanted(w, 1))
        mmul_gradient_add_summed(w, 1, negate(w, multiply_guarded(w, each, w->operation.result)));
}

// dy - floor(a / b) dy
static void remainder_rule(struct mmul_gradient_traversal *w) {
    mmul_gradient_add_summed(w, 0, w->gradient);
    if (is_wanted(w, 1)) {
        const int quotient =
            mmul_build_binary(w->b, MMUL_FLOOR_DIVIDE, operand(w, 0), operand(w, 1));
        mmul_gradient_add_summed(w, 1, negate(w, multiply_guarded(w, w->gradient, quotient)));
    }
}

// b a^(b - 1), which is 0 for b = 0.
static int slope_by_base(const struct mmul_gradient_traversal *w, struct mmul_term a,
                         struct mmul_term b) {
    if (b.value != MMUL_NUMBER) {
        const int power = mmul_build_binary(
            w->b, MMUL_POWER, a,
            mmul_value_term(mmul_build_binary_number(w->b, MMUL_SUBTRACT, b.value, 1)));
        return multiply_guarded(w, b.value, power);
    }
    if (b.number == 0)
        return mmul_build_fill(w->b, mmul_build_shape(w->b, a.value), false);
    return scale(w,
                 b.number == 2 ? a.value
                               : mmul_build_binary_number(w->b, MMUL_POWER, a.value, b.number - 1),
                 b.number);
}

// y log a, which is 0 if a is 0 and b is not negative (as torch).
static int slope_by_exponent(const struct mmul_gradient_traversal *w, struct mmul_term a,
                             struct mmul_term b) {
    if (a.value == MMUL_NUMBER && a.number != 0)
        return scale(w, w->operation.result, log(a.number));
    const struct mmul_term zero = mmul_number_term(0);
    const int is_least = mmul_build_binary_number(w->b, MMUL_GREATER_EQUAL, b.value, 0);
    if (a.value == MMUL_NUMBER)
        return mmul_build_where(w->b, is_least, zero, mmul_number_term(-INFINITY));
    const int raised = multiply(w, w->operation.result, mmul_build_unary(w->b, MMUL_LOG, a.value));
    const int none = multiply(w, mmul_build_binary_number(w->b, MMUL_EQUAL, a.value, 0), is_least);
    return mmul_build_where(w->b, none, zero, mmul_value_term(raised));
}

static void power_rule(struct mmul_gradient_traversal *w) {
    const struct mmul_term a = operand(w, 0), b = operand(w, 1);
    if (is_wanted(w, 0))
        mmul_gradient_add_summed(w, 0, multiply_guarded(w, w->gradient, slope_by_base(w, a, b)));
    if (is_wanted(w, 1))
        mmul_gradient_add_summed(w, 1,
                                 multiply_guarded(w, w->gradient, slope_by_exponent(w, a, b)));
}

// The larger (smaller) operand gets the gradient; equal ones share it.
static void extreme_rule(struct mmul_gradient_traversal *w) {
    const bool is_most = w->operation.kind == MMUL_MAXIMUM;
    const struct mmul_term a = operand(w, 0), b = operand(w, 1);
    const int ties = mmul_build_binary_number(w->b, MMUL_MULTIPLY,
                                              mmul_build_binary(w->b, MMUL_EQUAL, a, b), 0.5);
    for (int i = 0; i < 2; i++) {
        if (!is_wanted(w, i))
            continue;
        const enum mmul_operation_kind wins = is_most == (i == 0) ? MMUL_GREATER : MMUL_LESS;
        const int share =
            mmul_build_binary_values(w->b, MMUL_ADD, mmul_build_binary(w->b, wins, a, b), ties);
        mmul_gradient_add_summed(w, i, multiply_guarded(w, share, w->gradient));
    }
}

static void where_rule(struct mmul_gradient_traversal *w) {
    const struct mmul_term dy = mmul_value_term(w->gradient), zero = mmul_number_term(0);
    if (is_number(w, 0)) {
        mmul_gradient_add_summed(w, operand(w, 0).number != 0 ? 1 : 2, w->gradient);
        return;
    }
    for (int i = 1; i < 3; i++)
        if (is_wanted(w, i))
            mmul_gradient_add_summed(w, i,
                                     i == 1 ? mmul_build_where(w->b, value_of(w, 0), dy, zero)
                                            : mmul_build_where(w->b, value_of(w, 0), zero, dy));
}

// -------------------------------------------------------------------------------------------- rows

static void softmax_rule(struct mmul_gradient_traversal *w) {
    mmul_gradient_add(w, 0,
                      mmul_build_binary_values(w->b, MMUL_SOFTMAX_BACKWARD, w->operation.result,
                                               expand_gradient(w)));
}

// Rows of length 1, or, if shorter than 1e-12, divided by that: (dy - y sum(dy y)) / length.
static void normalize_rule(struct mmul_gradient_traversal *w) {
    const int x = value_of(w, 0), y = w->operation.result;
    const int root = mmul_composite_norm(w->b, x, -1);
    const int length = mmul_build_binary_number(w->b, MMUL_MAXIMUM, root, 1e-12);
    const int along = mmul_build_reduce(w->b, MMUL_SUM, multiply(w, expand_gradient(w), y), -1);
    const int counts = mmul_build_binary_number(w->b, MMUL_GREATER, root, 1e-12);
    const int off = multiply(w, y, multiply(w, along, counts));
    const int rest = mmul_build_binary_values(w->b, MMUL_SUBTRACT, w->gradient, off);
    mmul_gradient_add(w, 0, mmul_build_binary_values(w->b, MMUL_DIVIDE, rest, length));
}

// x gets its gradient in one pass. The gradients of w and b, which are vectors, are summed over all
// rows.
static void norm_rule(struct mmul_gradient_traversal *w) {
    const bool centers = w->operation.kind == MMUL_LAYER_NORM;
    const int count = w->operation.operand_count, dy = expand_gradient(w);
    const struct mmul_parameters *with = &w->operation.with;
    if (is_wanted(w, 0)) {
        struct mmul_term operands[] = {operand(w, 0), mmul_value_term(dy), {0}};
        if (count > 1)
            operands[2] = operand(w, 1);
        mmul_gradient_add(
            w, 0,
            mmul_build_apply(w->b, centers ? MMUL_LAYER_NORM_BACKWARD : MMUL_RMS_NORM_BACKWARD,
                             operands, count > 1 ? 3 : 2, with));
    }
    if (count > 1 && is_wanted(w, 1)) {
        const struct mmul_term x = operand(w, 0);
        const int plain = mmul_build_apply(w->b, w->operation.kind, &x, 1, with);
        mmul_gradient_add_summed(w, 1, multiply(w, dy, plain));
    }
    if (count > 2)
        mmul_gradient_add_summed(w, 2, dy);
}

// Rotates back.
static void rope_rule(struct mmul_gradient_traversal *w) {
    struct mmul_parameters with = w->operation.with;
    const struct mmul_term dy = mmul_value_term(expand_gradient(w));
    with.scale = with.scale < 0 ? 1 : -1;
    mmul_gradient_add(w, 0, mmul_build_apply(w->b, MMUL_ROPE, &dy, 1, &with));
}

// Sums all elements from this one on.
static void cumsum_rule(struct mmul_gradient_traversal *w) {
    const int dy = expand_gradient(w);
    const int before =
        mmul_build_binary_values(w->b, MMUL_SUBTRACT, mmul_build_unary(w->b, MMUL_CUMSUM, dy), dy);
    const int all = mmul_build_reduce(w->b, MMUL_SUM, dy, -1);
    mmul_gradient_add(w, 0, mmul_build_binary_values(w->b, MMUL_SUBTRACT, all, before));
}

// Each element gets the gradient of its sorted position, which is the place of its column in the
// sorted order.
static void sort_rule(struct mmul_gradient_traversal *w) {
    const struct mmul_term x = operand(w, 0);
    const int order = mmul_build_apply(w->b, MMUL_ARGSORT, &x, 1, &w->operation.with);
    const int places = mmul_build_unary(w->b, MMUL_ARGSORT, order);
    mmul_gradient_add(
        w, 0, mmul_build_binary_values(w->b, MMUL_SORT_BACKWARD, expand_gradient(w), places));
}

// The inverse: the sorted positions are the columns that they come from.
static void sort_backward_rule(struct mmul_gradient_traversal *w) {
    const int order = mmul_build_unary(w->b, MMUL_ARGSORT, value_of(w, 1));
    mmul_gradient_add(
        w, 0, mmul_build_binary_values(w->b, MMUL_SORT_BACKWARD, expand_gradient(w), order));
}

static void cross_entropy_rule(struct mmul_gradient_traversal *w) {
    const struct mmul_term operands[] = {operand(w, 0), operand(w, 1),
                                         mmul_value_term(expand_gradient(w))};
    mmul_gradient_add(w, 0, mmul_build_apply(w->b, MMUL_CROSS_ENTROPY_BACKWARD, operands, 3, NULL));
}

// Each of the largest gives its gradient to its column. The second half of the result, the columns,
// are whole numbers without gradient.
static void topk_rule(struct mmul_gradient_traversal *w) {
    enum { MOST = 64 };
    const int64_t k = w->operation.with.count;
    const struct mmul_parameters with = {.count = shape_of(w, 0).cols};
    const int dy = expand_gradient(w);
    int sum = MMUL_NO_VALUE;
    if (k > MOST)
        mmul_build_fail(w->b, MMUL_ERR_DATA,
                        "cannot differentiate the largest %lld of a row: at most %d", (long long)k,
                        MOST);
    for (int64_t j = 0; j < k && w->b->err->status == MMUL_OK; j++) {
        const struct mmul_term place =
            mmul_value_term(mmul_build_slice_columns(w->b, w->operation.result, k + j, k + j + 1));
        const int there = mmul_build_apply(w->b, MMUL_ONE_HOT, &place, 1, &with);
        const int part = multiply(w, mmul_build_slice_columns(w->b, dy, j, j + 1), there);
        sum = sum == MMUL_NO_VALUE ? part : mmul_build_binary_values(w->b, MMUL_ADD, sum, part);
    }
    mmul_gradient_add(w, 0, sum);
}

// -------------------------------------------------------------------------------------- reductions

static void mean_rule(struct mmul_gradient_traversal *w) {
    const struct mmul_shape x = shape_of(w, 0);
    const int64_t size = w->operation.with.axis == -1 ? x.cols : x.rows;
    mmul_gradient_add(w, 0, scale(w, w->gradient, 1 / (double)size));
}

// Elements that equal the result share its gradient. For the last of several reductions (torch's
// amax, amin) these are elements over all axes together, and the earlier reductions get no
// gradient.
static void largest_rule(struct mmul_gradient_traversal *w) {
    const bool is_of_all = w->operation.reduces > 0;
    const int x = is_of_all ? w->operation.reduces - 1 : value_of(w, 0);
    const int is_there = mmul_build_binary_values(w->b, MMUL_EQUAL, x, w->operation.result);
    const int count =
        mmul_composite_reduce(w->b, MMUL_SUM, is_there, is_of_all ? 0 : w->operation.with.axis);
    const int each = mmul_build_binary_values(w->b, MMUL_DIVIDE, w->gradient, count);
    mmul_gradient_add_to(w, x, multiply_guarded(w, is_there, each));
}

static void sum_at_rule(struct mmul_gradient_traversal *w) {
    const struct mmul_shape rows = shape_of(w, 0);
    const int ids =
        mmul_build_reshape(w->b, value_of(w, 1), (struct mmul_shape){1, 1, 1, rows.rows});
    mmul_gradient_add(w, 0, mmul_build_binary_values(w->b, MMUL_TAKE, expand_gradient(w), ids));
}

// ------------------------------------------------------------------------------------------ places

// Makes all steps 1: flips axes with a negative step, and puts zeros between elements. begin: start
// of the result in the operand.
static int remove_steps(const struct mmul_gradient_traversal *w, int dy,
                        int64_t begin[static AXES]) {
    for (int s = 0; s < AXES; s++) {
        const int64_t step = mmul_slice_step(&w->operation.with, s),
                      size = mmul_slice_size(&w->operation.with, s);
        begin[s] = w->operation.with.begin[s];
        if (step < 0) {
            begin[s] += (size - 1) * step;
            dy = mmul_build_flip(w->b, dy, s);
        }
        if (step != 1 && step != -1)
            dy = mmul_build_dilate(w->b, dy, s, step < 0 ? -step : step);
    }
    return dy;
}

// Puts the gradient between zeros. All cut axes except one are padded; the last one becomes a
// piece.
static void slice_rule(struct mmul_gradient_traversal *w) {
    int64_t all[AXES], have[AXES], begin[AXES];
    int dy = remove_steps(w, expand_gradient(w), begin), axis = -1;
    mmul_shape_to_sizes(shape_of(w, 0), all);
    mmul_shape_to_sizes(mmul_build_shape(w->b, dy), have);
    for (int s = AXES - 1; s >= 0; s--) {
        if (all[s] == have[s])
            continue;
        if (axis >= 0)
            dy = mmul_build_pad(w->b, dy, axis, begin[axis], all[axis]);
        axis = s;
    }
    if (axis < 0)
        mmul_gradient_add(w, 0, dy);
    else
        mmul_gradient_add_piece(w, 0, axis, begin[axis], dy);
}

static void reshape_rule(struct mmul_gradient_traversal *w) {
    mmul_gradient_add(w, 0, mmul_build_reshape(w->b, expand_gradient(w), shape_of(w, 0)));
}

static void permute_rule(struct mmul_gradient_traversal *w) {
    struct mmul_parameters with = {0};
    const struct mmul_term dy = mmul_value_term(expand_gradient(w));
    for (int s = 0; s < AXES; s++)
        with.axes[w->operation.with.axes[s]] = s;
    mmul_gradient_add(w, 0, mmul_build_apply(w->b, MMUL_PERMUTE, &dy, 1, &with));
}

static void concat_rule(struct mmul_gradient_traversal *w) {
    const int axis = w->operation.with.axis + AXES, dy = expand_gradient(w);
    int64_t begin[AXES] = {0}, end[AXES], sizes[AXES];
    for (int i = 0; i < 2; i++) {
        mmul_shape_to_sizes(result_shape(w), end);
        mmul_shape_to_sizes(shape_of(w, i), sizes);
        end[axis] = begin[axis] + sizes[axis];
        if (is_wanted(w, i))
            mmul_gradient_add(w, i, mmul_build_slice(w->b, dy, begin, end));
        begin[axis] = end[axis];
    }
}

// Adds the gradients of taken rows to the rows of the table that they came from.
static void take_rule(struct mmul_gradient_traversal *w) {
    const struct mmul_shape table = shape_of(w, 0), y = result_shape(w);
    const int64_t count = mmul_shape_matrices(y) * y.rows;
    const struct mmul_parameters with = {.axis = -2, .count = table.rows};
    const struct mmul_term operands[] = {
        mmul_value_term(
            mmul_build_reshape(w->b, expand_gradient(w), (struct mmul_shape){1, 1, count, y.cols})),
        mmul_value_term(
            mmul_build_reshape(w->b, value_of(w, 1), (struct mmul_shape){1, 1, count, 1}))};
    mmul_gradient_add(w, 0, mmul_build_apply(w->b, MMUL_SUM_AT, operands, 2, &with));
}

static void transpose_rule(struct mmul_gradient_traversal *w) {
    mmul_gradient_add(w, 0, transpose(w, expand_gradient(w)));
}

// ---------------------------------------------------------------------------------------- products

// Two products: dy b^T and a^T dy. For a stack times one matrix the second is one product, of all
// rows.
static void matmul_rule(struct mmul_gradient_traversal *w) {
    const int a = value_of(w, 0), b = value_of(w, 1), dy = expand_gradient(w);
    const struct mmul_shape x = shape_of(w, 0), z = shape_of(w, 1), y = result_shape(w);
    const int64_t matrices = mmul_shape_matrices(x);
    if (is_wanted(w, 0))
        mmul_gradient_add_summed_from(w, 0, matmul(w, dy, transpose(w, b)),
                                      (struct mmul_shape){y.batch, y.depth, x.rows, x.cols});
    if (!is_wanted(w, 1))
        return;
    if (matrices == 1 || mmul_shape_matrices(z) > 1) {
        mmul_gradient_add_summed_from(w, 1, matmul(w, transpose(w, a), dy),
                                      (struct mmul_shape){y.batch, y.depth, z.rows, z.cols});
        return;
    }
    const int rows =
        mmul_build_reshape(w->b, a, (struct mmul_shape){1, 1, matrices * x.rows, x.cols});
    const int given =
        mmul_build_reshape(w->b, dy, (struct mmul_shape){1, 1, matrices * x.rows, y.cols});
    mmul_gradient_add(w, 1, matmul(w, transpose(w, rows), given));
}

// Sums the gradients given by the heads of q that share one head of k or v.
static int sum_over_groups(const struct mmul_gradient_traversal *w, int value,
                           struct mmul_shape shape) {
    const struct mmul_shape each = mmul_build_shape(w->b, value);
    if (value == MMUL_NO_VALUE || each.depth == shape.depth)
        return value;
    const struct mmul_shape groups = {shape.batch, shape.depth, each.depth / shape.depth,
                                      shape.rows * shape.cols};
    return mmul_build_reshape(
        w->b, mmul_build_reduce(w->b, MMUL_SUM, mmul_build_reshape(w->b, value, groups), -2),
        shape);
}

// Each gradient recomputes the scores, in tiles, from the sums of their rows.
static void attention_rule(struct mmul_gradient_traversal *w) {
    static const enum mmul_operation_kind kinds[] = {
        MMUL_ATTENTION_BACKWARD_Q, MMUL_ATTENTION_BACKWARD_K, MMUL_ATTENTION_BACKWARD_V,
        MMUL_ATTENTION_BACKWARD_MASK};
    const struct mmul_parameters *with = &w->operation.with;
    const int count = w->operation.operand_count;
    const struct mmul_term q = operand(w, 0), k = operand(w, 1), v = operand(w, 2),
                           y = mmul_value_term(w->operation.result),
                           dy = mmul_value_term(expand_gradient(w)),
                           mask = count > 3 ? operand(w, 3) : mmul_number_term(0);
    const struct mmul_term rows[] = {q, k, y, dy, mask};
    const int sums = mmul_build_apply(w->b, MMUL_ATTENTION_SUMS, rows, count + 1, with);
    const struct mmul_term operands[] = {q, k, v, dy, mmul_value_term(sums), mask};
    for (int i = 0; i < count; i++) {
        if (!is_wanted(w, i))
            continue;
        const int made = mmul_build_apply(w->b, kinds[i], operands, count + 2, with);
        if (i < 3)
            mmul_gradient_add(w, i, sum_over_groups(w, made, shape_of(w, i)));
        else
            mmul_gradient_add_summed_from(w, i, made, mmul_build_shape(w->b, made));
    }
}

// ------------------------------------------------------------------------------------------- table

static mmul_gradient_rule *const RULES[MMUL_OPERATION_KINDS] = {
    [MMUL_MATMUL] = matmul_rule,
    [MMUL_TRANSPOSE] = transpose_rule,
    [MMUL_PLACE] = sum_rule,
    [MMUL_NEG] = negate_rule,
    [MMUL_EXP] = exp_rule,
    [MMUL_LOG] = log_rule,
    [MMUL_LOG1P] = log1p_rule,
    [MMUL_SQRT] = sqrt_rule,
    [MMUL_RSQRT] = rsqrt_rule,
    [MMUL_ABS] = abs_rule,
    [MMUL_RELU] = relu_rule,
    [MMUL_SIGMOID] = sigmoid_rule,
    [MMUL_TANH] = tanh_rule,
    [MMUL_SILU] = slope_rule,
    [MMUL_GELU] = slope_rule,
    [MMUL_GELU_TANH] = slope_rule,
    [MMUL_SIN] = sin_rule,
    [MMUL_COS] = cos_rule,
    [MMUL_ERF] = erf_rule,
    [MMUL_ERFINV] = erfinv_rule,
    [MMUL_ARCTAN] = arctan_rule,
    [MMUL_EXPM1] = expm1_rule,
    [MMUL_ADD] = add_rule,
    [MMUL_SUBTRACT] = subtract_rule,
    [MMUL_MULTIPLY] = multiply_rule,
    [MMUL_DIVIDE] = divide_rule,
    [MMUL_MULTIPLY_BACKWARD] = multiply_rule,
    [MMUL_DIVIDE_BACKWARD] = divide_rule,
    [MMUL_REMAINDER] = remainder_rule,
    [MMUL_POWER] = power_rule,
    [MMUL_MAXIMUM] = extreme_rule,
    [MMUL_MINIMUM] = extreme_rule,
    [MMUL_WHERE] = where_rule,
    [MMUL_SOFTMAX] = softmax_rule,
    [MMUL_RMS_NORM] = norm_rule,
    [MMUL_LAYER_NORM] = norm_rule,
    [MMUL_NORMALIZE] = normalize_rule,
    [MMUL_TOPK] = topk_rule,
    [MMUL_ROPE] = rope_rule,
    [MMUL_CUMSUM] = cumsum_rule,
    [MMUL_SORT] = sort_rule,
    [MMUL_SORT_BACKWARD] = sort_backward_rule,
    [MMUL_CROSS_ENTROPY] = cross_entropy_rule,
    [MMUL_SUM] = sum_rule,
    [MMUL_MEAN] = mean_rule,
    [MMUL_MAX] = largest_rule,
    [MMUL_MIN] = largest_rule,
    [MMUL_SUM_AT] = sum_at_rule,
    [MMUL_SLICE] = slice_rule,
    [MMUL_RESHAPE] = reshape_rule,
    [MMUL_PERMUTE] = permute_rule,
    [MMUL_CONCAT] = concat_rule,
    [MMUL_TAKE] = take_rule,
    [MMUL_ATTENTION] = attention_rule,
};

// Fused backward operations have no second derivative yet.
static bool is_of_gradients(enum mmul_operation_kind kind) {
    return kind == MMUL_SILU_BACKWARD || kind == MMUL_GELU_BACKWARD ||
           kind == MMUL_GELU_TANH_BACKWARD || kind == MMUL_SOFTMAX_BACKWARD ||
           kind == MMUL_CROSS_ENTROPY_BACKWARD || kind == MMUL_RMS_NORM_BACKWARD ||
           kind == MMUL_LAYER_NORM_BACKWARD ||
           (kind >= MMUL_ATTENTION_SUMS && kind <= MMUL_ATTENTION_BACKWARD_MASK);
}

mmul_gradient_rule *mmul_gradient_rule_of(enum mmul_operation_kind kind, const char **reason) {
    *reason = is_of_gradients(kind) ? "second derivatives of it are not supported" : NULL;
    return RULES[kind];
}
