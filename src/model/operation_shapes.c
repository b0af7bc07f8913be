// SPDX-License-Identifier: MIT
// What sizes operations take, and what they make of them. Names and sizes are in every refusal.
#include "base/status.h"
#include "model/matrix.h"
#include "model/operation.h"
#include "model/problem.h"

enum { AXES = 4 };

// Whole numbers are kept as floats.
static const int64_t INDEX_LIMIT = 1 << 24;

static void sizes_of(struct mmul_shape shape, int64_t sizes[AXES]) {
    sizes[0] = shape.batch;
    sizes[1] = shape.depth;
    sizes[2] = shape.rows;
    sizes[3] = shape.cols;
}

static struct mmul_shape shape_of(const int64_t sizes[AXES]) {
    return (struct mmul_shape){sizes[0], sizes[1], sizes[2], sizes[3]};
}

// "cannot WHAT 'x' (1 x 1 x 3 x 4) and 'y' (...)": the beginning of a line about two operands.
static void name_pair(const struct mmul_operation_row *row, const struct mmul_operand_info *x,
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
    enum mmul_status status = mmul_problem_make(&request, &problem, err);
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

// Sizes that repeat: which size of one operand meets which of another.
static enum mmul_status broadcast(const struct mmul_operation_row *row,
                                  const struct mmul_operand_info *x,
                                  const struct mmul_operand_info *y, struct mmul_shape *shape,
                                  struct mmul_error *err) {
    static const char *const names[] = {"batch sizes", "depths", "rows", "columns"};
    int64_t left[AXES], right[AXES], both[AXES];
    char pair[512];
    sizes_of(x->shape, left);
    sizes_of(y->shape, right);
    for (int s = 0; s < AXES; s++) {
        both[s] = left[s] == 1 ? right[s] : left[s];
        if (left[s] == right[s] || left[s] == 1 || right[s] == 1)
            continue;
        name_pair(row, x, y, pair);
        mmul_fail(err, MMUL_ERR_DATA, "%s: %s %lld and %lld differ", pair, names[s],
                  (long long)left[s], (long long)right[s]);
        mmul_hint(err, "sizes of 1 repeat");
        return err->status;
    }
    *shape = shape_of(both);
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
        name_pair(row, x, w, pair);
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
    (void)row;
    *shape = x->shape;
    shape->cols = 1;
    return check_index(x, x->shape.cols, "columns", err);
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

enum mmul_status mmul_shape_of_slice(const struct mmul_operation_row *row,
                                     const struct mmul_operation_call *call,
                                     struct mmul_shape *shape, struct mmul_error *err) {
    const struct mmul_operand_info *x = &call->operands[0];
    const struct mmul_parameters *with = call->with;
    int64_t have[AXES], sizes[AXES];
    (void)row;
    sizes_of(x->shape, have);
    for (int s = 0; s < AXES; s++) {
        sizes[s] = with->end[s] - with->begin[s];
        if (with->begin[s] < 0 || with->end[s] > have[s] || sizes[s] < 1)
            return mmul_fail(err, MMUL_ERR_DATA,
                             "cannot take [%lld:%lld] of axis %d of '%s': it has %lld",
                             (long long)with->begin[s], (long long)with->end[s], s - AXES, x->name,
                             (long long)have[s]);
    }
    *shape = shape_of(sizes);
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
    sizes_of(call->operands[0].shape, have);
    for (int s = 0; s < AXES; s++) {
        if (axes[s] < 0 || axes[s] >= AXES || (seen >> axes[s] & 1) != 0)
            return mmul_fail(
                err, MMUL_ERR_USAGE,
                "cannot permute '%s' to axes %d %d %d %d: expected each of 0 to 3 once",
                call->operands[0].name, axes[0], axes[1], axes[2], axes[3]);
        seen |= 1U << axes[s];
        sizes[s] = have[axes[s]];
    }
    *shape = shape_of(sizes);
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
    sizes_of(x->shape, left);
    sizes_of(y->shape, right);
    for (int s = 0; s < AXES; s++) {
        if (s == axis || left[s] == right[s])
            continue;
        name_pair(row, x, y, pair);
        return mmul_fail(err, MMUL_ERR_DATA,
                         "%s along axis %d: sizes %lld and %lld of axis %d differ", pair,
                         call->with->axis, (long long)left[s], (long long)right[s], s - AXES);
    }
    left[axis] += right[axis];
    *shape = shape_of(left);
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
    name_pair(row, table, ids, pair);
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
        name_pair(row, q, k, pair);
        return mmul_fail(err, MMUL_ERR_DATA, "%s: %s", pair,
                         q->shape.cols != k->shape.cols ? "columns differ"
                         : is_grouped
                             ? "batch sizes differ"
                             : "heads of the first are no multiple of those of the second");
    }
    if (k->shape.batch != v->shape.batch || k->shape.depth != v->shape.depth ||
        k->shape.rows != v->shape.rows) {
        name_pair(row, k, v, pair);
        return mmul_fail(err, MMUL_ERR_DATA, "%s: all sizes but the columns must be equal", pair);
    }
    *shape = q->shape;
    shape->cols = k->shape.rows;
    if (call->operand_count == MMUL_OPERANDS) {
        const struct mmul_operand_info scores = {.name = "scores", .shape = *shape};
        struct mmul_shape both = *shape;
        enum mmul_status status = broadcast(row, &scores, &call->operands[3], &both, err);
        if (status == MMUL_OK && !mmul_shape_equal(both, *shape)) {
            name_pair(row, q, &call->operands[3], pair);
            status = mmul_fail(err, MMUL_ERR_DATA, "%s: the mask is larger than the scores", pair);
        }
        if (status != MMUL_OK)
            return status;
    }
    shape->cols = v->shape.cols;
    return MMUL_OK;
}
