// SPDX-License-Identifier: MIT
// The copy loop of convert, split and join. Copies blocks of rows that cross no matrix on either
// side through one buffer, which bounds the memory regardless of the width of a row.
#include "io/matrix_copy.h"

#include "base/integer.h"
#include "base/memory.h"
#include "io/matrix_file.h"
#include "io/output_file.h"
#include "model/dtype.h"
#include "model/matrix.h"

enum { BUFFER_ELEMENTS = 1 << 20 };

static int64_t rows_left_in_matrix(int64_t row, int64_t rows) {
    return rows - row % rows;
}

static struct mmul_region row_block(int64_t stack_row, int64_t rows_each, int64_t rows, int64_t col,
                                    int64_t cols) {
    int64_t row = stack_row % rows_each;
    return (struct mmul_region){
        .matrix = stack_row / rows_each,
        .row_begin = row,
        .row_end = row + rows,
        .col_begin = col,
        .col_end = col + cols,
    };
}

// Moves elements as stored if the types are equal, as double from or to float64, else as float32.
static enum mmul_status copy_block(struct mmul_matrix *in, struct mmul_region from,
                                   struct mmul_output *out, struct mmul_region to, void *buffer,
                                   struct mmul_error *err) {
    const enum mmul_dtype wanted = mmul_output_dtype(out), stored = mmul_matrix_info(in).stored;
    const bool is_same = stored == wanted, as_double = wanted == MMUL_F64 || stored == MMUL_F64;
    int64_t count = mmul_region_count(from);
    for (int64_t begin = 0; begin < count; begin += BUFFER_ELEMENTS) {
        int64_t end = mmul_min(begin + BUFFER_ELEMENTS, count);
        enum mmul_status status =
            is_same     ? mmul_matrix_read_stored(in, from, begin, end, buffer, err)
            : as_double ? mmul_matrix_read_double(in, from, begin, end, buffer, err)
                        : mmul_matrix_read_float(in, from, begin, end, buffer, err);
        if (status != MMUL_OK)
            return status;
        status = is_same     ? mmul_output_write(out, to, begin, end, buffer, err)
                 : as_double ? mmul_output_write_double(out, to, begin, end, buffer, err)
                             : mmul_output_write_float(out, to, begin, end, buffer, err);
        if (status != MMUL_OK)
            return status;
    }
    return MMUL_OK;
}

enum mmul_status mmul_copy_rows(const struct mmul_copy *copy, struct mmul_error *err) {
    if (copy->rows == 0 || copy->cols == 0)
        return MMUL_OK;
    int64_t in_rows = mmul_matrix_info(copy->in).shape.rows, out_rows = copy->out->shape.rows;
    int64_t capacity = BUFFER_ELEMENTS;
    if (copy->rows < capacity / copy->cols)
        capacity = copy->rows * copy->cols;
    double *buffer = NULL; // room for any type
    enum mmul_status status = MMUL_ALLOCATE_RAW(buffer, capacity, "a copy buffer", err);
    for (int64_t done = 0; done < copy->rows && status == MMUL_OK;) {
        int64_t in_row = copy->in_row + done, out_row = copy->out_row + done;
        int64_t rows =
            mmul_min(rows_left_in_matrix(in_row, in_rows), rows_left_in_matrix(out_row, out_rows));
        rows = mmul_min(rows, copy->rows - done);
        status = copy_block(
            copy->in, row_block(in_row, in_rows, rows, copy->in_col, copy->cols), copy->out,
            row_block(out_row, out_rows, rows, copy->out_col, copy->cols), buffer, err);
        done += rows;
    }
    mmul_free(buffer);
    return status;
}

enum mmul_status mmul_copy_stack(struct mmul_matrix *in, struct mmul_output *out,
                                 struct mmul_error *err) {
    struct mmul_shape shape = mmul_matrix_info(in).shape;
    struct mmul_copy copy = {
        .in = in,
        .out = out,
        .rows = mmul_shape_matrices(shape) * shape.rows,
        .cols = shape.cols,
    };
    return mmul_copy_rows(&copy, err);
}
