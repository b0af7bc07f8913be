// SPDX-License-Identifier: MIT
// The passes of the check over A, B and C: matrix times vector and row norms, of matrices of any
// type in either orientation. They are bound by memory. 16-bit elements are widened run by run into
// a buffer that stays in the first cache, and every run is read by one short loop per result, so
// each loop is plain enough for the compiler to make vector code of it. No threads, no BLAS: the
// check must not share its errors with what it checks.
#include "model/check_state.h"

#include <math.h>

#include "model/dtype.h"

enum {
    RUN = 1024, // elements read at once: 4 KiB of float32, 8 KiB of double sums
    LANES = 16, // independent partial sums, so that additions need not wait for each other
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

float mmul_check_element(struct mmul_check_operand x, int64_t row, int64_t col) {
    float value;
    return *read_run(x, x.transposed ? col : row, x.transposed ? row : col, 1, &value);
}

static double add_lanes(const double *lanes) {
    double sum = 0;
    for (int l = 0; l < LANES; l++) {
        sum += lanes[l];
    }
    return sum;
}

static double dot(const float *run, const double *v, int64_t count) {
    double lanes[LANES] = {0};
    int64_t e = 0;
    for (; e + LANES <= count; e += LANES) {
        for (int l = 0; l < LANES; l++) {
            lanes[l] += (double)run[e + l] * v[e + l];
        }
    }
    for (; e < count; e++) {
        lanes[e % LANES] += (double)run[e] * v[e];
    }
    return add_lanes(lanes);
}

static double dot_nonzero(const float *run, const double *v, int64_t count) {
    double sum = 0;
    for (int64_t e = 0; e < count; e++) {
        if (v[e] != 0)
            sum += (double)run[e] * v[e];
    }
    return sum;
}

void mmul_check_dot_squares(const float *run, const double *v, int64_t count, double *sum,
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
    *sum = add_lanes(lanes);
    *squares = add_lanes(square_lanes);
}

static double sum_squares(const float *run, int64_t count) {
    double lanes[LANES] = {0};
    int64_t e = 0;
    for (; e + LANES <= count; e += LANES) {
        for (int l = 0; l < LANES; l++) {
            lanes[l] += (double)run[e + l] * (double)run[e + l];
        }
    }
    for (; e < count; e++) {
        lanes[e % LANES] += (double)run[e] * (double)run[e];
    }
    return add_lanes(lanes);
}

static void add_multiple(const float *run, double factor, int64_t count, double *restrict sums) {
    for (int64_t e = 0; e < count; e++) {
        sums[e] += factor * (double)run[e];
    }
}

static void add_squares(const float *run, int64_t count, double *restrict squares) {
    for (int64_t e = 0; e < count; e++) {
        squares[e] += (double)run[e] * (double)run[e];
    }
}

// Almost always no number is NaN or Inf, so the fast loop goes first and its result tells.
double mmul_check_dot(const float *run, const double *v, int64_t count) {
    double sum = dot(run, v, count);
    return isfinite(sum) ? sum : dot_nonzero(run, v, count);
}

// A stored line is a row: each gives one sum.
static void project_lines(struct mmul_check_operand x, int64_t line_begin, int64_t line_end,
                          int64_t length, const double *v, double *sums, double *squares) {
    float buffer[RUN];
    for (int64_t line = line_begin; line < line_end; line++) {
        double sum = 0, square = 0;
        for (int64_t at = 0; at < length; at += RUN) {
            int64_t count = length - at < RUN ? length - at : RUN;
            const float *run = read_run(x, line, at, count, buffer);
            if (sums != NULL)
                sum += mmul_check_dot(run, v + at, count);
            if (squares != NULL)
                square += sum_squares(run, count);
        }
        if (sums != NULL)
            sums[line - line_begin] = sum;
        if (squares != NULL)
            squares[line - line_begin] = square;
    }
}

// A stored line is a column: each adds to all sums, which are taken RUN at a time.
static void project_across(struct mmul_check_operand x, int64_t begin, int64_t end, int64_t lines,
                           const double *v, double *sums, double *squares) {
    float buffer[RUN];
    for (int64_t at = begin; at < end; at += RUN) {
        int64_t count = end - at < RUN ? end - at : RUN;
        double run_sums[RUN] = {0}, run_squares[RUN] = {0};
        for (int64_t line = 0; line < lines; line++) {
            const float *run = read_run(x, line, at, count, buffer);
            if (sums != NULL && v[line] != 0)
                add_multiple(run, v[line], count, run_sums);
            if (squares != NULL)
                add_squares(run, count, run_squares);
        }
        for (int64_t e = 0; e < count; e++) {
            if (sums != NULL)
                sums[at - begin + e] = run_sums[e];
            if (squares != NULL)
                squares[at - begin + e] = run_squares[e];
        }
    }
}

void mmul_check_project(struct mmul_check_operand x, int64_t row_begin, int64_t row_end,
                        int64_t cols, const double *v, double *sums, double *squares) {
    if (x.transposed) {
        project_across(x, row_begin, row_end, cols, v, sums, squares);
    } else {
        project_lines(x, row_begin, row_end, cols, v, sums, squares);
    }
}

void mmul_check_gather_row(struct mmul_check *check, const struct mmul_product *product,
                           int64_t index) {
    struct mmul_check_operand a = mmul_check_operand_a(product);
    for (int64_t p = 0; p < check->k; p++) {
        check->row[p] = mmul_check_element(a, index, p);
    }
}
