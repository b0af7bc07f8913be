// SPDX-License-Identifier: MIT
// What the check reads: elements and rows of A, B, C and C_in of any type in either orientation. What
// reads whole matrices is check_sums.c.
#include "model/check_state.h"

#include <string.h>

#include "model/dtype.h"

const void *mmul_check_read(struct mmul_check_operand x, int64_t line, int64_t at, int64_t count,
                            float *buffer) {
    const size_t each = mmul_dtype_bytes(x.dtype);
    const char *begin = (const char *)x.data + (size_t)(line * x.ld + at) * each;
    if (each >= sizeof(float))
        return begin;
    mmul_dtype_widen(x.dtype, begin, count, buffer);
    return buffer;
}

// The same in double.
static void read_doubles(struct mmul_check_operand x, int64_t line, int64_t at, int64_t count,
                         double *to) {
    enum { RUN = 256 };
    float buffer[RUN];
    if (x.dtype == MMUL_F64) {
        memcpy(to, mmul_check_read(x, line, at, count, NULL), (size_t)count * sizeof *to);
        return;
    }
    for (int64_t done = 0; done < count; done += RUN) {
        const int64_t here = count - done < RUN ? count - done : RUN;
        const float *run = mmul_check_read(x, line, at + done, here, buffer);
        for (int64_t e = 0; e < here; e++)
            to[done + e] = (double)run[e];
    }
}

struct mmul_check_operand mmul_check_operand_a(const struct mmul_product *product) {
    return (struct mmul_check_operand){product->a, product->a_dtype, product->lda,
                                       product->transpose_a};
}

struct mmul_check_operand mmul_check_operand_b(const struct mmul_product *product) {
    return (struct mmul_check_operand){product->b, product->b_dtype, product->ldb,
                                       product->transpose_b};
}

struct mmul_check_operand mmul_check_operand_c(const struct mmul_product *product) {
    return (struct mmul_check_operand){product->c, mmul_product_dtype(product), product->ldc,
                                       product->transpose_c};
}

struct mmul_check_operand mmul_check_operand_c_in(const struct mmul_product *product) {
    return (struct mmul_check_operand){product->c_in, mmul_product_dtype(product), product->ldc_in,
                                       product->transpose_c};
}

double mmul_check_element(struct mmul_check_operand x, int64_t row, int64_t col) {
    double value;
    read_doubles(x, x.transposed ? col : row, x.transposed ? row : col, 1, &value);
    return value;
}

// Row `index` of op(X), (rows, cols), in `lines` until another one is loaded. A stored line of a
// transposed matrix holds neighbours of several rows, so these come together.
static const double *load_row(struct mmul_check_lines *lines, struct mmul_check_operand x,
                              int64_t rows, int64_t cols, int64_t index) {
    if (!x.transposed) {
        read_doubles(x, index, 0, cols, lines->data);
        return lines->data;
    }
    if (index < lines->begin || index >= lines->end) {
        lines->begin = index - index % MMUL_CHECK_LINES;
        int64_t left = rows - lines->begin;
        int64_t count = left < MMUL_CHECK_LINES ? left : MMUL_CHECK_LINES;
        for (int64_t line = 0; line < cols; line++) {
            double run[MMUL_CHECK_LINES];
            read_doubles(x, line, lines->begin, count, run);
            for (int64_t l = 0; l < count; l++)
                lines->data[l * lines->stride + line] = run[l];
        }
        lines->end = lines->begin + count;
    }
    return lines->data + (index - lines->begin) * lines->stride;
}

void mmul_check_gather_row(struct mmul_check *check, const struct mmul_product *product,
                           int64_t index) {
    const double *row =
        load_row(&check->a_lines, mmul_check_operand_a(product), product->m, product->k, index);
    memcpy(check->row, row, (size_t)check->k * sizeof *row);
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
