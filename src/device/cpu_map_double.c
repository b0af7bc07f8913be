// SPDX-License-Identifier: MIT
// Operations with operands or results of float64: spread over the rank's threads as all others are. Element by
// element, and along axes, they are plain loops on doubles without steps; what is left is the reference's.
#include "device/cpu_map.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/integer.h"
#include "device/host_buffer.h"
#include "device/reference_map.h"

enum { RUN = 512 }; // elements of a row at once

// Rows and columns of a block of one matrix; not all columns only where each is made by itself.
static struct mmul_map part_of(const struct mmul_map *map, int64_t row, int64_t rows, int64_t col,
                               int64_t cols) {
    struct mmul_map part = *map;
    part.carried = NULL; // the whole has it
    part.rows = rows;
    part.cols = cols;
    part.row += row;
    part.col += col;
    part.result.offset += row * map->result.ld + col;
    for (int i = 0; i < map->operand_count; i++) {
        struct mmul_map_operand *o = &part.operands[i];
        const struct mmul_map_part of =
            mmul_map_operand_part(map, i, (struct mmul_map_part){row, rows, col, cols});
        if (o->buffer == NULL)
            continue;
        o->offset += of.row * o->row_step + of.col * o->col_step;
        o->rows = of.rows < 0 ? o->rows : of.rows;
        o->cols = of.cols < 0 ? o->cols : of.cols;
    }
    return part;
}

// -------------------------------------------------------------------------------------- elements

// Elements [col, col + count) of a row, as doubles without steps.
static void read_run(const struct mmul_map_operand *o, int64_t row, int64_t col, int64_t count,
                     double *to) {
    if (o->buffer == NULL) {
        for (int64_t j = 0; j < count; j++)
            to[j] = (double)o->number;
        return;
    }
    const int64_t at = o->offset + row * o->row_step + col * o->col_step, step = o->col_step;
    if (o->buffer->head.dtype == MMUL_F64 && step == 1)
        memcpy(to, o->buffer->doubles + at, (size_t)count * sizeof *to);
    else if (o->buffer->head.dtype == MMUL_F64)
        for (int64_t j = 0; j < count; j++)
            to[j] = o->buffer->doubles[at + j * step];
    else
        for (int64_t j = 0; j < count; j++)
            to[j] = (double)o->buffer->data[at + j * step];
}

static void write_run(const struct mmul_map *map, int64_t row, int64_t col, int64_t count,
                      const double *from) {
    const int64_t at = row * map->result.ld + col;
    if (map->result.buffer->head.dtype == MMUL_F64) {
        memcpy(mmul_host_doubles(map->result) + at, from, (size_t)count * sizeof *from);
        return;
    }
    float *to = mmul_host_address(map->result) + at;
    for (int64_t j = 0; j < count; j++)
        to[j] = (float)from[j];
}

#define EACH(expression)                  \
    for (int64_t j = 0; j < count; j++) { \
        const double a = x[j], b = y[j];  \
        (void)b;                          \
        x[j] = (expression);              \
    }                                     \
    return true

// x := x op y; false: it is no operation of these.
MMUL_CLONES static bool combine(enum mmul_operation_kind kind, double *restrict x,
                                const double *restrict y, int64_t count) {
    switch (kind) {
    case MMUL_ADD:
        EACH(a + b);
    case MMUL_SUBTRACT:
        EACH(a - b);
    case MMUL_MULTIPLY:
        EACH(a * b);
    case MMUL_DIVIDE:
        EACH(a / b);
    case MMUL_MAXIMUM:
        EACH(a >= b || a != a ? a : b);
    case MMUL_MINIMUM:
        EACH(a <= b || a != a ? a : b);
    case MMUL_EQUAL:
        EACH(a == b);
    case MMUL_NOT_EQUAL:
        EACH(a != b);
    case MMUL_LESS:
        EACH(a < b);
    case MMUL_LESS_EQUAL:
        EACH(a <= b);
    case MMUL_GREATER:
        EACH(a > b);
    case MMUL_GREATER_EQUAL:
        EACH(a >= b);
    case MMUL_NEGATE:
        EACH(-a);
    case MMUL_ABS:
        EACH(fabs(a));
    case MMUL_RELU:
        EACH(a < 0 ? 0 : a);
    case MMUL_SQRT:
        EACH(sqrt(a));
    case MMUL_RSQRT:
        EACH(1 / sqrt(a));
    case MMUL_EXP:
        EACH(exp(a));
    case MMUL_LOG:
        EACH(log(a));
    case MMUL_TANH:
        EACH(tanh(a));
    case MMUL_SIGMOID:
        EACH(1 / (1 + exp(-a)));
    case MMUL_SILU:
        EACH(a * (1 / (1 + exp(-a))));
    case MMUL_CAST:
    case MMUL_SLICE:
    case MMUL_RESHAPE:
    case MMUL_PERMUTE:
    case MMUL_CONCAT:
        return true;
    default:
        return false;
    }
}

static void choose(double *restrict x, const double *restrict y, const double *restrict z,
                   int64_t count) {
    for (int64_t j = 0; j < count; j++)
        x[j] = x[j] != 0 ? y[j] : z[j];
}

static bool make_elements(const struct mmul_map *map) {
    double runs[3][RUN] = {{0}};
    for (int64_t i = 0; i < map->rows; i++)
        for (int64_t j = 0; j < map->cols; j += RUN) {
            const int64_t count = mmul_smaller(RUN, map->cols - j);
            for (int k = 0; k < map->operand_count; k++)
                read_run(&map->operands[k], i, j, count, runs[k]);
            if (map->kind == MMUL_WHERE)
                choose(runs[0], runs[1], runs[2], count);
            else if (!combine(map->kind, runs[0], runs[1], count))
                return false;
            write_run(map, i, j, count, runs[0]);
        }
    return true;
}

// ----------------------------------------------------------------------------------------- columns

// As the reference's, in its order, many columns at once.
MMUL_CLONES static void add_row(enum mmul_operation_kind kind, double *restrict sum,
                                const double *restrict x, int64_t count) {
    if (kind == MMUL_SUM || kind == MMUL_MEAN)
        for (int64_t j = 0; j < count; j++)
            sum[j] += x[j];
    else if (kind == MMUL_MAX)
        for (int64_t j = 0; j < count; j++)
            sum[j] = sum[j] >= x[j] || sum[j] != sum[j] ? sum[j] : x[j];
    else
        for (int64_t j = 0; j < count; j++)
            sum[j] = sum[j] <= x[j] || sum[j] != sum[j] ? sum[j] : x[j];
}

static void reduce_down(const struct mmul_map *map) {
    const int64_t rows = map->operands[0].rows;
    double sum[RUN], x[RUN];
    for (int64_t j = 0; j < map->cols; j += RUN) {
        const int64_t count = mmul_smaller(RUN, map->cols - j);
        for (int64_t c = 0; c < count; c++)
            sum[c] = map->kind == MMUL_MAX ? -INFINITY : map->kind == MMUL_MIN ? INFINITY : 0;
        for (int64_t i = 0; i < rows; i++) {
            read_run(&map->operands[0], i, j, count, x);
            add_row(map->kind, sum, x, count);
        }
        for (int64_t c = 0; map->kind == MMUL_MEAN && c < count; c++)
            sum[c] /= (double)rows;
        write_run(map, 0, j, count, sum);
    }
}

// ----------------------------------------------------------------------------------------- threads

static enum mmul_status make(const struct mmul_map *map, struct mmul_error *err) {
    const enum mmul_operation_class class = mmul_operation_row(map->kind)->class;
    if (mmul_map_is_down(map)) {
        reduce_down(map);
        return MMUL_OK;
    }
    if ((class == MMUL_CLASS_ELEMENTS || class == MMUL_CLASS_COPY) && make_elements(map))
        return MMUL_OK;
    return mmul_reference_map(NULL, map, err);
}

struct job {
    const struct mmul_map *map;
    bool by_cols; // units are columns, of all rows
    _Atomic int status;
    struct mmul_error *err; // of one that failed
};

static void work(void *context, int part, int64_t t, int64_t begin, int64_t end) {
    struct job *job = context;
    const struct mmul_map one = mmul_map_matrix(job->map, t);
    const struct mmul_map some = job->by_cols ? part_of(&one, 0, one.rows, begin, end - begin)
                                              : part_of(&one, begin, end - begin, 0, one.cols);
    struct mmul_error err = {0};
    int none = MMUL_OK;
    (void)part;
    if (make(&some, &err) != MMUL_OK &&
        atomic_compare_exchange_strong(&job->status, &none, (int)err.status))
        *job->err = err;
}

enum mmul_status mmul_cpu_map_double(const struct mmul_map *map, struct mmul_error *err) {
    const enum mmul_operation_class class = mmul_operation_row(map->kind)->class;
    const bool may_by_cols =
        class == MMUL_CLASS_ELEMENTS || class == MMUL_CLASS_COPY || mmul_map_is_down(map);
    struct job job = {.map = map,
                      .by_cols = may_by_cols && map->matrices * map->rows < map->parallel.threads,
                      .err = err};
    const int64_t units = job.by_cols ? map->cols : map->rows;
    const double inner = class == MMUL_CLASS_REDUCE || class == MMUL_CLASS_ROWS
                             ? (double)map->operands[0].rows * (double)map->operands[0].cols
                         : class == MMUL_CLASS_ATTENTION
                             ? (double)map->rows * (double)map->operands[1].rows *
                                   ((double)map->operands[0].cols + (double)map->cols)
                             : 4 * (double)map->rows * (double)map->cols;
    mmul_cpu_share(map, mmul_cpu_parts(map, units, 2 * inner / (double)units), units, work, &job);
    return (enum mmul_status)job.status;
}
