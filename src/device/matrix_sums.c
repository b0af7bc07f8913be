// SPDX-License-Identifier: MIT
// Sums of rows and columns on the host: used by devices in host memory, and the specification for
// devices with an implementation of their own. Rounds as double does and adds the elements in their
// order.
#include "device/matrix_sums.h"

#include <string.h>

uint32_t mmul_matrix_sums_bits(const float *x, int64_t count, int64_t index) {
    const uint32_t first = (uint32_t)index;
    uint32_t sum = 0;
    for (int64_t e = 0; e < count; e++) {
        uint32_t bits;
        memcpy(&bits, &x[e], sizeof bits);
        sum += mmul_mix_bits(bits, first + (uint32_t)e);
    }
    return sum;
}

static void clear_sums(double *sums, int64_t count) {
    if (sums != NULL)
        memset(sums, 0, (size_t)count * sizeof *sums);
}

// Processes row `row` of the matrix. Adds to the sums of columns.
static void add_row(const struct mmul_matrix_sums *args, int64_t row, const float *x) {
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < args->cols; c++) {
        const double value = x[c];
        if (args->row_sums != NULL)
            sum += value * args->along[c];
        squares += value * value;
        if (args->col_sums != NULL)
            args->col_sums[c] += value * args->across[row];
        if (args->col_squares != NULL)
            args->col_squares[c] += value * value;
    }
    if (args->row_sums != NULL)
        args->row_sums[row] = sum;
    if (args->row_squares != NULL)
        args->row_squares[row] = squares;
    if (args->bits != NULL)
        *args->bits += mmul_matrix_sums_bits(x, args->cols, row * args->cols);
}

void mmul_matrix_sums_clear(const struct mmul_matrix_sums *args) {
    clear_sums(args->row_sums, args->rows);
    clear_sums(args->row_squares, args->rows);
    clear_sums(args->col_sums, args->cols);
    clear_sums(args->col_squares, args->cols);
    if (args->bits != NULL)
        *args->bits = 0;
}

void mmul_matrix_sums_add_rows(const struct mmul_matrix_sums *args, int64_t row, int64_t rows,
                               const float *x, int64_t ld) {
    for (int64_t r = 0; r < rows; r++)
        add_row(args, row + r, x + r * ld);
}

void mmul_matrix_sums_compute(const struct mmul_matrix_sums *args, const float *x, int64_t ld) {
    mmul_matrix_sums_clear(args);
    mmul_matrix_sums_add_rows(args, 0, args->rows, x, ld);
}
