// SPDX-License-Identifier: MIT
// The passes of the check over A, B and C: matrix times vector and row norms, of matrices of any
// type in either orientation. They are bound by memory. 16-bit elements are widened run by run into
// a buffer that stays in the first cache, and every run is read by one short loop per result, so
// each loop is plain enough for the compiler to make vector code of it. No threads, no BLAS: the
// check must not share its errors with what it checks.
#include "model/check_state.h"

#include <math.h>
#include <string.h>

#include "model/dtype.h"

enum {
    RUN = 1024,  // elements read at once: 4 KiB of float32, 8 KiB of double sums
    LANES = 16,  // independent partial sums, so that additions need not wait for each other
    ABREAST = 4, // stored lines that are added together
};

struct mmul_check_operand mmul_check_operand_a(const struct mmul_product *product) {
    return (struct mmul_check_operand){product->a, product->a_dtype, product->lda,
                                       product->transpose_a};
}

struct mmul_check_operand mmul_check_operand_b(const struct mmul_product *product) {
    return (struct mmul_check_operand){product->b, product->b_dtype, product->ldb,
                                       product->transpose_b};
}

// `count` stored elements from place (line, at), in place when they are float32.
static const float *read_run(struct mmul_check_operand x, int64_t line, int64_t at, int64_t count,
                             float *buffer) {
    int64_t element = line * x.ld + at;
    if (x.dtype == MMUL_F32)
        return (const float *)x.data + element;
    size_t offset_bytes = (size_t)element * mmul_dtype_bytes(x.dtype);
    mmul_dtype_widen(x.dtype, (const char *)x.data + offset_bytes, count, buffer);
    return buffer;
}

struct mmul_check_operand mmul_check_operand_c(const struct mmul_product *product) {
    return (struct mmul_check_operand){product->c, MMUL_F32, product->ldc, product->transpose_c};
}

struct mmul_check_operand mmul_check_operand_c_in(const struct mmul_product *product) {
    return (struct mmul_check_operand){product->c_in, MMUL_F32, product->ldc_in,
                                       product->transpose_c};
}

float mmul_check_element(struct mmul_check_operand x, int64_t row, int64_t col) {
    float value;
    return *read_run(x, x.transposed ? col : row, x.transposed ? row : col, 1, &value);
}

static double add_lanes(const double *lanes) {
    double sum = 0;
    for (int l = 0; l < LANES; l++)
        sum += lanes[l];
    return sum;
}

static double dot(const float *run, const double *v, int64_t count) {
    double lanes[LANES] = {0};
    int64_t e = 0;
    for (; e + LANES <= count; e += LANES)
        for (int l = 0; l < LANES; l++)
            lanes[l] += (double)run[e + l] * v[e + l];
    for (; e < count; e++)
        lanes[e % LANES] += (double)run[e] * v[e];
    return add_lanes(lanes);
}

static double dot_nonzero(const float *run, const double *v, int64_t count) {
    double sum = 0;
    for (int64_t e = 0; e < count; e++)
        if (v[e] != 0)
            sum += (double)run[e] * v[e];
    return sum;
}

static void dot_squares(const float *run, const double *v, int64_t count, double *sum,
                        double *squares) {
    double lanes[LANES] = {0}, square_lanes[LANES] = {0};
    int64_t e = 0;
    for (; e + LANES <= count; e += LANES) {
        for (int l = 0; l < LANES; l++) {
            double term = (double)run[e + l] * v[e + l];
            lanes[l] += term;
            square_lanes[l] += term * term;
        }
    }
    for (; e < count; e++) {
        double term = (double)run[e] * v[e];
        lanes[e % LANES] += term;
        square_lanes[e % LANES] += term * term;
    }
    *sum += add_lanes(lanes);
    *squares += add_lanes(square_lanes);
}

static double sum_squares(const float *run, int64_t count) {
    double lanes[LANES] = {0};
    int64_t e = 0;
    for (; e + LANES <= count; e += LANES)
        for (int l = 0; l < LANES; l++)
            lanes[l] += (double)run[e + l] * (double)run[e + l];
    for (; e < count; e++)
        lanes[e % LANES] += (double)run[e] * (double)run[e];
    return add_lanes(lanes);
}

// Stored lines that are taken together, so that sums are loaded and stored less often.
struct lines {
    const float *run[ABREAST];
    double v[ABREAST];
};

// sums_e += sum_l run_le v_l.
static void add_multiples(struct lines lines, int64_t count, double *restrict sums) {
    const float *r0 = lines.run[0], *r1 = lines.run[1], *r2 = lines.run[2], *r3 = lines.run[3];
    double v0 = lines.v[0], v1 = lines.v[1], v2 = lines.v[2], v3 = lines.v[3];
    for (int64_t e = 0; e < count; e++) {
        sums[e] +=
            v0 * (double)r0[e] + v1 * (double)r1[e] + v2 * (double)r2[e] + v3 * (double)r3[e];
    }
}

// squares_e += sum_l (run_le v_l)^2.
static void add_squares(struct lines lines, int64_t count, double *restrict squares) {
    const float *r0 = lines.run[0], *r1 = lines.run[1], *r2 = lines.run[2], *r3 = lines.run[3];
    double v0 = lines.v[0], v1 = lines.v[1], v2 = lines.v[2], v3 = lines.v[3];
    for (int64_t e = 0; e < count; e++) {
        double t0 = v0 * (double)r0[e], t1 = v1 * (double)r1[e];
        double t2 = v2 * (double)r2[e], t3 = v3 * (double)r3[e];
        squares[e] += t0 * t0 + t1 * t1 + t2 * t2 + t3 * t3;
    }
}

// Almost always no number is NaN or Inf, so the fast loop goes first and its result tells.
static double dot_any(const float *run, const double *v, int64_t count) {
    double sum = dot(run, v, count);
    return isfinite(sum) ? sum : dot_nonzero(run, v, count);
}

// What is wanted of each row; sums or squares may be NULL when not weighted.
struct wanted {
    const double *v;
    double *sums, *squares;
    bool weighted; // squares are those of the terms of the sum
};

// A stored line is a row: each gives one sum.
static void project_lines(struct mmul_check_operand x, int64_t line_begin, int64_t line_end,
                          int64_t length, struct wanted wanted) {
    float buffer[RUN];
    for (int64_t line = line_begin; line < line_end; line++) {
        double sum = 0, square = 0;
        for (int64_t at = 0; at < length; at += RUN) {
            int64_t count = length - at < RUN ? length - at : RUN;
            const float *run = read_run(x, line, at, count, buffer);
            if (wanted.weighted) {
                dot_squares(run, wanted.v + at, count, &sum, &square);
                continue;
            }
            if (wanted.sums != NULL)
                sum += dot_any(run, wanted.v + at, count);
            if (wanted.squares != NULL)
                square += sum_squares(run, count);
        }
        if (wanted.sums != NULL)
            wanted.sums[line - line_begin] = sum;
        if (wanted.squares != NULL)
            wanted.squares[line - line_begin] = square;
    }
}

// The sums of rows [at, at + count) of a transposed matrix.
struct stretch {
    int64_t at, count;
    double sums[RUN], squares[RUN];
};

// Takes stored lines [line, line + ABREAST), as far as they are below `lines`, on to the sums.
static void add_lines(struct mmul_check_operand x, int64_t line, int64_t lines,
                      struct wanted wanted, struct stretch *to) {
    static const float zeros[RUN];
    float buffers[ABREAST][RUN];
    struct lines summed, squared;
    for (int l = 0; l < ABREAST; l++) {
        bool there = line + l < lines;
        double v = there && wanted.v != NULL ? wanted.v[line + l] : 0;
        const float *run = there ? read_run(x, line + l, to->at, to->count, buffers[l]) : zeros;
        summed.run[l] = v != 0 ? run : zeros;
        squared.run[l] = run;
        summed.v[l] = v;
        squared.v[l] = wanted.weighted ? v : 1;
    }
    if (wanted.sums != NULL)
        add_multiples(summed, to->count, to->sums);
    if (wanted.squares != NULL)
        add_squares(squared, to->count, to->squares);
}

// A stored line is a column: each adds to all sums, which are taken RUN at a time.
static void project_across(struct mmul_check_operand x, int64_t begin, int64_t end, int64_t lines,
                           struct wanted wanted) {
    for (int64_t at = begin; at < end; at += RUN) {
        struct stretch stretch = {.at = at, .count = end - at < RUN ? end - at : RUN};
        size_t bytes = (size_t)stretch.count * sizeof(double);
        for (int64_t line = 0; line < lines; line += ABREAST)
            add_lines(x, line, lines, wanted, &stretch);
        if (wanted.sums != NULL)
            memcpy(wanted.sums + (at - begin), stretch.sums, bytes);
        if (wanted.squares != NULL)
            memcpy(wanted.squares + (at - begin), stretch.squares, bytes);
    }
}

static void project(struct mmul_check_operand x, int64_t row_begin, int64_t row_end, int64_t cols,
                    struct wanted wanted) {
    if (x.transposed)
        project_across(x, row_begin, row_end, cols, wanted);
    else
        project_lines(x, row_begin, row_end, cols, wanted);
}

void mmul_check_project(struct mmul_check_operand x, int64_t row_begin, int64_t row_end,
                        int64_t cols, const double *v, double *sums, double *squares) {
    project(x, row_begin, row_end, cols, (struct wanted){v, sums, squares, false});
}

void mmul_check_project_weighted(struct mmul_check_operand x, int64_t row_begin, int64_t row_end,
                                 int64_t cols, const double *v, double *sums, double *squares) {
    project(x, row_begin, row_end, cols, (struct wanted){v, sums, squares, true});
}

// Row `index` of op(X), (rows, cols): where it lies, or in `lines` until another one is loaded. A
// stored line of a transposed matrix holds neighbours of several rows, so these come together.
static const float *load_row(struct mmul_check_lines *lines, struct mmul_check_operand x,
                             int64_t rows, int64_t cols, int64_t index) {
    if (!x.transposed)
        return read_run(x, index, 0, cols, lines->data);
    if (index < lines->begin || index >= lines->end) {
        lines->begin = index - index % MMUL_CHECK_LINES;
        int64_t left = rows - lines->begin;
        int64_t count = left < MMUL_CHECK_LINES ? left : MMUL_CHECK_LINES;
        for (int64_t line = 0; line < cols; line++) {
            float buffer[MMUL_CHECK_LINES];
            const float *run = read_run(x, line, lines->begin, count, buffer);
            for (int64_t l = 0; l < count; l++)
                lines->data[l * lines->stride + line] = run[l];
        }
        lines->end = lines->begin + count;
    }
    return lines->data + (index - lines->begin) * lines->stride;
}

void mmul_check_gather_row(struct mmul_check *check, const struct mmul_product *product,
                           int64_t index) {
    const float *row =
        load_row(&check->a_lines, mmul_check_operand_a(product), product->m, product->k, index);
    for (int64_t p = 0; p < check->k; p++)
        check->row[p] = row[p];
}

void mmul_check_load_row(struct mmul_check *check, const struct mmul_product *product,
                         struct mmul_check_row *row) {
    row->c = load_row(&check->c_lines, mmul_check_operand_c(product), product->m, product->n,
                      row->index);
    row->c_in = NULL;
    if (product->beta != 0)
        row->c_in = load_row(&check->c_in_lines, mmul_check_operand_c_in(product), product->m,
                             product->n, row->index);
}
