// SPDX-License-Identifier: MIT
// Reference of the operations: plain loops in double over the values of a trial. They compute one
// element of the result at a time from the definition. All but the elementwise ones are written
// without the library.
#pragma once

#include "model/elements.h"
#include "model/program.h"
#include "trial.h"

// Returns element `n` (batch, depth, row, column) of operand i; dimensions of size 1 repeat.
static double element_of(const struct trial *t, const struct mmul_call *c, int i,
                         const int64_t n[4]) {
    return c->operands[i] == MMUL_NUMBER
               ? c->with.numbers[i]
               : *known_element(&t->known[c->operands[i]], n[0], n[1], n[2], n[3]);
}

static bool is_called(const struct mmul_call *c, const char *name) {
    return strcmp(c->operation, name) == 0;
}

// -------------------------------------------------------------------------------------- elements

// Computes an elementwise operation by its formula in model/operations.def. map_numpy.py compares
// these formulas with numpy.
static double apply_formula(const struct mmul_call *c, double x, double y) {
    enum mmul_operation_kind kind;
    (void)mmul_operation_find(c->operation, &kind);
    return c->operand_count == 2 ? mmul_element_of_two(kind, x, y) : mmul_element_of_one(kind, x);
}

// ------------------------------------------------------------------------------------------ rows

static int64_t cols_of(const struct trial *t, const struct mmul_call *c) {
    return t->known[c->operands[0]].shape.cols;
}

static double row_element(const struct trial *t, const struct mmul_call *c, const int64_t n[4],
                          int64_t j) {
    return element_of(t, c, 0, (const int64_t[]){n[0], n[1], n[2], j});
}

static double loop_softmax(const struct trial *t, const struct mmul_call *c, const int64_t n[4]) {
    const int64_t cols = cols_of(t, c), rows = t->known[c->operands[0]].shape.rows;
    double sum = 0;
    for (int64_t j = 0; j < cols; j++)
        if (!c->with.causal || j <= n[2] + cols - rows)
            sum += exp(row_element(t, c, n, j));
    return c->with.causal && n[3] > n[2] + cols - rows ? 0 : exp(row_element(t, c, n, n[3])) / sum;
}

static double loop_norm(const struct trial *t, const struct mmul_call *c, const int64_t n[4]) {
    const double cols = (double)cols_of(t, c), x = row_element(t, c, n, n[3]);
    const int64_t vector[] = {0, 0, 0, n[3]};
    double sum = 0, squares = 0;
    for (int64_t j = 0; j < cols_of(t, c); j++) {
        sum += row_element(t, c, n, j);
        squares += pow(row_element(t, c, n, j), 2);
    }
    double w = c->operand_count > 1 ? element_of(t, c, 1, vector) : 1;
    double b = c->operand_count > 2 ? element_of(t, c, 2, vector) : 0;
    if (is_called(c, "normalize"))
        return squares > 0 ? x / sqrt(squares) : 0;
    if (is_called(c, "rms_norm"))
        return x / sqrt(squares / cols + c->with.epsilon) * w;
    double mean = sum / cols;
    return (x - mean) / sqrt(squares / cols - mean * mean + c->with.epsilon) * w + b;
}

// Multiplies a row of gradients of the result by the derivatives of all y_i by x_j, one by one.
static double loop_row_backward(const struct trial *t, const struct mmul_call *c,
                                const int64_t n[4]) {
    const int64_t cols = cols_of(t, c);
    const bool is_softmax = is_called(c, "softmax_backward");
    const bool centers = is_called(c, "layer_norm_backward");
    double sum = 0, squares = 0, found = 0;
    for (int64_t j = 0; j < cols; j++) {
        sum += row_element(t, c, n, j);
        squares += pow(row_element(t, c, n, j), 2);
    }
    const double mean = centers ? sum / (double)cols : 0;
    const double f = 1 / sqrt(squares / (double)cols - mean * mean + c->with.epsilon);
    for (int64_t i = 0; i < cols; i++) {
        const int64_t at[] = {n[0], n[1], n[2], i}, vector[] = {0, 0, 0, i};
        const double x = row_element(t, c, n, i), y = row_element(t, c, n, n[3]);
        const double w = c->operand_count > 2 ? element_of(t, c, 2, vector) : 1;
        const double by_softmax = x * ((i == n[3]) - y);
        const double by_norm = f * ((i == n[3]) - (centers ? 1.0 : 0.0) / (double)cols -
                                    f * f * (x - mean) * (y - mean) / (double)cols);
        found += element_of(t, c, 1, at) * (is_softmax ? by_softmax : w * by_norm);
    }
    return found;
}

// Returns -log softmax of row n at the index of that row, or the derivative by the element at n.
static double loop_loss(const struct trial *t, const struct mmul_call *c, const int64_t n[4]) {
    const double id = element_of(t, c, 1, n);
    double sum = 0;
    for (int64_t j = 0; j < cols_of(t, c); j++)
        sum += exp(row_element(t, c, n, j));
    if (is_called(c, "cross_entropy_backward"))
        return (exp(row_element(t, c, n, n[3])) / sum - (id == (double)n[3])) *
               element_of(t, c, 2, n);
    return log(sum) - row_element(t, c, n, (int64_t)id);
}

static void sizes_of(const struct trial *t, const struct mmul_call *c, int64_t sizes[4]) {
    const struct mmul_shape s = t->known[c->operands[0]].shape;
    const int64_t all[] = {s.batch, s.depth, s.rows, s.cols};
    memcpy(sizes, all, sizeof all);
}

// Returns the column at position `place` in the order of falling values (argmin: rising values).
// Equal elements stay in the order of columns.
static int64_t ordered_column(const struct trial *t, const struct mmul_call *c, const int64_t n[4],
                              int64_t place) {
    for (int64_t j = 0; j < cols_of(t, c); j++) {
        int64_t before = 0;
        for (int64_t i = 0; i < cols_of(t, c); i++) {
            double x = row_element(t, c, n, i), y = row_element(t, c, n, j);
            before += (is_called(c, "argmin") ? x < y : x > y) || (x == y && i < j);
        }
        if (before == place)
            return j;
    }
    return -1;
}

static double loop_topk(const struct trial *t, const struct mmul_call *c, const int64_t n[4]) {
    int64_t k = c->with.count, column = ordered_column(t, c, n, n[3] % k);
    return n[3] < k ? row_element(t, c, n, column) : (double)column;
}

// Sorting along an axis: the column index or the element at position n.
static double loop_sort(const struct trial *t, const struct mmul_call *c, const int64_t n[4]) {
    const int axis = 4 + (c->with.axis < 0 ? c->with.axis : -1);
    int64_t sizes[4], at[4], other[4];
    sizes_of(t, c, sizes);
    memcpy(at, n, sizeof at);
    memcpy(other, n, sizeof other);
    for (at[axis] = 0; at[axis] < sizes[axis]; at[axis]++) {
        const double y = element_of(t, c, 0, at);
        int64_t before = 0;
        for (other[axis] = 0; other[axis] < sizes[axis]; other[axis]++) {
            const double x = element_of(t, c, 0, other);
            before += (c->with.descending ? x > y : x < y) || (x == y && other[axis] < at[axis]);
        }
        if (before == n[axis])
            return is_called(c, "argsort") ? (double)at[axis] : y;
    }
    return NAN;
}

static double loop_sort_backward(const struct trial *t, const struct mmul_call *c,
                                 const int64_t n[4]) {
    return row_element(t, c, n, (int64_t)element_of(t, c, 1, n));
}

static double loop_rope(const struct trial *t, const struct mmul_call *c, const int64_t n[4]) {
    const int64_t cols = cols_of(t, c), half = cols / 2;
    const int64_t pair = c->with.interleaved ? n[3] / 2 : n[3] % half;
    const bool is_second = c->with.interleaved ? n[3] % 2 == 1 : n[3] >= half;
    const int64_t left = c->with.interleaved ? 2 * pair : pair;
    const int64_t right = c->with.interleaved ? left + 1 : pair + half;
    double turn = (double)n[2] / pow(c->with.base, 2 * (double)pair / (double)cols);
    turn = c->with.scale < 0 ? -turn : turn;
    double x = row_element(t, c, n, left), y = row_element(t, c, n, right);
    return is_second ? x * sin(turn) + y * cos(turn) : x * cos(turn) - y * sin(turn);
}

// Reductions along an axis or over all elements (axis 0), and prefix sums up to n.
static double loop_reduction(const struct trial *t, const struct mmul_call *c, const int64_t n[4]) {
    int64_t sizes[4], count = 1, first[4];
    double sum = 0, squares = 0, most = -HUGE_VAL, least = HUGE_VAL;
    sizes_of(t, c, sizes);
    for (int a = 0; a < 4; a++) {
        const bool is_along = c->with.axis == 0 || a == 4 + c->with.axis;
        first[a] = is_along ? 0 : n[a];
        sizes[a] = !is_along ? 1 : is_called(c, "cumsum") ? n[a] + 1 : sizes[a];
        count *= sizes[a];
    }
    for (int64_t p = 0; p < count; p++) {
        const int64_t at[] = {first[0] + p / (sizes[1] * sizes[2] * sizes[3]),
                              first[1] + p / (sizes[2] * sizes[3]) % sizes[1],
                              first[2] + p / sizes[3] % sizes[2], first[3] + p % sizes[3]};
        const double x = element_of(t, c, 0, at);
        sum += x;
        squares += x * x;
        most = fmax(most, x);
        least = fmin(least, x);
    }
    const double mean = sum / (double)count, variance = squares / (double)count - mean * mean;
    return is_called(c, "sum") || is_called(c, "cumsum") ? sum
           : is_called(c, "mean")                        ? mean
           : is_called(c, "var")                         ? variance
           : is_called(c, "std")                         ? sqrt(variance)
           : is_called(c, "max")                         ? most
                                                         : least;
}

// Sums the rows with this row's index, plus the table's row if there is a table.
static double loop_sum_at(const struct trial *t, const struct mmul_call *c, const int64_t n[4]) {
    const bool has_table = is_called(c, "add_at");
    const struct mmul_shape s = t->known[c->operands[has_table ? 2 : 0]].shape;
    const struct mmul_shape ids = t->known[c->operands[1]].shape;
    double sum = has_table ? element_of(t, c, 0, n) : 0;
    for (int64_t p = 0; p < s.batch * s.depth * s.rows; p++) {
        const int64_t at[] = {p / (s.depth * s.rows), p / s.rows % s.depth, p % s.rows, n[3]};
        const int64_t beside[] = {0, at[0], at[1], at[2]};
        if (element_of(t, c, 1, ids.cols == 1 ? at : beside) == (double)n[2])
            sum += element_of(t, c, has_table ? 2 : 0, at);
    }
    return sum;
}

// Returns the mean over all rows, or over all elements.
static double loop_mean_loss(const struct trial *t, const struct mmul_call *c, const int64_t n[4]) {
    const bool by_row = is_called(c, "cross_entropy");
    const int64_t id_cols = t->known[c->operands[1]].shape.cols;
    int64_t sizes[4], count = 1;
    double sum = 0;
    (void)n;
    sizes_of(t, c, sizes);
    sizes[3] = by_row ? 1 : sizes[3];
    for (int a = 0; a < 4; a++)
        count *= sizes[a];
    for (int64_t p = 0; p < count; p++) {
        const int64_t at[] = {p / (sizes[1] * sizes[2] * sizes[3]),
                              p / (sizes[2] * sizes[3]) % sizes[1], p / sizes[3] % sizes[2],
                              p % sizes[3]};
        const int64_t beside[] = {0, at[0], at[1], at[2]};
        const double x = row_element(t, c, at, at[3]), y = element_of(t, c, 1, at);
        double powers = 0;
        for (int64_t j = 0; by_row && j < cols_of(t, c); j++)
            powers += exp(row_element(t, c, at, j));
        const double id = element_of(t, c, 1, id_cols == 1 ? at : beside);
        sum += by_row ? log(powers) - row_element(t, c, at, (int64_t)id)
               : is_called(c, "mse")
                   ? (x - y) * (x - y)
                   : -y * log(1 / (1 + exp(-x))) - (1 - y) * log(1 / (1 + exp(x)));
    }
    return sum / (double)count;
}

// -------------------------------------------------------------------------------------- all else

static double loop_copy(const struct trial *t, const struct mmul_call *c, const int64_t n[4]) {
    const struct mmul_shape s = t->known[c->operands[0]].shape;
    const int64_t sizes[] = {s.batch, s.depth, s.rows, s.cols};
    const struct mmul_shape to = c->with.shape;
    int64_t from[4], index = ((n[0] * to.depth + n[1]) * to.rows + n[2]) * to.cols + n[3];
    int operand = 0;
    memcpy(from, n, sizeof from);
    if (is_called(c, "reshape"))
        return t->known[c->operands[0]].at[index];
    for (int i = 0; i < 4; i++)
        if (is_called(c, "slice"))
            from[i] = from[i] * (c->with.step[i] != 0 ? c->with.step[i] : 1) + c->with.begin[i];
        else if (is_called(c, "permute"))
            from[c->with.axes[i]] = n[i];
    if (is_called(c, "concat") && n[4 + c->with.axis] >= sizes[4 + c->with.axis]) {
        from[4 + c->with.axis] -= sizes[4 + c->with.axis];
        operand = 1;
    }
    return element_of(t, c, operand, from);
}

static double loop_take(const struct trial *t, const struct mmul_call *c, const int64_t n[4]) {
    double id = element_of(t, c, 1, (const int64_t[]){0, n[0], n[1], n[2]});
    return element_of(t, c, 0, (const int64_t[]){0, 0, (int64_t)id, n[3]});
}

// Indices have the result's leading dimensions, as for take, or form a column.
static double loop_one_hot(const struct trial *t, const struct mmul_call *c, const int64_t n[4]) {
    const int64_t beside[] = {0, n[0], n[1], n[2]};
    const bool is_row = is_called(c, "one_hot_rows");
    return element_of(t, c, 0, is_row ? n : beside) == (double)n[3];
}

// SplitMix64 as published by its authors: number `position` of the sequence that begins with
// `state`.
static uint64_t loop_draw(uint64_t state, uint64_t position) {
    state += 0x9e3779b97f4a7c15 * (position + 1);
    state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9;
    state = (state ^ state >> 27) * 0x94d049bb133111eb;
    return state ^ state >> 31;
}

// Drops an element by comparing one of 2^24 equally likely values.
static double loop_dropout(const struct trial *t, const struct mmul_call *c, const int64_t n[4]) {
    const struct mmul_shape s = t->known[c->operands[0]].shape;
    const double p = c->with.numbers[1];
    const int64_t at = ((n[0] * s.depth + n[1]) * s.rows + n[2]) * s.cols + n[3];
    const uint64_t turn = loop_draw((uint64_t)c->with.numbers[2], (uint64_t)c->with.numbers[3]);
    const bool is_dropped =
        (double)(loop_draw(turn, (uint64_t)at) >> 40) < floor(p * (double)(1 << 24));
    return is_dropped ? 0 : element_of(t, c, 0, n) / (1 - p);
}

static double loop_attention(const struct trial *t, const struct mmul_call *c, const int64_t n[4]) {
    const struct mmul_shape q = t->known[c->operands[0]].shape, k = t->known[c->operands[1]].shape;
    const int64_t head = n[1] * k.depth / q.depth;
    double sum = 0, value = 0;
    for (int64_t p = 0; p < k.rows; p++) {
        double score = 0;
        if (c->with.causal && p > n[2] + k.rows - q.rows)
            continue;
        for (int64_t d = 0; d < q.cols; d++)
            score += element_of(t, c, 0, (const int64_t[]){n[0], n[1], n[2], d}) *
                     element_of(t, c, 1, (const int64_t[]){n[0], head, p, d});
        score *= c->with.scale;
        if (c->operand_count > 3)
            score += element_of(t, c, 3, (const int64_t[]){n[0], n[1], n[2], p});
        sum += exp(score);
        value += exp(score) * element_of(t, c, 2, (const int64_t[]){n[0], head, p, n[3]});
    }
    return value / sum;
}

static double loop_element(const struct trial *t, const struct mmul_call *c, const int64_t n[4]) {
    static const struct {
        const char *names;
        double (*loop)(const struct trial *, const struct mmul_call *, const int64_t[4]);
    } loops[] = {{" softmax ", loop_softmax},
                 {" rms_norm layer_norm normalize ", loop_norm},
                 {" topk ", loop_topk},
                 {" sort argsort ", loop_sort},
                 {" sort_backward ", loop_sort_backward},
                 {" rope ", loop_rope},
                 {" softmax_backward rms_norm_backward layer_norm_backward ", loop_row_backward},
                 {" cross_entropy_rows cross_entropy_backward ", loop_loss},
                 {" cross_entropy mse binary_cross_entropy ", loop_mean_loss},
                 {" sum mean max min var std cumsum ", loop_reduction},
                 {" sum_at add_at ", loop_sum_at},
                 {" one_hot one_hot_rows ", loop_one_hot},
                 {" slice reshape permute concat ", loop_copy},
                 {" take ", loop_take},
                 {" attention ", loop_attention}};
    char name[32];
    snprintf(name, sizeof name, " %s ", c->operation);
    if (is_called(c, "argmax") || is_called(c, "argmin"))
        return (double)ordered_column(t, c, n, 0);
    if (is_called(c, "dropout"))
        return loop_dropout(t, c, n);
    if (is_called(c, "stop_gradient"))
        return element_of(t, c, 0, n);
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
        if (strstr(loops[i].names, name) != NULL)
            return loops[i].loop(t, c, n);
    double x = element_of(t, c, 0, n), y = c->operand_count > 1 ? element_of(t, c, 1, n) : 0;
    if (is_called(c, "where"))
        return x != 0 ? y : element_of(t, c, 2, n);
    return apply_formula(c, x, y);
}

// Adds the operation of this name. If a name stands for a composite (model/composite.h),
// "NAME_rows" selects the operation of the table.
static enum mmul_status append(struct trial *t, const struct mmul_call *call, int *value) {
    char name[32];
    enum mmul_operation_kind kind;
    const size_t length = strlen(call->operation);
    if (length < 5 || strcmp(call->operation + length - 5, "_rows") != 0)
        return mmul_program_apply(t->program, call, NULL, value, &t->err);
    snprintf(name, sizeof name, "%.*s", (int)length - 5, call->operation);
    mmul_operation_find(name, &kind);
    struct mmul_operation operation = {
        .kind = kind, .operand_count = call->operand_count, .with = call->with};
    memcpy(operation.operands, call->operands, sizeof operation.operands);
    return mmul_program_append(t->program, &operation, NULL, value, &t->err);
}

// Skips the intermediate values of a composite: their contents are not compared.
static void skip_values(struct trial *t, int until) {
    MPI_Bcast(&until, 1, MPI_INT, 0, MPI_COMM_WORLD);
    while (t->count < until) {
        struct mmul_shape s = {1, 1, 1, 1};
        if (rank == 0)
            s = mmul_program_value_shape(t->program, t->count, NULL);
        MPI_Bcast(&s, sizeof s, MPI_CHAR, 0, MPI_COMM_WORLD);
        t->is_read[add_known(t, s)] = true;
    }
}

// Adds an operation to the program and computes its reference. The result's shape is that of root's
// program.
static int apply(struct trial *t, const struct mmul_call *call) {
    struct mmul_shape s = {1, 1, 1, 1};
    int value = -1;
    enum mmul_status status = MMUL_OK;
    if (rank == 0) {
        status = append(t, call, &value);
        if (status == MMUL_OK)
            s = mmul_program_value_shape(t->program, value, NULL);
    }
    skip_values(t, value);
    MPI_Bcast(&s, sizeof s, MPI_CHAR, 0, MPI_COMM_WORLD);
    struct mmul_call loops = *call;
    loops.with.shape = s;
    for (int i = 0; i < call->operand_count; i++)
        if (call->operands[i] != MMUL_NUMBER)
            t->is_read[call->operands[i]] = true;
    int made = add_known(t, s);
    for (int64_t e = 0; e < elements(s); e++) {
        const int64_t n[] = {e / (s.depth * s.rows * s.cols), e / (s.rows * s.cols) % s.depth,
                             e / s.cols % s.rows, e % s.cols};
        t->known[made].at[e] = loop_element(t, &loops, n);
    }
    return check_built(t, status, value, made);
}
