// SPDX-License-Identifier: MIT
// Definitions of the composites. All axes of a call count from the end, 0: all of them.
#include "model/composite.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "base/status.h"
#include "base/text.h"
#include "model/build.h"
#include "model/composite_functions.h"
#include "model/matrix.h"

enum { AXES = 4 };

typedef int composite(struct mmul_build *b, const struct mmul_composite_call *call);

int mmul_composite_axis(struct mmul_build *b, const struct mmul_composite_call *call,
                        bool takes_all) {
    const int axis = call->with->axis;
    if (axis < -AXES || axis > 0 || (axis == 0 && !takes_all))
        mmul_build_fail(b, MMUL_ERR_USAGE, "cannot %s along axis %d: expected -4 to -1", call->name,
                        axis);
    return axis;
}

// -------------------------------------------------------------------------------------- reductions

// Reduces along one axis after the other; all groups have one size, so a mean of means is the mean.
static int reduce_all(struct mmul_build *b, enum mmul_operation_kind kind, int x) {
    const int64_t stacks = mmul_shape_matrices(mmul_build_shape(b, x));
    const int all = x;
    x = mmul_build_reduce(b, kind, mmul_build_reduce(b, kind, x, -1), -2);
    if (stacks > 1) {
        x = mmul_build_reshape(b, x, (struct mmul_shape){1, 1, 1, stacks});
        x = mmul_build_reduce(b, kind, x, -1);
    }
    // Ties share the gradient of the last reduction, not those of each axis
    // (model/gradient_rules.c).
    if (x != MMUL_NO_VALUE && (kind == MMUL_MAX || kind == MMUL_MIN))
        b->program->operations[b->program->operation_count - 1].reduces = all + 1;
    return x;
}

int mmul_composite_reduce(struct mmul_build *b, enum mmul_operation_kind kind, int x, int axis) {
    return axis == 0 ? reduce_all(b, kind, x) : mmul_build_reduce(b, kind, x, axis);
}

static int reduction(struct mmul_build *b, const struct mmul_composite_call *call) {
    enum mmul_operation_kind kind = MMUL_SUM;
    mmul_operation_find(call->name, &kind);
    return mmul_composite_reduce(b, kind, call->operands[0], mmul_composite_axis(b, call, true));
}

// Makes another value of the same elements, which passes no gradient on.
static int copy_without_gradient(struct mmul_build *b, int value) {
    const struct mmul_term x = mmul_value_term(value);
    const struct mmul_parameters with = {.shape = mmul_build_shape(b, value)};
    const int made = mmul_build_apply(b, MMUL_RESHAPE, &x, 1, &with);
    if (made != MMUL_NO_VALUE)
        b->program->values[made].stops_gradient = true;
    return made;
}

// numpy's, ddof 0: the mean squared deviation from the mean.
static int var(struct mmul_build *b, const struct mmul_composite_call *call) {
    const int x = call->operands[0], axis = mmul_composite_axis(b, call, true);
    const int off =
        mmul_build_binary_values(b, MMUL_SUBTRACT, x, mmul_composite_reduce(b, MMUL_MEAN, x, axis));
    return mmul_composite_reduce(b, MMUL_MEAN, mmul_build_binary_values(b, MMUL_MULTIPLY, off, off),
                                 axis);
}

// Returns a power of two for each group with elements so large or small that squares would overflow
// or underflow. Scaling by it prevents both (Blue, "A portable Fortran program to find the
// Euclidean norm of a vector", 1978). Returns 1 for all others, so that usual elements are squared
// unchanged.
static int scale_for_squares(struct mmul_build *b, int x, int axis) {
    const bool is_double = b->err->status == MMUL_OK && b->program->values[x].dtype == MMUL_F64;
    const double limit = is_double ? 0x1p400 : 0x1p50, scale = is_double ? 0x1p600 : 0x1p80;
    const int most = mmul_composite_reduce(b, MMUL_MAX, mmul_build_unary(b, MMUL_ABS, x), axis);
    const int is_large = mmul_build_binary_number(b, MMUL_GREATER, most, limit),
              is_small = mmul_build_binary_number(b, MMUL_LESS, most, 1 / limit);
    const int up = mmul_build_where(b, is_small, mmul_number_term(scale), mmul_number_term(1));
    return mmul_build_where(b, is_large, mmul_number_term(1 / scale), mmul_value_term(up));
}

static int scale_of_all(struct mmul_build *b, const struct mmul_composite_call *call) {
    return scale_for_squares(b, call->operands[0], 0);
}

// Root of the sum or of the mean of squares. At 0 it is the root of a constant, which has no slope:
// torch's gradient is 0 there.
static int root_of_squares(struct mmul_build *b, enum mmul_operation_kind kind, int x, int axis) {
    const int scale = scale_for_squares(b, x, axis);
    const int scaled = mmul_build_binary_values(b, MMUL_MULTIPLY, x, scale);
    const int sum = mmul_composite_reduce(
        b, kind, mmul_build_binary_values(b, MMUL_MULTIPLY, scaled, scaled), axis);
    const int is_none = mmul_build_binary_number(b, MMUL_EQUAL, sum, 0);
    const int root = mmul_build_unary(
        b, MMUL_SQRT, mmul_build_where(b, is_none, mmul_number_term(0), mmul_value_term(sum)));
    return mmul_build_binary_values(b, MMUL_DIVIDE, root, scale);
}

int mmul_composite_norm(struct mmul_build *b, int x, int axis) {
    return root_of_squares(b, MMUL_SUM, x, axis);
}

static int norm(struct mmul_build *b, const struct mmul_composite_call *call) {
    return mmul_composite_norm(b, call->operands[0], mmul_composite_axis(b, call, true));
}

static int standard_deviation(struct mmul_build *b, const struct mmul_composite_call *call) {
    const int x = call->operands[0], axis = mmul_composite_axis(b, call, true);
    const int off =
        mmul_build_binary_values(b, MMUL_SUBTRACT, x, mmul_composite_reduce(b, MMUL_MEAN, x, axis));
    return root_of_squares(b, MMUL_MEAN, off, axis);
}

// log(sum(exp(x))): the largest element is subtracted before and added afterwards. If it is
// infinite, it is the result, and its position has the gradient.
static int logsumexp(struct mmul_build *b, const struct mmul_composite_call *call) {
    const int x = call->operands[0], axis = mmul_composite_axis(b, call, true);
    const int most = mmul_composite_reduce(b, MMUL_MAX, x, axis);
    const int is_infinite =
        mmul_build_binary_number(b, MMUL_EQUAL, mmul_build_unary(b, MMUL_ABS, most), INFINITY);
    const int shift = copy_without_gradient(
        b, mmul_build_where(b, is_infinite, mmul_number_term(0), mmul_value_term(most)));
    const int powers =
        mmul_build_unary(b, MMUL_EXP, mmul_build_binary_values(b, MMUL_SUBTRACT, x, shift));
    const int sum = mmul_composite_reduce(b, MMUL_SUM, powers, axis);
    const int finite =
        mmul_build_binary_values(b, MMUL_ADD, shift, mmul_build_unary(b, MMUL_LOG, sum));
    return mmul_build_where(b, is_infinite, mmul_value_term(most), mmul_value_term(finite));
}

// Swaps an axis with the last one; its own inverse. Rows and columns are swapped in place.
int mmul_composite_swap(struct mmul_build *b, int value, int axis) {
    const struct mmul_term x = mmul_value_term(value);
    struct mmul_parameters with = {.axes = {0, 1, 2, 3}};
    with.axes[AXES + axis] = AXES - 1;
    with.axes[AXES - 1] = AXES + axis;
    return axis == -1   ? value
           : axis == -2 ? mmul_build_unary(b, MMUL_TRANSPOSE, value)
                        : mmul_build_apply(b, MMUL_PERMUTE, &x, 1, &with);
}

// Applies the operation on rows of this name along any axis.
static int apply_along_axis(struct mmul_build *b, const struct mmul_composite_call *call) {
    const int axis = mmul_composite_axis(b, call, false);
    const struct mmul_parameters with = {.descending = call->with->descending};
    enum mmul_operation_kind kind = MMUL_SORT;
    mmul_operation_find(call->name, &kind);
    if (b->err->status != MMUL_OK)
        return MMUL_NO_VALUE;
    const struct mmul_term x = mmul_value_term(mmul_composite_swap(b, call->operands[0], axis));
    return mmul_composite_swap(b, mmul_build_apply(b, kind, &x, 1, &with), axis);
}

static int softmax(struct mmul_build *b, const struct mmul_composite_call *call) {
    if (call->with->causal)
        mmul_build_fail(b, MMUL_ERR_USAGE, "softmax along axis %d: causal needs the last axis",
                        call->with->axis);
    return apply_along_axis(b, call);
}

// log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)), which neither overflows nor loses a small term.
static int softplus_of(struct mmul_build *b, int x) {
    const int above = mmul_build_binary_number(b, MMUL_MAXIMUM, x, 0);
    const int power = mmul_build_unary(
        b, MMUL_EXP, mmul_build_unary(b, MMUL_NEG, mmul_build_unary(b, MMUL_ABS, x)));
    return mmul_build_binary_values(b, MMUL_ADD, above, mmul_build_unary(b, MMUL_LOG1P, power));
}

static int softplus(struct mmul_build *b, const struct mmul_composite_call *call) {
    return softplus_of(b, call->operands[0]);
}

// numpy's: the upper bound if that is below the lower one. The slope is 1 at a bound, as in torch.
static int clip(struct mmul_build *b, const struct mmul_composite_call *call) {
    const enum mmul_operation_kind beyond[] = {MMUL_LESS, MMUL_GREATER};
    int x = call->operands[0];
    for (int i = 0; i < 2; i++) {
        const double bound = call->with->numbers[1 + i];
        if (isnan(bound))
            mmul_build_fail(b, MMUL_ERR_USAGE, "clip: a bound is not a number");
        if (isinf(bound) && (bound > 0) == (i == 1))
            continue;
        x = mmul_build_where(b, mmul_build_binary_number(b, beyond[i], x, bound),
                             mmul_number_term(bound), mmul_value_term(x));
    }
    return x;
}

// ----------------------------------------------------------------------------------------- indices

// (d, m, n) -> (d, m, n, count), with the shapes of take.
static int one_hot(struct mmul_build *b, const struct mmul_composite_call *call) {
    const struct mmul_value *ids = &b->program->values[call->operands[0]];
    const struct mmul_shape s = ids->shape;
    if (s.batch != 1)
        mmul_build_fail(b, MMUL_ERR_DATA,
                        "cannot one_hot '%s': it has four axes, expected 3 at most", ids->name);
    const struct mmul_term column = mmul_value_term(
        mmul_build_reshape(b, call->operands[0], (struct mmul_shape){s.depth, s.rows, s.cols, 1}));
    return mmul_build_apply(b, MMUL_ONE_HOT, &column, 1, call->with);
}

// Reshapes ids (1, d, m, n) or (d, m, n, 1) for rows (d, m, n, c), an index per row, to a column
// beside them.
static int column_beside(struct mmul_build *b, const struct mmul_composite_call *call, int rows,
                         int ids) {
    struct mmul_shape column = mmul_build_shape(b, rows);
    const struct mmul_shape have = mmul_build_shape(b, ids);
    char here[96], there[96];
    column.cols = 1;
    const struct mmul_shape as_row = {1, column.batch, column.depth, column.rows};
    if (!mmul_shape_equal(have, as_row) && !mmul_shape_equal(have, column))
        mmul_build_fail(b, MMUL_ERR_DATA, "%s of '%s' (%s) by '%s' (%s): expected an index per row",
                        call->name, b->program->values[rows].name,
                        mmul_shape_format(mmul_build_shape(b, rows), there),
                        b->program->values[ids].name, mmul_shape_format(have, here));
    return mmul_build_reshape(b, ids, column);
}

// Mean over all rows.
static int cross_entropy(struct mmul_build *b, const struct mmul_composite_call *call) {
    const int logits = call->operands[0];
    const int ids = column_beside(b, call, logits, call->operands[1]);
    return reduce_all(b, MMUL_MEAN, mmul_build_binary_values(b, MMUL_CROSS_ENTROPY, logits, ids));
}

// table + for each of its rows the sum of the rows added there.
static int add_at(struct mmul_build *b, const struct mmul_composite_call *call) {
    const int table = call->operands[0], rows = call->operands[2];
    const struct mmul_shape t = mmul_build_shape(b, table), r = mmul_build_shape(b, rows);
    const int column = column_beside(b, call, rows, call->operands[1]);
    const int64_t count = mmul_shape_matrices(r) * r.rows;
    if (mmul_shape_matrices(t) != 1 || t.cols != r.cols)
        mmul_build_fail(b, MMUL_ERR_DATA,
                        "cannot add rows of '%s' to '%s': expected one matrix with %lld columns",
                        b->program->values[rows].name, b->program->values[table].name,
                        (long long)r.cols);
    const struct mmul_term operands[] = {
        mmul_value_term(mmul_build_reshape(b, rows, (struct mmul_shape){1, 1, count, r.cols})),
        mmul_value_term(mmul_build_reshape(b, column, (struct mmul_shape){1, 1, count, 1}))};
    const struct mmul_parameters with = {.axis = -2, .count = t.rows};
    return mmul_build_binary_values(b, MMUL_ADD, table,
                                    mmul_build_apply(b, MMUL_SUM_AT, operands, 2, &with));
}

// ------------------------------------------------------------------------------------------ losses

static void require_alike(struct mmul_build *b, const struct mmul_composite_call *call) {
    char here[96], there[96];
    const struct mmul_value *x = &b->program->values[call->operands[0]],
                            *y = &b->program->values[call->operands[1]];
    if (!mmul_shape_equal(x->shape, y->shape))
        mmul_build_fail(b, MMUL_ERR_DATA,
                        "cannot apply %s to '%s' (%s) and '%s' (%s): sizes differ", call->name,
                        x->name, mmul_shape_format(x->shape, here), y->name,
                        mmul_shape_format(y->shape, there));
}

static int mse(struct mmul_build *b, const struct mmul_composite_call *call) {
    require_alike(b, call);
    const int off =
        mmul_build_binary_values(b, MMUL_SUBTRACT, call->operands[0], call->operands[1]);
    return reduce_all(b, MMUL_MEAN, mmul_build_binary_values(b, MMUL_MULTIPLY, off, off));
}

// softplus(x) - x y: torch's with logits.
static int binary_cross_entropy(struct mmul_build *b, const struct mmul_composite_call *call) {
    require_alike(b, call);
    const int x = call->operands[0], y = call->operands[1];
    const int each = mmul_build_binary_values(b, MMUL_SUBTRACT, softplus_of(b, x),
                                              mmul_build_binary_values(b, MMUL_MULTIPLY, x, y));
    return reduce_all(b, MMUL_MEAN, each);
}

static int stop_gradient(struct mmul_build *b, const struct mmul_composite_call *call) {
    return copy_without_gradient(b, call->operands[0]);
}

// ----------------------------------------------------------------------------------------- dropout

static bool is_count(double x) {
    return x >= 0 && x <= 0x1p53 && x == floor(x);
}

// x / (1 - p), or 0 if the number drawn at an element's position is among the lowest fraction p of
// those that a generated matrix holds: the multiples of 2^-23 from -1 on. Seed and turn choose the
// draws, so a plan depends on neither.
static int dropout(struct mmul_build *b, const struct mmul_composite_call *call) {
    const int x = call->operands[0];
    const double p = call->with->numbers[1], seed = call->with->numbers[2],
                 turn = call->with->numbers[3];
    if (!(p >= 0 && p < 1))
        mmul_build_fail(b, MMUL_ERR_USAGE, "dropout of %g: expected at least 0, and less than 1",
                        p);
    if (!is_count(seed) || !is_count(turn))
        mmul_build_fail(b, MMUL_ERR_USAGE, "dropout: seed and turn are whole numbers from 0 on");
    if (p == 0 || b->err->status != MMUL_OK)
        return x;
    const int drawn = mmul_build_generate(b, mmul_build_shape(b, x), MMUL_GENERATE_UNIFORM,
                                          mmul_composite_draw_seed(seed, turn));
    const int is_left =
        mmul_build_binary_number(b, MMUL_GREATER_EQUAL, drawn, floor(p * 0x1p24) * 0x1p-23 - 1);
    const int scaled = mmul_build_binary_number(b, MMUL_MULTIPLY, x, 1 / (1 - p));
    return mmul_build_where(b, is_left, mmul_value_term(scaled), mmul_number_term(0));
}

uint64_t mmul_composite_draw_seed(double seed, double turn) {
    return mmul_random_at((uint64_t)seed, (uint64_t)turn);
}

static struct mmul_operation *find_maker(const struct mmul_program *program, int value,
                                         enum mmul_operation_kind kind) {
    struct mmul_operation *maker = mmul_program_find_maker(program, value);
    return maker != NULL && maker->kind == kind ? maker : NULL;
}

struct mmul_operation *mmul_composite_find_draw(const struct mmul_program *program, int value) {
    const struct mmul_operation *picks = find_maker(program, value, MMUL_WHERE);
    const struct mmul_operation *compares =
        picks != NULL ? find_maker(program, picks->operands[0], MMUL_GREATER_EQUAL) : NULL;
    return compares != NULL ? find_maker(program, compares->operands[0], MMUL_GENERATE) : NULL;
}

// --------------------------------------------------------------------------------------- attention

// A mask of bools marks the keys a query may attend to, as in torch's scaled_dot_product_attention:
// 0 is added there, and -inf elsewhere. Other whole numbers are an error: they may be meant as
// bools or as scores.
static int masked_attention(struct mmul_build *b, const struct mmul_composite_call *call) {
    enum { MASK = 3 };
    struct mmul_term operands[MASK + 1];
    const struct mmul_value mask = b->program->values[call->operands[MASK]];
    if (!mask.is_bool) {
        mmul_build_fail(b, MMUL_ERR_DATA,
                        "attention: the mask '%s' holds whole numbers: expected True and False, or "
                        "floats that are added to the scores",
                        mask.name);
        mmul_hint(b->err, "compare it: mask != 0");
        return MMUL_NO_VALUE;
    }
    const int added =
        mmul_build_where(b, call->operands[MASK], mmul_number_term(0), mmul_number_term(-INFINITY));
    if (added == MMUL_NO_VALUE)
        return added;
    memcpy(b->program->values[added].name, mask.name, sizeof mask.name); // for errors of sizes
    for (int i = 0; i < MASK; i++)
        operands[i] = mmul_value_term(call->operands[i]);
    operands[MASK] = mmul_value_term(added);
    return mmul_build_apply(b, MMUL_ATTENTION, operands, MASK + 1, call->with);
}

// ----------------------------------------------------------------------------------- several axes

// Finds an order of axes in which the reduced ones are neighbours: the given one if they are, else
// all others and then these. Returns the place of the last reduced axis.
static int choose_order(const int is_reduced[static AXES], int order[static AXES]) {
    int first = 0, last = AXES - 1, reduced = 0, count = 0;
    while (!is_reduced[first])
        first++;
    while (!is_reduced[last])
        last--;
    for (int i = 0; i < AXES; i++)
        reduced += is_reduced[i] != 0;
    const bool are_neighbours = last - first + 1 == reduced;
    for (int i = 0; i < AXES; i++)
        if (!is_reduced[i] && (!are_neighbours || i < first))
            order[count++] = i;
    for (int i = 0; i < AXES; i++)
        if (is_reduced[i])
            order[count++] = i;
    const int end = count - 1;
    for (int i = last + 1; are_neighbours && i < AXES; i++)
        order[count++] = i;
    return end;
}

// Returns true if `axes` names the axes to reduce: with entries other than 0.
static bool names_axes(const struct mmul_composite_call *call) {
    const struct mmul_parameters *with = call->with;
    bool has_any = false;
    for (int i = 0; i < AXES; i++)
        has_any |= with->axes[i] != 0;
    return with->axis == 0 && has_any;
}

// Reduces several axes as one axis. If several elements are the largest, each gets an equal part of
// the gradient, over all of these axes.
static int reduce_merged(struct mmul_build *b, const struct mmul_composite_call *call,
                         composite *make) {
    const int *is_reduced = call->with->axes;
    struct mmul_parameters move = {0}, along = {0};
    struct mmul_composite_call one = *call;
    int64_t sizes[AXES], merged[AXES] = {1, 1, 1, 1};
    bool is_moved = false;
    along.axis = choose_order(is_reduced, move.axes) - AXES;
    mmul_shape_to_sizes(mmul_build_shape(b, call->operands[0]), sizes);
    for (int i = AXES - 1, place = i; i >= 0; i--) {
        const int *axis = &move.axes[i];
        merged[place] *= sizes[*axis];
        place -= i > 0 && !(is_reduced[axis[0]] && is_reduced[axis[-1]]);
        is_moved |= *axis != i;
    }
    const struct mmul_term x = mmul_value_term(call->operands[0]);
    const int moved = is_moved ? mmul_build_apply(b, MMUL_PERMUTE, &x, 1, &move) : x.value;
    one.operands[0] = mmul_build_reshape(b, moved, mmul_sizes_to_shape(merged));
    one.with = &along;
    for (int i = 0; i < AXES; i++)
        sizes[i] = is_reduced[i] ? 1 : sizes[i];
    return mmul_build_reshape(b, make(b, &one), mmul_sizes_to_shape(sizes));
}

// ------------------------------------------------------------------------------------------- table

// Calls for which an elementary operation of that name exists, which is used instead of the
// composite.
enum operation {
    NONE,
    OF_NO_AXES,       // none, but the composite reduces one axis, several or all
    OF_ROWS_AND_COLS, // the same, along axes -1 and -2
    OF_ROWS,          // along axis -1, given or by default
    OF_FLOATS,        // except for a last operand of bools or other whole numbers
};

static const struct {
    const char *name;
    int operands, numbers; // values, and behind them numbers
    composite *make;
    enum operation operation;
} TABLE[] = {
    {"sum", 1, 0, reduction, OF_ROWS_AND_COLS},
    {"mean", 1, 0, reduction, OF_ROWS_AND_COLS},
    {"max", 1, 0, reduction, OF_ROWS_AND_COLS},
    {"min", 1, 0, reduction, OF_ROWS_AND_COLS},
    {"var", 1, 0, var, OF_NO_AXES},
    {"std", 1, 0, standard_deviation, OF_NO_AXES},
    {"norm", 1, 0, norm, OF_NO_AXES},
    {"scale_for_squares", 1, 0, scale_of_all, NONE},
    {"logsumexp", 1, 0, logsumexp, OF_NO_AXES},
    {"softplus", 1, 0, softplus, NONE},
    {"cumsum", 1, 0, apply_along_axis, NONE},
    {"sort", 1, 0, apply_along_axis, OF_ROWS},
    {"argsort", 1, 0, apply_along_axis, OF_ROWS},
    {"argmax", 1, 0, apply_along_axis, OF_ROWS},
    {"argmin", 1, 0, apply_along_axis, OF_ROWS},
    {"softmax", 1, 0, softmax, OF_ROWS},
    {"clip", 1, 2, clip, NONE},
    {"one_hot", 1, 0, one_hot, NONE},
    {"cross_entropy", 2, 0, cross_entropy, NONE},
    {"add_at", 3, 0, add_at, NONE},
    {"mse", 2, 0, mse, NONE},
    {"binary_cross_entropy", 2, 0, binary_cross_entropy, NONE},
    {"stop_gradient", 1, 0, stop_gradient, NONE},
    {"dropout", 1, 3, dropout, NONE},
    {"attention", 4, 0, masked_attention, OF_FLOATS},
    {"triu", 1, 0, mmul_composite_triu, NONE},
    {"tril", 1, 0, mmul_composite_tril, NONE},
    {"diag", 1, 0, mmul_composite_diag, NONE},
    {"diagonal", 1, 0, mmul_composite_diagonal, NONE},
    {"tile", 1, 0, mmul_composite_tile, NONE},
    {"repeat", 1, 0, mmul_composite_repeat, NONE},
    {"outer", 2, 0, mmul_composite_outer, NONE},
    {"prod", 1, 0, mmul_composite_prod, OF_NO_AXES},
    {"all", 1, 0, mmul_composite_all, OF_NO_AXES},
    {"any", 1, 0, mmul_composite_any, OF_NO_AXES},
    {"isnan", 1, 0, mmul_composite_isnan, NONE},
    {"ceil", 1, 0, mmul_composite_ceil, NONE},
    {"sign", 1, 0, mmul_composite_sign, NONE},
    {"einsum", 2, 0, mmul_composite_einsum, NONE},
};

static bool ends_in_floats(const struct mmul_program *program,
                           const struct mmul_composite_call *call, int operands) {
    const int last = call->operands[operands - 1];
    return call->operand_count != operands || last < 0 || last >= program->value_count ||
           (!program->values[last].is_bool && !program->values[last].is_integer);
}

static bool is_operation(const struct mmul_program *program, const struct mmul_composite_call *call,
                         int which) {
    const enum operation operation = TABLE[which].operation;
    const int axis = call->with->axis;
    return (operation == OF_FLOATS && ends_in_floats(program, call, TABLE[which].operands)) ||
           (operation == OF_ROWS_AND_COLS && (axis == -1 || axis == -2)) ||
           (operation == OF_ROWS && (axis == -1 || axis == 0));
}

static int find_composite(const struct mmul_program *program,
                          const struct mmul_composite_call *call) {
    for (int i = 0; i < (int)(sizeof TABLE / sizeof *TABLE); i++)
        if (call->name != NULL && strcmp(TABLE[i].name, call->name) == 0)
            return is_operation(program, call, i) ? -1 : i;
    return -1;
}

bool mmul_is_composite(const struct mmul_program *program, const struct mmul_composite_call *call) {
    return find_composite(program, call) >= 0;
}

static enum mmul_status check_operands(const struct mmul_program *program,
                                       const struct mmul_composite_call *call, int which,
                                       struct mmul_error *err) {
    const int values = TABLE[which].operands, all = values + TABLE[which].numbers;
    if (call->operand_count != all)
        return mmul_program_fail_operand_count(call->name, all, all, call->operand_count, err);
    for (int i = 0; i < all; i++)
        if ((call->operands[i] == MMUL_NUMBER) != (i >= values))
            return mmul_fail(err, MMUL_ERR_USAGE, "%s takes %s", call->name,
                             values == all ? "values, not numbers" : "a value, then numbers");
        else if (i < values && (call->operands[i] < 0 || call->operands[i] >= program->value_count))
            return mmul_fail(err, MMUL_ERR_USAGE, "cannot %s value %d: the program has %d values",
                             call->name, call->operands[i], program->value_count);
    return MMUL_OK;
}

enum mmul_status mmul_composite_append(struct mmul_program *program,
                                       const struct mmul_composite_call *call, const char *name,
                                       int *value, struct mmul_error *err) {
    const int which = find_composite(program, call);
    if (check_operands(program, call, which, err) != MMUL_OK)
        return err->status;
    struct mmul_build b = mmul_build_begin(program, call->origin, err);
    composite *make = TABLE[which].make;
    const bool reduces =
        TABLE[which].operation == OF_NO_AXES || TABLE[which].operation == OF_ROWS_AND_COLS;
    const int made = reduces && names_axes(call) ? reduce_merged(&b, call, make) : make(&b, call);
    if (mmul_build_end(&b) != MMUL_OK)
        return err->status;
    if (name != NULL && made >= b.values) { // not if it is an operand itself
        mmul_text_copy_shortened(program->values[made].name, sizeof program->values[made].name,
                                 name);
        mmul_make_printable(program->values[made].name);
    }
    if (value != NULL)
        *value = made;
    return MMUL_OK;
}
