// SPDX-License-Identifier: MIT
// Definitions of these composites. Those that pick or move whole numbers make whole numbers.
#include "model/composite_functions.h"

#include <math.h>

#include "base/memory.h"
#include "base/status.h"
#include "model/matrix.h"

enum { AXES = 4, COUNTED_MOST = 1 << 24 };

// Marks a value that holds elements of x and zeros: whole numbers if x is.
static int mark_integers_as(struct mmul_build *b, int made, int x) {
    if (made != MMUL_NO_VALUE)
        b->program->values[made].is_integer |= b->program->values[x].is_integer;
    return made;
}

// --------------------------------------------------------------------------------------- diagonals

// Makes a row of 0 to count - 1 as sums of ones, exact in float32 up to 2^24.
static int count_columns(struct mmul_build *b, int64_t count) {
    const int ones = mmul_build_fill(b, (struct mmul_shape){1, 1, 1, count}, true);
    if (count > COUNTED_MOST)
        mmul_build_fail(b, MMUL_ERR_DATA, "a diagonal of %lld rows or columns: at most %d",
                        (long long)count, COUNTED_MOST);
    return mmul_build_binary_number(b, MMUL_SUBTRACT, mmul_build_unary(b, MMUL_CUMSUM, ones), 1);
}

// Makes a matrix of these sizes that is True where column - row compares so to k.
static int compare_places(struct mmul_build *b, int64_t rows, int64_t cols,
                          enum mmul_operation_kind kind, int64_t k) {
    const int row = mmul_build_binary_number(b, MMUL_ADD, count_columns(b, rows), (double)k);
    return mmul_build_binary_values(b, kind, count_columns(b, cols),
                                    mmul_build_unary(b, MMUL_TRANSPOSE, row));
}

static int keep_triangle(struct mmul_build *b, const struct mmul_composite_call *call,
                         enum mmul_operation_kind kind) {
    const int x = call->operands[0];
    const struct mmul_shape s = mmul_build_shape(b, x);
    const int kept = compare_places(b, s.rows, s.cols, kind, call->with->count);
    return mark_integers_as(b, mmul_build_where(b, kept, mmul_value_term(x), mmul_number_term(0)),
                            x);
}

int mmul_composite_triu(struct mmul_build *b, const struct mmul_composite_call *call) {
    return keep_triangle(b, call, MMUL_GREATER_EQUAL);
}

int mmul_composite_tril(struct mmul_build *b, const struct mmul_composite_call *call) {
    return keep_triangle(b, call, MMUL_LESS_EQUAL);
}

static bool is_beyond_counting(int64_t k) {
    return k > COUNTED_MOST || k < -COUNTED_MOST;
}

// Below the main diagonal each column of the result contains one element of the row; above it each
// row does.
int mmul_composite_diag(struct mmul_build *b, const struct mmul_composite_call *call) {
    const int x = call->operands[0];
    const int64_t n = mmul_build_shape(b, x).cols, k = call->with->count, off = k < 0 ? -k : k;
    if (mmul_shape_matrices(mmul_build_shape(b, x)) != 1 || mmul_build_shape(b, x).rows != 1)
        mmul_build_fail(b, MMUL_ERR_DATA, "diag of '%s': expected a row",
                        b->program->values[x].name);
    if (is_beyond_counting(k) || b->err->status != MMUL_OK) {
        mmul_build_fail(b, MMUL_ERR_DATA, "diag: no diagonal %lld", (long long)k);
        return MMUL_NO_VALUE;
    }
    const int is_there = compare_places(b, n + off, n + off, MMUL_EQUAL, k);
    int along = mmul_build_pad(b, x, AXES - 1, 0, n + off);
    if (k > 0)
        along = mmul_build_unary(b, MMUL_TRANSPOSE, along);
    return mark_integers_as(
        b, mmul_build_where(b, is_there, mmul_value_term(along), mmul_number_term(0)), x);
}

// In C order, neighbours on the diagonal are one row and one column apart.
int mmul_composite_diagonal(struct mmul_build *b, const struct mmul_composite_call *call) {
    const int x = call->operands[0];
    const struct mmul_shape s = mmul_build_shape(b, x);
    const int64_t k = call->with->count, row = k < 0 ? -k : 0, col = k > 0 ? k : 0;
    if (b->err->status == MMUL_OK && mmul_shape_matrices(s) != 1)
        mmul_build_fail(b, MMUL_ERR_DATA, "diagonal of '%s': expected a matrix",
                        b->program->values[x].name);
    if (b->err->status == MMUL_OK && (is_beyond_counting(k) || row >= s.rows || col >= s.cols))
        mmul_build_fail(b, MMUL_ERR_DATA, "no diagonal %lld of %lld x %lld", (long long)k,
                        (long long)s.rows, (long long)s.cols);
    if (b->err->status != MMUL_OK)
        return MMUL_NO_VALUE;
    const int64_t count = s.rows - row < s.cols - col ? s.rows - row : s.cols - col;
    const int64_t first = row * s.cols + col, last = first + (count - 1) * (s.cols + 1);
    const struct mmul_parameters with = {.begin = {0, 0, 0, first},
                                         .end = {1, 1, 1, last + 1},
                                         .step = {1, 1, 1, count > 1 ? s.cols + 1 : 1}};
    const struct mmul_term in_a_row =
        mmul_value_term(mmul_build_reshape(b, x, (struct mmul_shape){1, 1, 1, s.rows * s.cols}));
    return mmul_build_apply(b, MMUL_SLICE, &in_a_row, 1, &with);
}

// -------------------------------------------------------------------------------------- repetition

// Repeats to a larger shape: a size of 1 becomes `count`. Bits are unchanged, which a sum with 0 or
// a product with 1 would not guarantee.
static int broadcast(struct mmul_build *b, int x, struct mmul_shape ones) {
    const int all = mmul_build_fill(b, ones, true);
    return mark_integers_as(b, mmul_build_where(b, all, mmul_value_term(x), mmul_number_term(0)),
                            x);
}

static int64_t repeat_size(struct mmul_build *b, int64_t x, int64_t y) {
    int64_t product = 1;
    if (x < 1 || y < 1 || !mmul_multiply_sizes(x, y, &product))
        mmul_build_fail(b, MMUL_ERR_DATA, "a size of %lld cannot be repeated %lld times",
                        (long long)x, (long long)y);
    return product;
}

int mmul_composite_tile(struct mmul_build *b, const struct mmul_composite_call *call) {
    int64_t sizes[AXES], counts[AXES];
    int x = call->operands[0];
    mmul_shape_to_sizes(mmul_build_shape(b, x), sizes);
    mmul_shape_to_sizes(call->with->shape, counts);
    for (int s = AXES - 1; s >= 0; s--) {
        const struct mmul_shape parts = mmul_build_shape_around(sizes, s);
        sizes[s] = repeat_size(b, sizes[s], counts[s]);
        if (counts[s] == 1)
            continue;
        const struct mmul_shape one = {1, parts.depth, 1, parts.rows * parts.cols};
        x = broadcast(b, mmul_build_reshape(b, x, one), (struct mmul_shape){1, 1, counts[s], 1});
        x = mmul_build_reshape(b, x, mmul_sizes_to_shape(sizes));
    }
    return x;
}

int mmul_composite_repeat(struct mmul_build *b, const struct mmul_composite_call *call) {
    const int64_t count = call->with->count;
    const int axis = AXES + call->with->axis, x = call->operands[0];
    int64_t sizes[AXES];
    if (axis < 0 || axis >= AXES) {
        mmul_build_fail(b, MMUL_ERR_USAGE, "cannot repeat along axis %d: expected -4 to -1",
                        call->with->axis);
        return MMUL_NO_VALUE;
    }
    mmul_shape_to_sizes(mmul_build_shape(b, x), sizes);
    const struct mmul_shape parts = mmul_build_shape_around(sizes, axis);
    sizes[axis] = repeat_size(b, sizes[axis], count);
    if (count == 1)
        return x;
    const struct mmul_shape one = {parts.depth, parts.rows, 1, parts.cols};
    const int made =
        broadcast(b, mmul_build_reshape(b, x, one), (struct mmul_shape){1, 1, count, 1});
    return mmul_build_reshape(b, made, mmul_sizes_to_shape(sizes));
}

int mmul_composite_outer(struct mmul_build *b, const struct mmul_composite_call *call) {
    const struct mmul_shape s = mmul_build_shape(b, call->operands[0]),
                            t = mmul_build_shape(b, call->operands[1]);
    const int64_t m = mmul_shape_matrices(s) * s.rows * s.cols,
                  n = mmul_shape_matrices(t) * t.rows * t.cols;
    return mmul_build_binary_values(
        b, MMUL_MULTIPLY, mmul_build_reshape(b, call->operands[0], (struct mmul_shape){1, 1, m, 1}),
        mmul_build_reshape(b, call->operands[1], (struct mmul_shape){1, 1, 1, n}));
}

// -------------------------------------------------------------------------------------- reductions

// Multiplies the halves of every row again and again: the gradient of pairs is right also where
// elements are 0. Half of an odd number leaves one column, which is multiplied at the end.
static int product_of_rows(struct mmul_build *b, int x) {
    int left = MMUL_NO_VALUE;
    for (int64_t n = mmul_build_shape(b, x).cols; n > 1 && b->err->status == MMUL_OK; n /= 2) {
        const int64_t half = n / 2;
        if (n % 2 == 1) {
            const int last = mmul_build_slice_columns(b, x, n - 1, n);
            left = left == MMUL_NO_VALUE ? last
                                         : mmul_build_binary_values(b, MMUL_MULTIPLY, left, last);
        }
        x = mmul_build_binary_values(b, MMUL_MULTIPLY, mmul_build_slice_columns(b, x, 0, half),
                                     mmul_build_slice_columns(b, x, half, 2 * half));
    }
    return left == MMUL_NO_VALUE ? x : mmul_build_binary_values(b, MMUL_MULTIPLY, x, left);
}

int mmul_composite_prod(struct mmul_build *b, const struct mmul_composite_call *call) {
    const int axis = mmul_composite_axis(b, call, true);
    int x = call->operands[0];
    if (b->err->status != MMUL_OK)
        return MMUL_NO_VALUE;
    if (axis < 0)
        return mmul_composite_swap(b, product_of_rows(b, mmul_composite_swap(b, x, axis)), axis);
    x = product_of_rows(b, x);
    const struct mmul_shape s = mmul_build_shape(b, x);
    return product_of_rows(
        b, mmul_build_reshape(b, x, (struct mmul_shape){1, 1, 1, mmul_shape_matrices(s) * s.rows}));
}

static int reduce_truth(struct mmul_build *b, const struct mmul_composite_call *call,
                        enum mmul_operation_kind kind) {
    const int axis = mmul_composite_axis(b, call, true);
    const int is_true = mmul_build_binary_number(b, MMUL_NOT_EQUAL, call->operands[0], 0);
    return b->err->status == MMUL_OK ? mmul_composite_reduce(b, kind, is_true, axis)
                                     : MMUL_NO_VALUE;
}

int mmul_composite_all(struct mmul_build *b, const struct mmul_composite_call *call) {
    return reduce_truth(b, call, MMUL_MIN);
}

int mmul_composite_any(struct mmul_build *b, const struct mmul_composite_call *call) {
    return reduce_truth(b, call, MMUL_MAX);
}

// ---------------------------------------------------------------------------------------- elements

int mmul_composite_isnan(struct mmul_build *b, const struct mmul_composite_call *call) {
    return mmul_build_binary_values(b, MMUL_NOT_EQUAL, call->operands[0], call->operands[0]);
}

// -floor(-x), also of zeros.
int mmul_composite_ceil(struct mmul_build *b, const struct mmul_composite_call *call) {
    const int down = mmul_build_unary(b, MMUL_NEG, call->operands[0]);
    return mmul_build_unary(b, MMUL_NEG, mmul_build_unary(b, MMUL_FLOOR, down));
}

// NaN stays NaN. No gradient passes.
int mmul_composite_sign(struct mmul_build *b, const struct mmul_composite_call *call) {
    const int x = call->operands[0];
    const int above = mmul_build_binary_number(b, MMUL_GREATER, x, 0),
              below = mmul_build_binary_number(b, MMUL_LESS, x, 0);
    const int size = mmul_build_binary_values(b, MMUL_SUBTRACT, above, below);
    return mmul_build_where(b, mmul_build_binary_values(b, MMUL_EQUAL, x, x), mmul_value_term(size),
                            mmul_number_term(NAN));
}

// ------------------------------------------------------------------------------------------ einsum

// A value, and a label of each of its axes.
struct labelled {
    int value;
    int64_t labels[AXES];
};

bool mmul_einsum_has_label(const int64_t labels[static AXES], int64_t label) {
    bool found = false;
    for (int s = 0; s < AXES; s++)
        found |= labels[s] == label;
    return found;
}

static int64_t label_size(const struct mmul_build *b, const struct labelled *x, int64_t label) {
    int64_t sizes[AXES], found = 1;
    mmul_shape_to_sizes(mmul_build_shape(b, x->value), sizes);
    for (int s = 0; s < AXES; s++)
        found = label > 0 && x->labels[s] == label ? sizes[s] : found;
    return found;
}

// Sums over labels that are neither in the other operand nor in the result.
static void sum_unused_labels(struct mmul_build *b, struct labelled *x, const int64_t *other,
                              const int64_t *result) {
    for (int s = 0; s < AXES; s++)
        if (x->labels[s] > 0 && !mmul_einsum_has_label(other, x->labels[s]) &&
            !mmul_einsum_has_label(result, x->labels[s])) {
            x->value = mmul_build_reduce(b, MMUL_SUM, x->value, s - AXES);
            x->labels[s] = 0;
        }
}

// Permutes axes into the order of these labels, all of which the value has; axes without a label
// come first.
static int permute_to_labels(struct mmul_build *b, const struct labelled *x, const int64_t *order,
                             int count) {
    struct mmul_parameters with = {0};
    const struct mmul_term operand = mmul_value_term(x->value);
    int next = 0;
    for (int s = 0; s < AXES; s++)
        if (x->labels[s] == 0)
            with.axes[next++] = s;
    const bool fits = next + count == AXES;
    for (int i = 0; fits && i < count; i++)
        for (int s = 0; s < AXES; s++)
            if (x->labels[s] == order[i])
                with.axes[next++] = s;
    if (!fits || next != AXES) {
        mmul_build_fail(b, MMUL_ERR_USAGE,
                        "einsum: a label occurs twice in an operand, or in no operand");
        return MMUL_NO_VALUE;
    }
    const int *a = with.axes;
    const bool is_same = a[0] == 0 && a[1] == 1 && a[2] == 2;
    if (is_same || (a[0] == 0 && a[1] == 1 && a[2] == 3))
        return is_same ? x->value : mmul_build_unary(b, MMUL_TRANSPOSE, x->value);
    return mmul_build_apply(b, MMUL_PERMUTE, &operand, 1, &with);
}

// Kinds of labels: in both operands and the result, in the first alone, in the second alone, in
// both but not the result.
enum { IN_ALL, OF_FIRST, OF_SECOND, ADDED_UP, KINDS };

struct order {
    int64_t labels[KINDS][2 * AXES], sizes[KINDS];
    int counts[KINDS];
};

static void add_label(struct mmul_build *b, struct order *order, int kind,
                      const struct labelled *from, int64_t label) {
    order->labels[kind][order->counts[kind]++] = label;
    order->sizes[kind] = repeat_size(b, order->sizes[kind], label_size(b, from, label));
}

static void find_order(struct mmul_build *b, const struct labelled *x, const struct labelled *y,
                       const int64_t *result, struct order *order) {
    *order = (struct order){.sizes = {1, 1, 1, 1}};
    for (int s = 0; s < AXES; s++) {
        const bool in_x = result[s] > 0 && mmul_einsum_has_label(x->labels, result[s]),
                   in_y = result[s] > 0 && mmul_einsum_has_label(y->labels, result[s]);
        if (in_x || in_y)
            add_label(b, order,
                      !in_y   ? OF_FIRST
                      : !in_x ? OF_SECOND
                              : IN_ALL,
                      in_x ? x : y, result[s]);
    }
    for (int s = 0; s < AXES; s++)
        if (x->labels[s] > 0 && mmul_einsum_has_label(y->labels, x->labels[s])) {
            if (!mmul_einsum_has_label(result, x->labels[s]))
                add_label(b, order, ADDED_UP, x, x->labels[s]);
            if (label_size(b, x, x->labels[s]) != label_size(b, y, x->labels[s]))
                mmul_build_fail(b, MMUL_ERR_DATA, "einsum: sizes %lld and %lld of a label differ",
                                (long long)label_size(b, x, x->labels[s]),
                                (long long)label_size(b, y, x->labels[s]));
        }
}

// Makes an operand a stack of matrices (IN_ALL, rows, cols).
static int reshape_to_stack(struct mmul_build *b, const struct labelled *x,
                            const struct order *order, int rows, int cols) {
    const int kinds[] = {IN_ALL, rows, cols};
    int64_t labels[3 * 2 * AXES];
    int count = 0;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < order->counts[kinds[k]]; i++)
            labels[count++] = order->labels[kinds[k]][i];
    const struct mmul_shape shape = {1, order->sizes[IN_ALL], order->sizes[rows],
                                     order->sizes[cols]};
    return mmul_build_reshape(b, permute_to_labels(b, x, labels, count), shape);
}

// Multiplies stacks. If no operand has a label alone, it multiplies rows, because the matrices
// would have one element.
static int multiply_stacks(struct mmul_build *b, const struct labelled *x, const struct labelled *y,
                           const struct order *order) {
    const bool is_by_rows = order->counts[OF_FIRST] + order->counts[OF_SECOND] == 0;
    if (!is_by_rows)
        return mmul_build_binary_values(b, MMUL_MATMUL,
                                        reshape_to_stack(b, x, order, OF_FIRST, ADDED_UP),
                                        reshape_to_stack(b, y, order, ADDED_UP, OF_SECOND));
    const struct mmul_shape rows = {1, 1, order->sizes[IN_ALL], order->sizes[ADDED_UP]};
    const int each = mmul_build_binary_values(
        b, MMUL_MULTIPLY,
        mmul_build_reshape(b, reshape_to_stack(b, x, order, OF_FIRST, ADDED_UP), rows),
        mmul_build_reshape(b, reshape_to_stack(b, y, order, OF_FIRST, ADDED_UP), rows));
    return rows.cols == 1 ? each : mmul_build_reduce(b, MMUL_SUM, each, -1);
}

int mmul_composite_einsum(struct mmul_build *b, const struct mmul_composite_call *call) {
    struct labelled x = {.value = call->operands[0]}, y = {.value = call->operands[1]}, z = {0};
    int64_t result[AXES], sizes[AXES] = {1, 1, 1, 1};
    struct order order;
    int count = 0;
    for (int s = 0; s < AXES; s++) {
        x.labels[s] = call->with->begin[s];
        y.labels[s] = call->with->end[s];
        result[s] = call->with->axes[s];
    }
    sum_unused_labels(b, &x, y.labels, result);
    sum_unused_labels(b, &y, x.labels, result);
    find_order(b, &x, &y, result, &order);
    const int made = b->err->status == MMUL_OK ? multiply_stacks(b, &x, &y, &order) : MMUL_NO_VALUE;
    const int all = order.counts[IN_ALL] + order.counts[OF_FIRST] + order.counts[OF_SECOND];
    for (int kind = IN_ALL; kind <= OF_SECOND && b->err->status == MMUL_OK; kind++)
        for (int i = 0; i < order.counts[kind]; i++, count++) {
            const int64_t label = order.labels[kind][i];
            z.labels[AXES - all + count] = label;
            sizes[AXES - all + count] = label_size(b, kind == OF_SECOND ? &y : &x, label);
        }
    int64_t labels[AXES];
    int wanted = 0;
    for (int s = 0; s < AXES; s++)
        if (result[s] > 0)
            labels[wanted++] = result[s];
    z.value = mmul_build_reshape(b, made, mmul_sizes_to_shape(sizes));
    return b->err->status == MMUL_OK ? permute_to_labels(b, &z, labels, wanted) : MMUL_NO_VALUE;
}
