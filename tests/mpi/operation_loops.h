// SPDX-License-Identifier: MIT
// What operations compute, as plain loops in double over the values of a trial: one element of the result at a
// time, from their definitions, with nothing of the library.
#pragma once

#include "trial.h"

// Element `n` (batch, depth, row, column) of operand i; sizes of 1 repeat.
static double element_of(const struct trial *t, const struct mmul_call *c, int i,
                         const int64_t n[4]) {
    return c->operands[i] == MMUL_NUMBER ? c->with.numbers[i]
                                         : *at(&t->known[c->operands[i]], n[0], n[1], n[2], n[3]);
}

static bool is_called(const struct mmul_call *c, const char *name) {
    return strcmp(c->operation, name) == 0;
}

// -------------------------------------------------------------------------------------- elements

static double loop_erf_gelu(double x) {
    return x * 0.5 * erfc(-x / sqrt(2));
}

static double loop_one(const struct mmul_call *c, double x) {
    return is_called(c, "neg")       ? -x
           : is_called(c, "exp")     ? exp(x)
           : is_called(c, "log")     ? log(x)
           : is_called(c, "sqrt")    ? sqrt(x)
           : is_called(c, "rsqrt")   ? pow(x, -0.5)
           : is_called(c, "abs")     ? fabs(x)
           : is_called(c, "relu")    ? fmax(x, 0)
           : is_called(c, "sigmoid") ? 1 / (1 + exp(-x))
           : is_called(c, "tanh")    ? tanh(x)
           : is_called(c, "silu")    ? x / (1 + exp(-x))
           : is_called(c, "gelu")
               ? loop_erf_gelu(x)
               : x / 2 * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static double loop_two(const struct mmul_call *c, double x, double y) {
    return is_called(c, "add")            ? x + y
           : is_called(c, "subtract")     ? x - y
           : is_called(c, "multiply")     ? x * y
           : is_called(c, "divide")       ? x / y
           : is_called(c, "floor_divide") ? (y == 0 ? x / y : floor(x / y))
           : is_called(c, "remainder")    ? (y == 0 ? NAN : x - floor(x / y) * y)
           : is_called(c, "power")        ? pow(x, y)
           : is_called(c, "maximum")      ? (x > y ? x : y)
           : is_called(c, "minimum")      ? (x < y ? x : y)
           : is_called(c, "equal")        ? x == y
           : is_called(c, "not_equal")    ? x != y
           : is_called(c, "less")         ? x < y
           : is_called(c, "less_equal")   ? x <= y
           : is_called(c, "greater")      ? x > y
                                          : x >= y;
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

// The column that is so many places from the largest element of its row; of equal ones the first.
static int64_t column_at(const struct trial *t, const struct mmul_call *c, const int64_t n[4],
                         int64_t place) {
    for (int64_t j = 0; j < cols_of(t, c); j++) {
        int64_t before = 0;
        for (int64_t i = 0; i < cols_of(t, c); i++) {
            double x = row_element(t, c, n, i), y = row_element(t, c, n, j);
            before += x > y || (x == y && i < j);
        }
        if (before == place)
            return j;
    }
    return -1;
}

static double loop_topk(const struct trial *t, const struct mmul_call *c, const int64_t n[4]) {
    int64_t k = c->with.count, column = column_at(t, c, n, n[3] % k);
    return n[3] < k ? row_element(t, c, n, column) : (double)column;
}

static double loop_rope(const struct trial *t, const struct mmul_call *c, const int64_t n[4]) {
    const int64_t cols = cols_of(t, c), half = cols / 2;
    const int64_t pair = c->with.interleaved ? n[3] / 2 : n[3] % half;
    const bool is_second = c->with.interleaved ? n[3] % 2 == 1 : n[3] >= half;
    const int64_t left = c->with.interleaved ? 2 * pair : pair;
    const int64_t right = c->with.interleaved ? left + 1 : pair + half;
    double turn = (double)n[2] / pow(c->with.base, 2 * (double)pair / (double)cols);
    double x = row_element(t, c, n, left), y = row_element(t, c, n, right);
    return is_second ? x * sin(turn) + y * cos(turn) : x * cos(turn) - y * sin(turn);
}

static double loop_reduction(const struct trial *t, const struct mmul_call *c, const int64_t n[4]) {
    const struct mmul_shape s = t->known[c->operands[0]].shape;
    const bool down = c->with.axis == -2;
    const int64_t count = down ? s.rows : s.cols;
    double sum = 0, most = -HUGE_VAL, least = HUGE_VAL;
    for (int64_t p = 0; p < count; p++) {
        double x =
            element_of(t, c, 0, (const int64_t[]){n[0], n[1], down ? p : n[2], down ? n[3] : p});
        sum += x;
        most = fmax(most, x);
        least = fmin(least, x);
    }
    return is_called(c, "sum")    ? sum
           : is_called(c, "mean") ? sum / (double)count
           : is_called(c, "max")  ? most
                                  : least;
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
            from[i] += c->with.begin[i];
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
                 {" rope ", loop_rope},
                 {" sum mean max min ", loop_reduction},
                 {" slice reshape permute concat ", loop_copy},
                 {" take ", loop_take},
                 {" attention ", loop_attention}};
    char name[32];
    snprintf(name, sizeof name, " %s ", c->operation);
    if (is_called(c, "argmax"))
        return (double)column_at(t, c, n, 0);
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
        if (strstr(loops[i].names, name) != NULL)
            return loops[i].loop(t, c, n);
    double x = element_of(t, c, 0, n), y = c->operand_count > 1 ? element_of(t, c, 1, n) : 0;
    if (is_called(c, "where"))
        return x != 0 ? y : element_of(t, c, 2, n);
    return c->operand_count == 2 ? loop_two(c, x, y) : loop_one(c, x);
}

// The operation in the program, and its loops; the result's sizes are what root's program says.
static int apply(struct trial *t, const struct mmul_call *call) {
    struct mmul_shape s = {1, 1, 1, 1};
    int value = -1;
    enum mmul_status status = MMUL_OK;
    if (rank == 0) {
        status = mmul_program_apply(t->program, call, NULL, &value, &t->err);
        if (status == MMUL_OK)
            s = mmul_program_value_shape(t->program, value, NULL);
    }
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
    return keep(t, status, value, made);
}
