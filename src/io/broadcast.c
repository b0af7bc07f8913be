// SPDX-License-Identifier: MIT
// Reads broadcast matrices: a repeated row is read once and copied, a repeated column is read
// element by element. A region is walked row by row. A matrix that already has the shape is read
// directly.
#include "io/broadcast.h"

#include <string.h>

#include "base/integer.h"
#include "io/matrix_file.h"
#include "model/matrix.h"

static enum mmul_status read_elements(const struct mmul_broadcast_matrix *source,
                                      struct mmul_region region, int64_t begin, int64_t end,
                                      void *dst, struct mmul_error *err) {
    return source->dtype == MMUL_F64
               ? mmul_matrix_read_double(source->matrix, region, begin, end, dst, err)
               : mmul_matrix_read_float(source->matrix, region, begin, end, dst, err);
}

// Reads columns [col, col + count) of a stored row.
static enum mmul_status read_repeated_row(struct mmul_broadcast_matrix *source,
                                          struct mmul_region row, int64_t count, char *dst,
                                          struct mmul_error *err) {
    const size_t each = mmul_dtype_bytes(source->dtype);
    bool is_column = source->matrix->info.shape.cols == 1;
    if (is_column)
        row.col_begin = 0;
    row.col_end = row.col_begin + (is_column ? 1 : count);
    source->elements_read += row.col_end - row.col_begin;
    enum mmul_status status = read_elements(source, row, 0, row.col_end - row.col_begin, dst, err);
    for (int64_t j = 1; status == MMUL_OK && is_column && j < count; j++)
        memcpy(dst + (size_t)j * each, dst, each);
    return status;
}

enum mmul_status mmul_broadcast_read(struct mmul_broadcast_matrix *source,
                                     struct mmul_region region, int64_t begin, int64_t end,
                                     void *dst, struct mmul_error *err) {
    struct mmul_shape stored = source->matrix->info.shape;
    int64_t width = region.col_end - region.col_begin;
    const size_t each = mmul_dtype_bytes(source->dtype);
    char *to = dst;
    const char *before = NULL; // a whole row of the region that repeats
    region.matrix = mmul_shape_stored_matrix(stored, source->shape, region.matrix);
    if (stored.rows == source->shape.rows && stored.cols == source->shape.cols) {
        source->elements_read += end - begin;
        return read_elements(source, region, begin, end, dst, err);
    }
    for (int64_t p = begin; p < end;) {
        int64_t col = p % width, count = mmul_min(width - col, end - p);
        int64_t row = stored.rows == 1 ? 0 : region.row_begin + p / width;
        enum mmul_status status = MMUL_OK;
        if (before != NULL)
            memcpy(to, before + (size_t)col * each, (size_t)count * each);
        else
            status = read_repeated_row(source,
                                       (struct mmul_region){.matrix = region.matrix,
                                                            .row_begin = row,
                                                            .row_end = row + 1,
                                                            .col_begin = region.col_begin + col},
                                       count, to, err);
        if (status != MMUL_OK)
            return status;
        if (stored.rows == 1 && count == width)
            before = to;
        to += (size_t)count * each;
        p += count;
    }
    return MMUL_OK;
}
