// SPDX-License-Identifier: MIT
// Rows computed from rows of two operands or more: losses, and gradients of operations by rows.
// Strided rows are packed first. Sums are double.
#include <math.h>

#include "base/integer.h"
#include "base/memory.h"
#include "device/cpu_map.h"
#include "device/cpu_map_real.h"
#include "device/cpu_map_rows.h"

// Operands of an operation; a vector is packed and shared by all rows.
struct rows {
    const struct mmul_map *map;
    int64_t cols;            // columns of the first operand
    const mmul_real *vector; // NULL: there is none
    mmul_real *packed_vector;
    mmul_real *packed_rows; // by_row rows per part
};

// Input and output of a kernel for one row.
struct row {
    const mmul_real *x, *y, *z; // z: the third operand by rows
    const mmul_real *w;         // the vector
    int64_t cols;
    double epsilon;
    mmul_real *out;
};

// ------------------------------------------------------------------------------------------ losses

enum { BLOCK = 256 };

// Sums exp(x - shift) without storing the terms.
MMUL_TARGET_CLONES static double add_powers(const mmul_real *x, int64_t n, mmul_real shift) {
    double all = 0;
    for (int64_t j = 0; j < n; j += BLOCK) {
        const int64_t some = mmul_min(BLOCK, n - j);
        mmul_real powers[BLOCK], sum = 0;
        mmul_cpu_exponentiate(x + j, some, shift, powers);
#pragma omp simd reduction(+ : sum)
        for (int64_t l = 0; l < some; l++)
            sum += powers[l];
        all += (double)sum;
    }
    return all;
}

static void cross_entropy(const struct row *r) {
    const mmul_real most = mmul_cpu_largest(r->x, r->cols), at = r->x[(int64_t)*r->y];
    *r->out = (mmul_real)(log(add_powers(r->x, r->cols, most)) - ((double)at - (double)most));
}

MMUL_TARGET_CLONES static void scale(mmul_real *x, int64_t n, mmul_real factor) {
    for (int64_t j = 0; j < n; j++)
        x[j] *= factor;
}

// (softmax(x) - 1 at the index) times the gradient of the row's loss.
MMUL_TARGET_CLONES static void cross_entropy_backward(const struct row *r) {
    const mmul_real most = mmul_cpu_largest(r->x, r->cols);
    double all = 0;
    for (int64_t j = 0; j < r->cols; j += BLOCK) {
        const int64_t some = mmul_min(BLOCK, r->cols - j);
        mmul_real *out = r->out + j, sum = 0;
        mmul_cpu_exponentiate(r->x + j, some, most, out);
#pragma omp simd reduction(+ : sum)
        for (int64_t l = 0; l < some; l++)
            sum += out[l];
        all += (double)sum;
    }
    const int64_t at = (int64_t)*r->y;
    const double own = ((double)r->out[at] / all - 1) * (double)*r->z;
    scale(r->out, r->cols, (mmul_real)((double)*r->z / all));
    r->out[at] = (mmul_real)own;
}

// --------------------------------------------------------------------------------------- gradients

static void sort_backward(const struct row *r) {
    for (int64_t j = 0; j < r->cols; j++)
        r->out[j] = r->x[(int64_t)r->y[j]];
}

MMUL_TARGET_CLONES static void softmax_backward(const struct row *r) {
    const mmul_real *restrict y = r->x, *restrict dy = r->y;
    mmul_real *restrict out = r->out;
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < r->cols; j++)
        sum += (double)y[j] * (double)dy[j];
    const mmul_real along = (mmul_real)sum;
    for (int64_t j = 0; j < r->cols; j++)
        out[j] = y[j] * (dy[j] - along);
}

// Exact for equal elements of any size.
MMUL_TARGET_CLONES static double mean_of(const mmul_real *x, int64_t n) {
    const double first = (double)x[0];
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++)
        sum += (double)x[j] - first;
    return first + sum / (double)n;
}

MMUL_TARGET_CLONES static double add_squares(const mmul_real *x, int64_t n, double mean) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++)
        sum += ((double)x[j] - mean) * ((double)x[j] - mean);
    return sum;
}

// g = dy w, n = (x - mean) factor: sums of g and of g n, then factor (g - off - n part).
struct norm {
    double mean, factor, off, part;
};

MMUL_TARGET_CLONES static void add_gradient(const struct row *r, struct norm *norm) {
    const mmul_real *x = r->x, *dy = r->y, *w = r->w;
    double all = 0, along = 0;
    if (w == NULL)
#pragma omp simd reduction(+ : all, along)
        for (int64_t j = 0; j < r->cols; j++) {
            all += (double)dy[j];
            along += (double)dy[j] * (((double)x[j] - norm->mean) * norm->factor);
        }
    else
#pragma omp simd reduction(+ : all, along)
        for (int64_t j = 0; j < r->cols; j++) {
            const double g = (double)dy[j] * (double)w[j];
            all += g;
            along += g * (((double)x[j] - norm->mean) * norm->factor);
        }
    norm->off = all / (double)r->cols;
    norm->part = along / (double)r->cols;
}

MMUL_TARGET_CLONES static void write_gradient(const struct row *r, struct norm norm) {
    const mmul_real *restrict x = r->x, *restrict dy = r->y, *restrict w = r->w;
    mmul_real *restrict out = r->out;
    const double f = norm.factor, part = norm.part * f;
    if (w == NULL)
        for (int64_t j = 0; j < r->cols; j++)
            out[j] =
                (mmul_real)(f * (((double)dy[j] - norm.off) - ((double)x[j] - norm.mean) * part));
    else
        for (int64_t j = 0; j < r->cols; j++)
            out[j] = (mmul_real)(f * (((double)dy[j] * (double)w[j] - norm.off) -
                                      ((double)x[j] - norm.mean) * part));
}

static void norm_backward(const struct row *r, bool centers) {
    struct norm norm = {.mean = centers ? mean_of(r->x, r->cols) : 0};
    const double squares = add_squares(r->x, r->cols, norm.mean);
    norm.factor = 1 / sqrt(squares / (double)r->cols + r->epsilon);
    add_gradient(r, &norm);
    norm.off = centers ? norm.off : 0;
    write_gradient(r, norm);
}

// ------------------------------------------------------------------------------------------ rows

static void make_row(enum mmul_operation_kind kind, const struct row *r) {
    switch (kind) {
    case MMUL_CROSS_ENTROPY:
        cross_entropy(r);
        break;
    case MMUL_CROSS_ENTROPY_BACKWARD:
        cross_entropy_backward(r);
        break;
    case MMUL_SORT_BACKWARD:
        sort_backward(r);
        break;
    case MMUL_SOFTMAX_BACKWARD:
        softmax_backward(r);
        break;
    default: // MMUL_RMS_NORM_BACKWARD, MMUL_LAYER_NORM_BACKWARD
        norm_backward(r, kind == MMUL_LAYER_NORM_BACKWARD);
    }
}

// Returns row i of an operand: in place, or packed in `packed_rows` if strided.
static const mmul_real *locate_row(const struct rows *rows, int operand, int64_t t, int64_t i,
                                   mmul_real *packed_rows) {
    const struct mmul_strided x =
        mmul_cpu_strided_at(mmul_cpu_operand(rows->map, operand, t), i, 0);
    const int64_t cols = rows->map->operands[operand].cols;
    if (x.col_step == 1 || cols == 1)
        return x.at;
    mmul_cpu_pack(x, 1, cols, packed_rows, cols);
    return packed_rows;
}

static void make_rows(void *context, int part, int64_t t, int64_t begin, int64_t end) {
    const struct rows *rows = context;
    const struct mmul_map *map = rows->map;
    const int by_row = mmul_operation_row(map->kind)->by_row;
    mmul_real *out = mmul_cpu_result(map, t);
    for (int64_t i = begin; i < end; i++) {
        const mmul_real *of[MMUL_OPERANDS] = {NULL};
        for (int o = 0; o < by_row; o++)
            of[o] = locate_row(rows, o, t, i, rows->packed_rows + (part * by_row + o) * rows->cols);
        const struct row row = {.x = of[0],
                                .y = of[1],
                                .z = of[2],
                                .w = rows->vector,
                                .cols = rows->cols,
                                .epsilon = map->with->epsilon,
                                .out = out + i * map->result.ld};
        make_row(map->kind, &row);
    }
}

enum mmul_status mmul_cpu_map_rows_of_several(const struct mmul_map *map, struct mmul_error *err) {
    const struct mmul_operation_row *row = mmul_operation_row(map->kind);
    struct rows rows = {.map = map, .cols = map->operands[0].cols};
    const double cost = (double)rows.cols * (2 + row->flops_each / 8);
    const int parts = mmul_cpu_count_parts(map, map->rows, cost);
    const bool has_vector = map->operand_count > row->by_row;
    enum mmul_status status = MMUL_ALLOCATE_ALL(
        "rows", err, MMUL_ARRAY(rows.packed_rows, (int64_t)parts * row->by_row * rows.cols),
        MMUL_ARRAY(rows.packed_vector, rows.cols));
    if (status == MMUL_OK && has_vector) {
        mmul_cpu_pack(mmul_cpu_operand(map, row->by_row, 0), 1, rows.cols, rows.packed_vector,
                      rows.cols);
        rows.vector = rows.packed_vector;
    }
    if (status == MMUL_OK)
        mmul_cpu_run_parts(map, parts, map->rows, make_rows, &rows);
    mmul_free(rows.packed_rows);
    mmul_free(rows.packed_vector);
    return status;
}
