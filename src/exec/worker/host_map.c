// SPDX-License-Identifier: MIT
// Operations on blocks in host memory, cut and put together: some rows and columns, a matrix of a stack, a stack as
// one matrix. Computes nothing.
#include "base/integer.h"
#include "exec/worker/worker_map.h"
#include "model/dtype.h"

// ------------------------------------------------------------------------------------------- parts

static enum mmul_operation_class class_of(const struct mmul_host_map *host) {
    return mmul_operation_row(host->map.kind)->class;
}

struct mmul_host_map mmul_host_map_part(const struct mmul_host_map *host, int64_t row, int64_t rows,
                                        int64_t col, int64_t cols) {
    struct mmul_host_map part = *host;
    part.map.rows = rows;
    part.map.cols = cols;
    part.map.row += row;
    part.map.col += col;
    part.result = mmul_dtype_ahead(host->dtype, part.result, row * host->ld + col);
    for (int i = 0; i < part.map.operand_count; i++) {
        struct mmul_host_operand *o = &part.operands[i];
        const struct mmul_map_part of =
            mmul_map_operand_part(&host->map, i, (struct mmul_map_part){row, rows, col, cols});
        if (o->at != NULL)
            o->at = mmul_dtype_ahead(o->dtype, o->at, of.row * o->row_step + of.col * o->col_step);
        o->rows = of.rows < 0 ? o->rows : of.rows;
        o->cols = of.cols < 0 ? o->cols : of.cols;
    }
    return part;
}

struct mmul_host_map mmul_host_map_matrix(const struct mmul_host_map *host, int64_t t) {
    struct mmul_host_map one = *host;
    for (int i = 0; i < one.map.operand_count; i++) {
        struct mmul_host_operand *o = &one.operands[i];
        if (o->at != NULL)
            o->at = mmul_dtype_ahead(o->dtype, o->at, mmul_stack_offset(&host->map, o->stack, t));
    }
    one.result = mmul_dtype_ahead(host->dtype, one.result, t * host->map.result_step);
    one.map.matrix += t;
    one.map.matrices = 1;
    return one;
}

// Of a matrix.
static double work_each(const struct mmul_host_map *host) {
    const struct mmul_host_operand *o = host->operands;
    const double rows = (double)host->map.rows, cols = (double)host->map.cols;
    switch (class_of(host)) {
    case MMUL_CLASS_ATTENTION:
        return rows * (double)o[1].rows * ((double)o[0].cols + cols);
    case MMUL_CLASS_REDUCE:
        return (double)o[0].rows * (double)o[0].cols;
    case MMUL_CLASS_ROWS:
        return rows * (double)o[0].cols *
               (host->map.kind == MMUL_TOPK ? (double)host->map.with->count : 2);
    default:
        return rows * cols * (1 + host->map.operand_count);
    }
}

double mmul_host_map_work(const struct mmul_host_map *host) {
    return work_each(host) * (double)host->map.matrices;
}

// ------------------------------------------------------------------------------------------- stacks

// Does row i of every matrix depend on rows i alone, and not on i?
static bool is_by_rows(const struct mmul_host_map *host) {
    const struct mmul_map *map = &host->map;
    switch (class_of(host)) {
    case MMUL_CLASS_ROWS:
        return map->kind != MMUL_ROPE && (map->kind != MMUL_SOFTMAX || !map->with->causal);
    case MMUL_CLASS_REDUCE:
        return !mmul_map_is_down(&host->map);
    case MMUL_CLASS_ATTENTION:
        return false;
    default:
        return true;
    }
}

// Each matrix of an operand `each` behind the one before it?
static bool follows(const struct mmul_host_map *host, int i, int64_t each) {
    for (int64_t t = 1; t < host->map.matrices; t++)
        if (mmul_stack_offset(&host->map, host->operands[i].stack, t) != t * each)
            return false;
    return true;
}

// Makes the rows of all its matrices those of one; false: they do not lie so. A lookup has its indices in a row.
static bool flatten_operand(const struct mmul_host_map *host, int i, struct mmul_host_operand *o) {
    const enum mmul_operation_class class = class_of(host);
    const int64_t matrices = host->map.matrices;
    if (o->at == NULL)
        o->rows *= matrices;
    if (o->at == NULL || (class == MMUL_CLASS_ROWS && i > 0) ||
        (class == MMUL_CLASS_LOOKUP && i == 0))
        return o->at == NULL || follows(host, i, 0);
    int64_t *step = class == MMUL_CLASS_LOOKUP ? &o->col_step : &o->row_step;
    int64_t *count = class == MMUL_CLASS_LOOKUP ? &o->cols : &o->rows;
    if (*count == 1)
        *step = mmul_stack_offset(&host->map, o->stack, 1);
    const bool is_flat = *step >= 0 && follows(host, i, *count * *step);
    *count *= matrices;
    o->stack = (struct mmul_stack){0, 0, 1};
    return is_flat;
}

struct mmul_host_map mmul_host_map_flatten(const struct mmul_host_map *host) {
    struct mmul_host_map flat = *host;
    struct mmul_map *map = &flat.map;
    const int64_t matrices = map->matrices;
    if (matrices == 1 || !is_by_rows(host))
        return *host;
    if (map->rows == 1)
        flat.ld = map->result_step;
    if (map->result_step != map->rows * flat.ld)
        return *host;
    for (int i = 0; i < map->operand_count; i++)
        if (!flatten_operand(host, i, &flat.operands[i]))
            return *host;
    map->rows *= matrices;
    map->shape = (struct mmul_shape){1, 1, map->rows, map->shape.cols};
    map->row = map->matrix = 0;
    map->matrices = 1;
    return flat;
}
