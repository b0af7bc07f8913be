// SPDX-License-Identifier: MIT
// Sizes that operations accept, and sizes of their results; every error has names and sizes. Also
// the conditions of the rules: for which sizes and splits of the operands they hold. The plan
// chooses.
#include "base/integer.h"
#include "base/status.h"
#include "model/matrix.h"
#include "model/operation.h"
#include "model/problem.h"

enum { AXES = 4, LEADING = AXES - 1 }; // axes that count as rows

// Indices are stored as floats.
static const int64_t INDEX_LIMIT = 1 << 24;

// Formats "cannot WHAT 'x' (1 x 1 x 3 x 4) and 'y' (...)", the beginning of an error about two
// operands.
static void format_pair(const struct mmul_operation_row *row, const struct mmul_operand_info *x,
                        const struct mmul_operand_info *y, char text[static 512]) {
    char here[96], there[96];
    const bool is_verb = row->class != MMUL_CLASS_ROWS && row->class != MMUL_CLASS_ATTENTION;
    snprintf(text, 512, "cannot %s%s%s '%s' (%s) and '%s' (%s)", is_verb ? "" : "apply ", row->name,
             is_verb ? "" : " to", x->name, mmul_shape_format(x->shape, here), y->name,
             mmul_shape_format(y->shape, there));
}

enum mmul_status mmul_shape_of_matmul(const struct mmul_operation_row *row,
                                      const struct mmul_operation_call *call,
                                      struct mmul_shape *shape, struct mmul_error *err) {
    const struct mmul_operand_info *operands = call->operands;
    struct mmul_problem problem;
    const struct mmul_problem_request request = {
        .a = {.shape = operands[0].shape, .name = operands[0].name},
        .b = {.shape = operands[1].shape, .name = operands[1].name},
        .alpha = 1};
    (void)row;
    enum mmul_status status = mmul_problem_init(&request, &problem, err);
    if (status == MMUL_OK)
        *shape = problem.c;
    return status;
}

enum mmul_status mmul_shape_of_transpose(const struct mmul_operation_row *row,
                                         const struct mmul_operation_call *call,
                                         struct mmul_shape *shape, struct mmul_error *err) {
    const struct mmul_shape x = call->operands[0].shape;
    (void)row;
    (void)err;
    *shape = (struct mmul_shape){x.batch, x.depth, x.cols, x.rows};
    return MMUL_OK;
}

// Combines sizes, with 1 repeating, axis by axis.
static enum mmul_status broadcast(const struct mmul_operation_row *row,
                                  const struct mmul_operand_info *x,
                                  const struct mmul_operand_info *y, struct mmul_shape *shape,
                                  struct mmul_error *err) {
    static const char *const names[] = {"batch sizes", "depths", "rows", "columns"};
    int64_t left[AXES], right[AXES], both[AXES];
    char pair[512];
    mmul_shape_to_sizes(x->shape, left);
    mmul_shape_to_sizes(y->shape, right);
    for (int s = 0; s < AXES; s++) {
        both[s] = left[s] == 1 ? right[s] : left[s];
        if (left[s] == right[s] || left[s] == 1 || right[s] == 1)
            continue;
        format_pair(row, x, y, pair);
        mmul_fail(err, MMUL_ERR_DATA, "%s: %s %lld and %lld differ", pair, names[s],
                  (long long)left[s], (long long)right[s]);
        mmul_hint(err, "sizes of 1 are broadcast");
        return err->status;
    }
    *shape = mmul_sizes_to_shape(both);
    return MMUL_OK;
}

enum mmul_status mmul_shape_of_elements(const struct mmul_operation_row *row,
                                        const struct mmul_operation_call *call,
                                        struct mmul_shape *shape, struct mmul_error *err) {
    struct mmul_operand_info so_far = call->operands[0];
    enum mmul_status status = MMUL_OK;
    for (int i = 1; status == MMUL_OK && i < call->operand_count; i++)
        status = broadcast(row, &so_far, &call->operands[i], &so_far.shape, err);
    *shape = so_far.shape;
    return status;
}

enum mmul_status mmul_shape_of_norm(const struct mmul_operation_row *row,
                                    const struct mmul_operation_call *call,
                                    struct mmul_shape *shape, struct mmul_error *err) {
    const struct mmul_operand_info *x = &call->operands[0];
    *shape = x->shape;
    for (int i = 1; i < call->operand_count; i++) {
        const struct mmul_operand_info *w = &call->operands[i];
        const struct mmul_shape vector = {1, 1, 1, x->shape.cols};
        char pair[512];
        if (mmul_shape_equal(w->shape, vector))
            continue;
        format_pair(row, x, w, pair);
        return mmul_fail(err, MMUL_ERR_DATA, "%s: '%s' must be 1 x %lld", pair, w->name,
                         (long long)x->shape.cols);
    }
    return MMUL_OK;
}

static enum mmul_status check_index(const struct mmul_operand_info *x, int64_t size,
                                    const char *what, struct mmul_error *err) {
    if (size <= INDEX_LIMIT)
        return MMUL_OK;
    return mmul_fail(err, MMUL_ERR_DATA, "'%s' has %lld %s: no more than %lld can be counted",
                     x->name, (long long)size, what, (long long)INDEX_LIMIT);
}

enum mmul_status mmul_shape_of_topk(const struct mmul_operation_row *row,
                                    const struct mmul_operation_call *call,
                                    struct mmul_shape *shape, struct mmul_error *err) {
    const struct mmul_operand_info *x = &call->operands[0];
    int64_t k = call->with->count;
    (void)row;
    if (k < 1 || k > x->shape.cols)
        return mmul_fail(
            err, MMUL_ERR_DATA,
            "cannot take the largest %lld of each row of '%s': rows have %lld elements",
            (long long)k, x->name, (long long)x->shape.cols);
    *shape = x->shape;
    shape->cols = 2 * k;
    return check_index(x, x->shape.cols, "columns", err);
}

enum mmul_status mmul_shape_of_argmax(const struct mmul_operation_row *row,
                                      const struct mmul_operation_call *call,
                                      struct mmul_shape *shape, struct mmul_error *err) {
    const struct mmul_operand_info *x = &call->operands[0];
    *shape = x->shape;
    if (row->picks)
        shape->cols = 1;
    return check_index(x, x->shape.cols, "columns", err);
}

// The implementation counts columns in 32 bits.
enum mmul_status mmul_shape_of_sort(const struct mmul_operation_row *row,
                                    const struct mmul_operation_call *call,
                                    struct mmul_shape *shape, struct mmul_error *err) {
    const struct mmul_operand_info *x = &call->operands[0];
    *shape = x->shape;
    if (x->shape.cols <= UINT32_MAX)
        return MMUL_OK;
    return mmul_fail(err, MMUL_ERR_DATA,
                     "cannot %s rows of '%s': they have %lld elements, more than %lld", row->name,
                     x->name, (long long)x->shape.cols, (long long)UINT32_MAX);
}

enum mmul_status mmul_shape_of_rope(const struct mmul_operation_row *row,
                                    const struct mmul_operation_call *call,
                                    struct mmul_shape *shape, struct mmul_error *err) {
    const struct mmul_operand_info *x = &call->operands[0];
    (void)row;
    *shape = x->shape;
    if (x->shape.cols % 2 == 0)
        return MMUL_OK;
    return mmul_fail(err, MMUL_ERR_DATA,
                     "cannot rotate pairs of columns of '%s': it has %lld columns", x->name,
                     (long long)x->shape.cols);
}

enum mmul_status mmul_shape_of_reduction(const struct mmul_operation_row *row,
                                         const struct mmul_operation_call *call,
                                         struct mmul_shape *shape, struct mmul_error *err) {
    const struct mmul_operand_info *x = &call->operands[0];
    *shape = x->shape;
    if (call->with->axis == -1)
        shape->cols = 1;
    else if (call->with->axis == -2)
        shape->rows = 1;
    else
        return mmul_fail(err, MMUL_ERR_USAGE, "cannot %s '%s' along axis %d: expected -1 or -2",
                         row->name, x->name, call->with->axis);
    return MMUL_OK;
}

int64_t mmul_slice_step(const struct mmul_parameters *with, int axis) {
    return with->step[axis] != 0 ? with->step[axis] : 1;
}

int64_t mmul_slice_size(const struct mmul_parameters *with, int axis) {
    const int64_t step = mmul_slice_step(with, axis), to = step > 0 ? 1 : -1;
    const int64_t span = to * (with->end[axis] - with->begin[axis]);
    return span < 1 ? 0 : (span - 1) / (to * step) + 1;
}

enum mmul_status mmul_shape_of_slice(const struct mmul_operation_row *row,
                                     const struct mmul_operation_call *call,
                                     struct mmul_shape *shape, struct mmul_error *err) {
    const struct mmul_operand_info *x = &call->operands[0];
    const struct mmul_parameters *with = call->with;
    int64_t have[AXES], sizes[AXES];
    (void)row;
    mmul_shape_to_sizes(x->shape, have);
    for (int s = 0; s < AXES; s++) {
        const int64_t step = mmul_slice_step(with, s);
        char by[32] = "";
        if (step != 1)
            snprintf(by, sizeof by, ":%lld", (long long)step);
        sizes[s] = mmul_slice_size(with, s);
        if (with->begin[s] < 0 || with->begin[s] >= have[s] || with->end[s] > have[s] ||
            with->end[s] < -1 || step < -have[s] || step > have[s] || sizes[s] < 1)
            return mmul_fail(err, MMUL_ERR_DATA,
                             "cannot take [%lld:%lld%s] of axis %d of '%s': it has %lld",
                             (long long)with->begin[s], (long long)with->end[s], by, s - AXES,
                             x->name, (long long)have[s]);
    }
    *shape = mmul_sizes_to_shape(sizes);
    return MMUL_OK;
}

enum mmul_status mmul_shape_of_reshape(const struct mmul_operation_row *row,
                                       const struct mmul_operation_call *call,
                                       struct mmul_shape *shape, struct mmul_error *err) {
    const struct mmul_operand_info *x = &call->operands[0];
    const struct mmul_shape to = call->with->shape;
    int64_t have = 0, want = 0;
    char here[96], there[96];
    (void)row;
    *shape = to;
    if (to.batch >= 1 && to.depth >= 1 && to.rows >= 1 && to.cols >= 1 &&
        mmul_shape_count(x->shape, &have) && mmul_shape_count(to, &want) && have == want)
        return MMUL_OK;
    return mmul_fail(err, MMUL_ERR_DATA, "cannot reshape '%s' (%s) to %s: %lld elements and %lld",
                     x->name, mmul_shape_format(x->shape, here), mmul_shape_format(to, there),
                     (long long)have, (long long)want);
}

enum mmul_status mmul_shape_of_permute(const struct mmul_operation_row *row,
                                       const struct mmul_operation_call *call,
                                       struct mmul_shape *shape, struct mmul_error *err) {
    const int *axes = call->with->axes;
    int64_t have[AXES], sizes[AXES];
    unsigned seen = 0;
    (void)row;
    mmul_shape_to_sizes(call->operands[0].shape, have);
    for (int s = 0; s < AXES; s++) {
        if (axes[s] < 0 || axes[s] >= AXES || (seen >> axes[s] & 1) != 0)
            return mmul_fail(
                err, MMUL_ERR_USAGE,
                "cannot permute '%s' to axes %d %d %d %d: expected each of 0 to 3 once",
                call->operands[0].name, axes[0], axes[1], axes[2], axes[3]);
        seen |= 1U << axes[s];
        sizes[s] = have[axes[s]];
    }
    *shape = mmul_sizes_to_shape(sizes);
    return MMUL_OK;
}

enum mmul_status mmul_shape_of_concat(const struct mmul_operation_row *row,
                                      const struct mmul_operation_call *call,
                                      struct mmul_shape *shape, struct mmul_error *err) {
    const struct mmul_operand_info *x = &call->operands[0], *y = &call->operands[1];
    const int axis = call->with->axis + AXES;
    int64_t left[AXES], right[AXES];
    char pair[512];
    if (axis < 0 || axis >= AXES)
        return mmul_fail(err, MMUL_ERR_USAGE, "cannot concat along axis %d: expected -4 to -1",
                         call->with->axis);
    mmul_shape_to_sizes(x->shape, left);
    mmul_shape_to_sizes(y->shape, right);
    for (int s = 0; s < AXES; s++) {
        if (s == axis || left[s] == right[s])
            continue;
        format_pair(row, x, y, pair);
        return mmul_fail(err, MMUL_ERR_DATA,
                         "%s along axis %d: sizes %lld and %lld of axis %d differ", pair,
                         call->with->axis, (long long)left[s], (long long)right[s], s - AXES);
    }
    left[axis] += right[axis];
    *shape = mmul_sizes_to_shape(left);
    return MMUL_OK;
}

enum mmul_status mmul_shape_of_take(const struct mmul_operation_row *row,
                                    const struct mmul_operation_call *call,
                                    struct mmul_shape *shape, struct mmul_error *err) {
    const struct mmul_operand_info *table = &call->operands[0], *ids = &call->operands[1];
    const struct mmul_shape t = table->shape, i = ids->shape;
    char pair[512];
    if (t.batch == 1 && t.depth == 1 && i.batch == 1) {
        *shape = (struct mmul_shape){i.depth, i.rows, i.cols, t.cols};
        return check_index(table, t.rows, "rows", err);
    }
    format_pair(row, table, ids, pair);
    return mmul_fail(err, MMUL_ERR_DATA,
                     "%s: the table must be one matrix, and batch sizes of indices 1", pair);
}

enum mmul_status mmul_shape_of_attention(const struct mmul_operation_row *row,
                                         const struct mmul_operation_call *call,
                                         struct mmul_shape *shape, struct mmul_error *err) {
    const struct mmul_operand_info *q = &call->operands[0], *k = &call->operands[1],
                                   *v = &call->operands[2];
    char pair[512];
    const bool is_grouped = q->shape.depth % k->shape.depth == 0;
    if (q->shape.batch != k->shape.batch || !is_grouped || q->shape.cols != k->shape.cols) {
        format_pair(row, q, k, pair);
        return mmul_fail(err, MMUL_ERR_DATA, "%s: %s", pair,
                         q->shape.cols != k->shape.cols ? "columns differ"
                         : is_grouped
                             ? "batch sizes differ"
                             : "heads of the first are no multiple of those of the second");
    }
    if (k->shape.batch != v->shape.batch || k->shape.depth != v->shape.depth ||
        k->shape.rows != v->shape.rows) {
        format_pair(row, k, v, pair);
        return mmul_fail(err, MMUL_ERR_DATA, "%s: all sizes but the columns must be equal", pair);
    }
    *shape = q->shape;
    shape->cols = k->shape.rows;
    if (call->operand_count > 3) {
        const struct mmul_operand_info scores = {.name = "scores", .shape = *shape};
        struct mmul_shape both = *shape;
        enum mmul_status status = broadcast(row, &scores, &call->operands[3], &both, err);
        if (status == MMUL_OK && !mmul_shape_equal(both, *shape)) {
            format_pair(row, q, &call->operands[3], pair);
            status = mmul_fail(err, MMUL_ERR_DATA, "%s: the mask is larger than the scores", pair);
        }
        if (status != MMUL_OK)
            return status;
    }
    shape->cols = v->shape.cols;
    return MMUL_OK;
}

// Checks that an operand has this shape.
static enum mmul_status check_like(const struct mmul_operation_row *row,
                                   const struct mmul_operation_call *call, int operand,
                                   struct mmul_shape shape, struct mmul_error *err) {
    char pair[512], expected[96];
    if (mmul_shape_equal(call->operands[operand].shape, shape))
        return MMUL_OK;
    format_pair(row, &call->operands[0], &call->operands[operand], pair);
    return mmul_fail(err, MMUL_ERR_DATA, "%s: expected %s", pair,
                     mmul_shape_format(shape, expected));
}

// Operands: q, k, the result, its gradient, the mask.
enum mmul_status mmul_shape_of_attention_sums(const struct mmul_operation_row *row,
                                              const struct mmul_operation_call *call,
                                              struct mmul_shape *shape, struct mmul_error *err) {
    struct mmul_operand_info of[] = {call->operands[0], call->operands[1], call->operands[1],
                                     call->operands[call->operand_count - 1]};
    const struct mmul_operation_call attention = {of, call->operand_count - 1, call->with};
    of[2].shape.cols = call->operands[2].shape.cols;
    enum mmul_status status = mmul_shape_of_attention(row, &attention, shape, err);
    for (int i = 2; status == MMUL_OK && i < 4; i++)
        status = check_like(row, call, i, *shape, err);
    shape->cols = 2;
    return status;
}

// Operands: q, k, v, the gradient of the result, attention_sums, the mask. Heads of q that share
// one of k and v have separate gradients.
enum mmul_status mmul_shape_of_attention_backward(const struct mmul_operation_row *row,
                                                  const struct mmul_operation_call *call,
                                                  struct mmul_shape *shape,
                                                  struct mmul_error *err) {
    const struct mmul_operand_info of[] = {call->operands[0], call->operands[1], call->operands[2],
                                           call->operands[call->operand_count - 1]};
    const struct mmul_operation_call attention = {of, call->operand_count - 2, call->with};
    const struct mmul_shape q = of[0].shape, k = of[1].shape;
    struct mmul_shape sums = q;
    sums.cols = 2;
    enum mmul_status status = mmul_shape_of_attention(row, &attention, shape, err);
    if (status == MMUL_OK)
        status = check_like(row, call, 3, *shape, err);
    if (status == MMUL_OK)
        status = check_like(row, call, 4, sums, err);
    if (row == mmul_operation_row(MMUL_ATTENTION_BACKWARD_MASK))
        shape->cols = k.rows;
    else if (row != mmul_operation_row(MMUL_ATTENTION_BACKWARD_V))
        shape->cols = q.cols;
    shape->rows = row->parts[0] == 'a' ? k.rows : q.rows;
    return status;
}

enum mmul_status mmul_shape_of_one_hot(const struct mmul_operation_row *row,
                                       const struct mmul_operation_call *call,
                                       struct mmul_shape *shape, struct mmul_error *err) {
    const struct mmul_operand_info *x = &call->operands[0];
    const int64_t count = call->with->count;
    *shape = x->shape;
    shape->cols = count;
    if (x->shape.cols != 1)
        return mmul_fail(err, MMUL_ERR_DATA, "%s takes a column, '%s' has %lld", row->name, x->name,
                         (long long)x->shape.cols);
    if (count >= 1 && count <= INDEX_LIMIT)
        return MMUL_OK;
    return mmul_fail(err, MMUL_ERR_DATA, "%s of %lld classes: expected 1 to %lld", row->name,
                     (long long)count, (long long)INDEX_LIMIT);
}

// Operands: x, then columns beside it: indices and, backward, the gradient of the result.
enum mmul_status mmul_shape_of_cross_entropy(const struct mmul_operation_row *row,
                                             const struct mmul_operation_call *call,
                                             struct mmul_shape *shape, struct mmul_error *err) {
    const struct mmul_operand_info *x = &call->operands[0];
    struct mmul_shape column = x->shape;
    char pair[512];
    column.cols = 1;
    *shape = row->picks ? column : x->shape;
    for (int i = 1; i < call->operand_count; i++) {
        if (mmul_shape_equal(call->operands[i].shape, column))
            continue;
        format_pair(row, x, &call->operands[i], pair);
        return mmul_fail(err, MMUL_ERR_DATA, "%s: the second must be a column beside it", pair);
    }
    return check_index(x, x->shape.cols, "columns", err);
}

enum mmul_status mmul_shape_of_rows_backward(const struct mmul_operation_row *row,
                                             const struct mmul_operation_call *call,
                                             struct mmul_shape *shape, struct mmul_error *err) {
    const struct mmul_operand_info *x = &call->operands[0];
    const struct mmul_operand_info norm[] = {call->operands[0], call->operands[2]};
    const struct mmul_operation_call weighted = {norm, 2, call->with};
    char pair[512];
    *shape = x->shape;
    if (!mmul_shape_equal(x->shape, call->operands[1].shape)) {
        format_pair(row, x, &call->operands[1], pair);
        return mmul_fail(err, MMUL_ERR_DATA, "%s: sizes differ", pair);
    }
    return call->operand_count > 2 ? mmul_shape_of_norm(row, &weighted, shape, err) : MMUL_OK;
}

enum mmul_status mmul_shape_of_sum_at(const struct mmul_operation_row *row,
                                      const struct mmul_operation_call *call,
                                      struct mmul_shape *shape, struct mmul_error *err) {
    const struct mmul_operand_info *x = &call->operands[0], *ids = &call->operands[1];
    const struct mmul_shape column = {1, 1, x->shape.rows, 1};
    const int64_t count = call->with->count;
    char pair[512];
    *shape = (struct mmul_shape){1, 1, count, x->shape.cols};
    format_pair(row, x, ids, pair);
    if (mmul_shape_matrices(x->shape) != 1 || !mmul_shape_equal(ids->shape, column))
        return mmul_fail(err, MMUL_ERR_DATA, "%s: expected one matrix and a column beside it",
                         pair);
    if (call->with->axis != -2 || count < 1 || count > INDEX_LIMIT)
        return mmul_fail(err, MMUL_ERR_USAGE, "%s: axis -2 and 1 to %lld rows are possible", pair,
                         (long long)INDEX_LIMIT);
    return MMUL_OK;
}

int64_t mmul_operation_index_limit(enum mmul_operation_kind kind,
                                   const struct mmul_operation_call *call) {
    const struct mmul_shape first = call->operands[0].shape;
    return kind == MMUL_TAKE                             ? first.rows
           : kind == MMUL_SUM_AT || kind == MMUL_ONE_HOT ? call->with->count
                                                         : first.cols;
}

// ------------------------------------------------------------------------------------------- rules

static int64_t rows_of(struct mmul_shape shape) {
    return mmul_shape_matrices(shape) * shape.rows;
}

// Returns the product of the equal leading axes: groups with one element of each.
static int64_t count_equal_leading(struct mmul_shape x, struct mmul_shape y) {
    int64_t left[AXES], right[AXES], groups = 1;
    mmul_shape_to_sizes(x, left);
    mmul_shape_to_sizes(y, right);
    for (int s = 0; s < LEADING; s++) {
        if (left[s] != right[s])
            return groups;
        groups *= left[s];
    }
    return MMUL_ROW_BY_ROW;
}

static int64_t groups_of_slice(const struct mmul_operation_call *call) {
    int64_t sizes[AXES], groups = 1;
    mmul_shape_to_sizes(call->operands[0].shape, sizes);
    for (int s = 0; s < LEADING; s++) {
        if (mmul_slice_step(call->with, s) != 1 || mmul_slice_size(call->with, s) != sizes[s])
            return groups;
        groups *= sizes[s];
    }
    return MMUL_ROW_BY_ROW;
}

// Returns groups of the leading axes that also come first in the result; sizes of 1 do not count.
static int64_t groups_of_permute(const struct mmul_operation_call *call, struct mmul_shape result) {
    const struct mmul_shape x = call->operands[0].shape;
    const int *axes = call->with->axes;
    int64_t sizes[AXES], groups = 1;
    bool is_same = true;
    mmul_shape_to_sizes(x, sizes);
    for (int s = 0; s < AXES; s++)
        is_same &= axes[s] == s;
    for (int s = 0, from = 0; s < AXES; s++) {
        if (sizes[axes[s]] == 1)
            continue;
        while (sizes[from] == 1)
            from++;
        if (axes[s] != from++)
            break;
        groups *= sizes[axes[s]];
    }
    return is_same ? MMUL_ROW_BY_ROW : mmul_gcd(groups, mmul_gcd(rows_of(x), rows_of(result)));
}

static int64_t groups_of_concat(const struct mmul_operation_call *call) {
    int64_t sizes[AXES], groups = 1;
    mmul_shape_to_sizes(call->operands[0].shape, sizes);
    if (call->with->axis == -1)
        return MMUL_ROW_BY_ROW;
    for (int s = 0; s < AXES + call->with->axis; s++)
        groups *= sizes[s];
    return groups;
}

static int64_t groups_of_copy(enum mmul_operation_kind kind, const struct mmul_operation_call *call,
                              struct mmul_shape result) {
    const struct mmul_shape x = call->operands[0].shape;
    switch (kind) {
    case MMUL_SLICE:
        return groups_of_slice(call);
    case MMUL_PERMUTE:
        return groups_of_permute(call, result);
    case MMUL_CONCAT:
        return groups_of_concat(call);
    default:
        return x.cols == result.cols ? MMUL_ROW_BY_ROW : mmul_gcd(rows_of(x), rows_of(result));
    }
}

// Groups are whole matrices; several of the result may share one.
static int64_t groups_of_matrices(struct mmul_shape have, struct mmul_shape result) {
    return have.batch == result.batch ? mmul_shape_matrices(have) : 1;
}

static int64_t groups_of_matmul(struct mmul_shape have, int operand, struct mmul_shape result) {
    if (have.batch != result.batch)
        return 1;
    if (have.depth != result.depth)
        return result.batch;
    return operand == 0 ? MMUL_ROW_BY_ROW : mmul_shape_matrices(result);
}

int64_t mmul_operation_row_groups(enum mmul_operation_kind kind,
                                  const struct mmul_operation_call *call, int operand,
                                  struct mmul_shape result) {
    const struct mmul_shape have = call->operands[operand].shape;
    switch (mmul_operation_row(kind)->class) {
    case MMUL_CLASS_ELEMENTS:
        return count_equal_leading(have, result);
    case MMUL_CLASS_ROWS:
        return operand < mmul_operation_row(kind)->by_row ? MMUL_ROW_BY_ROW : 1;
    case MMUL_CLASS_REDUCE:
        return call->with->axis == -1 ? MMUL_ROW_BY_ROW : mmul_shape_matrices(have);
    case MMUL_CLASS_COPY:
        return groups_of_copy(kind, call, result);
    case MMUL_CLASS_LOOKUP:
        return operand == 0 ? 1 : rows_of(have);
    case MMUL_CLASS_ATTENTION:
        return mmul_operation_row(kind)->parts[operand] == 'r' ? count_equal_leading(have, result)
                                                               : groups_of_matrices(have, result);
    default:
        return kind == MMUL_MATMUL || kind == MMUL_FUSED_TOPK
                   ? groups_of_matmul(have, operand, result)
               : kind == MMUL_TRANSPOSE ? mmul_shape_matrices(have)
                                        : MMUL_ROW_BY_ROW;
    }
}

static bool is_sum(enum mmul_operation_kind kind) {
    return kind == MMUL_SUM || kind == MMUL_MEAN || kind == MMUL_SUM_AT;
}

// Checks an operand that is split by rows. Rows of a result with another split need parts of all of
// them.
static bool rows_fit(enum mmul_operation_kind kind, const struct mmul_rule *rule,
                     const struct mmul_operation_call *call, int operand, struct mmul_shape result,
                     int64_t groups) {
    const struct mmul_operand_info *have = &call->operands[operand];
    if (have->is_number)
        return false;
    if (mmul_operation_row(kind)->class == MMUL_CLASS_REDUCE && rule->result != MMUL_PLACE_ROWS)
        return is_sum(kind) && call->with->axis == -2;
    if (rule->result != MMUL_PLACE_ROWS) // transpose: columns; matmul: along the inner range
        return kind != MMUL_MATMUL ||
               (have->shape.batch == result.batch && have->shape.depth == result.depth);
    int64_t kept = mmul_operation_row_groups(kind, call, operand, result);
    return kept == MMUL_ROW_BY_ROW || groups == MMUL_ONE_RANK || (groups > 1 && kept % groups == 0);
}

static bool cols_fit(enum mmul_operation_kind kind, const struct mmul_rule *rule,
                     const struct mmul_operation_call *call, int operand,
                     struct mmul_shape result) {
    const struct mmul_operand_info *have = &call->operands[operand];
    const struct mmul_shape s = have->shape;
    const bool same_stack = s.batch == result.batch && s.depth == result.depth;
    switch (mmul_operation_row(kind)->class) {
    case MMUL_CLASS_ELEMENTS:
        return !have->is_number && same_stack && s.cols == result.cols;
    case MMUL_CLASS_REDUCE:
        return rule->result == MMUL_PLACE_COLS ? call->with->axis == -2
                                               : is_sum(kind) && call->with->axis == -1;
    case MMUL_CLASS_LOOKUP:
        return s.rows == 1;
    default:
        return kind != MMUL_MATMUL || same_stack;
    }
}

// Checks a cyclic operand. Its columns and those of the result are in the same stored order. Stacks
// may repeat, because each matrix is split alike.
static bool cyclic_fits(enum mmul_operation_kind kind, const struct mmul_operand_info *have,
                        struct mmul_shape result) {
    return !have->is_number && (kind == MMUL_MATMUL || have->shape.cols == result.cols);
}

// Checks a whole operand. Its columns are in the order of the matrix, so beside cyclic elements it
// can only be a number or a column.
static bool whole_fits(enum mmul_operation_kind kind, const struct mmul_rule *rule,
                       const struct mmul_operand_info *have) {
    return rule->result != MMUL_PLACE_CYCLIC || kind == MMUL_MATMUL || have->is_number ||
           have->shape.cols == 1;
}

// Returns true if the elements read from a file are contiguous runs there.
static bool reads_contiguous(enum mmul_operation_kind kind, const struct mmul_parameters *with) {
    bool has_steps = false;
    for (int s = 0; s < AXES && kind == MMUL_SLICE; s++)
        has_steps |= mmul_slice_step(with, s) != 1;
    return !has_steps;
}

static bool operand_fits(enum mmul_operation_kind kind, const struct mmul_rule *rule,
                         const struct mmul_operation_call *call, int operand,
                         struct mmul_shape result, int64_t groups) {
    const struct mmul_operand_info *have = &call->operands[operand];
    const enum mmul_operation_class class = mmul_operation_row(kind)->class;
    switch (rule->operands[operand]) {
    case MMUL_PLACE_REPLICATE:
        return whole_fits(kind, rule, have);
    case MMUL_PLACE_CYCLIC:
        return cyclic_fits(kind, have, result);
    case MMUL_PLACE_FILE:
        return reads_contiguous(kind, call->with);
    case MMUL_PLACE_ROWS:
        return rows_fit(kind, rule, call, operand, result, groups);
    case MMUL_PLACE_COLS:
        return cols_fit(kind, rule, call, operand, result);
    default: // a number cannot be a summand: it would be added more than once
        return class == MMUL_CLASS_ELEMENTS
                   ? !have->is_number && mmul_shape_equal(have->shape, result)
               : kind == MMUL_MATMUL
                   ? have->shape.batch == result.batch && have->shape.depth == result.depth
                   : true;
    }
}

bool mmul_rule_fits(enum mmul_operation_kind kind, const struct mmul_rule *rule,
                    const struct mmul_operation_call *call, struct mmul_shape result,
                    int64_t groups) {
    bool fits = true;
    for (int i = 0; i < call->operand_count; i++)
        fits = fits && operand_fits(kind, rule, call, i, result, groups);
    return fits;
}
