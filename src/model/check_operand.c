// SPDX-License-Identifier: MIT
// What the check reads: elements and rows of A, B, C and C_in of any type in either orientation. What
// reads whole matrices is check_sums.c.
#include "model/check_state.h"

#include "model/dtype.h"

const float *mmul_check_read(struct mmul_check_operand x, int64_t line, int64_t at, int64_t count,
                             float *buffer) {
    int64_t element = line * x.ld + at;
    if (x.dtype == MMUL_F32)
        return (const float *)x.data + element;
    size_t offset_bytes = (size_t)element * mmul_dtype_bytes(x.dtype);
    mmul_dtype_widen(x.dtype, (const char *)x.data + offset_bytes, count, buffer);
    return buffer;
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
    return (struct mmul_check_operand){product->c, MMUL_F32, product->ldc, product->transpose_c};
}

struct mmul_check_operand mmul_check_operand_c_in(const struct mmul_product *product) {
    return (struct mmul_check_operand){product->c_in, MMUL_F32, product->ldc_in,
                                       product->transpose_c};
}

float mmul_check_element(struct mmul_check_operand x, int64_t row, int64_t col) {
    float value;
    return *mmul_check_read(x, x.transposed ? col : row, x.transposed ? row : col, 1, &value);
}

// Row `index` of op(X), (rows, cols): where it lies, or in `lines` until another one is loaded. A
// stored line of a transposed matrix holds neighbours of several rows, so these come together.
static const float *load_row(struct mmul_check_lines *lines, struct mmul_check_operand x,
                             int64_t rows, int64_t cols, int64_t index) {
    if (!x.transposed)
        return mmul_check_read(x, index, 0, cols, lines->data);
    if (index < lines->begin || index >= lines->end) {
        lines->begin = index - index % MMUL_CHECK_LINES;
        int64_t left = rows - lines->begin;
        int64_t count = left < MMUL_CHECK_LINES ? left : MMUL_CHECK_LINES;
        for (int64_t line = 0; line < cols; line++) {
            float buffer[MMUL_CHECK_LINES];
            const float *run = mmul_check_read(x, line, lines->begin, count, buffer);
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
