// SPDX-License-Identifier: MIT
// Reads regions of open matrices. C order: contiguous runs are read straight into the target. A
// small buffer on the stack is used only for conversion (byte order, float64, widening). Fortran
// order: the whole file is in memory already. It is transposed tile by tile, so that source columns
// and target rows both stay in cache.
#include <assert.h>
#include <string.h>
#include <sys/stat.h>

#include "base/integer.h"
#include "base/status.h"
#include "io/matrix_file.h"
#include "io/region_runs.h"
#include "io/transfer.h"
#include "model/dtype.h"
#include "model/matrix.h"

// Destination of elements, and their type there.
struct target {
    enum mmul_dtype dtype;
    void *at;
};

enum { BUFFER_BYTES = 32 << 10, TILE_ROWS = 32, TILE_COLS = 64 };

// ----------------------------------------------------------------------------------------- C order

static void swap2(unsigned char *bytes, int64_t count) {
    for (int64_t e = 0; e < count; e++) {
        uint16_t value;
        memcpy(&value, bytes + 2 * e, sizeof value);
        value = __builtin_bswap16(value);
        memcpy(bytes + 2 * e, &value, sizeof value);
    }
}

static void swap4(unsigned char *bytes, int64_t count) {
    for (int64_t e = 0; e < count; e++) {
        uint32_t value;
        memcpy(&value, bytes + 4 * e, sizeof value);
        value = __builtin_bswap32(value);
        memcpy(bytes + 4 * e, &value, sizeof value);
    }
}

static void swap8(unsigned char *bytes, int64_t count) {
    for (int64_t e = 0; e < count; e++) {
        uint64_t value;
        memcpy(&value, bytes + 8 * e, sizeof value);
        value = __builtin_bswap64(value);
        memcpy(bytes + 8 * e, &value, sizeof value);
    }
}

static void swap_bytes(enum mmul_dtype dtype, void *elements, int64_t count) {
    switch (mmul_dtype_bytes(dtype)) {
    case 1:
        break;
    case 2:
        swap2(elements, count);
        break;
    case 4:
        swap4(elements, count);
        break;
    default:
        swap8(elements, count);
        break;
    }
}

enum mmul_status mmul_matrix_fail_truncated(const char *name, int64_t end, int64_t expected,
                                            struct mmul_error *err) {
    return mmul_fail(err, MMUL_ERR_DATA,
                     "'%s' has become shorter than its header says: it ends at byte %lld, expected "
                     "%lld",
                     name, (long long)end, (long long)expected);
}

// Reports that the file ends at byte `end`, or earlier if it is now shorter still.
static enum mmul_status fail_truncated_at(const struct mmul_matrix *matrix, int64_t end,
                                          struct mmul_error *err) {
    struct stat now;
    int64_t bytes;
    enum mmul_status status =
        mmul_shape_bytes(mmul_matrix_stored_shape(matrix), matrix->info.stored, &bytes, err);
    if (status != MMUL_OK)
        return status;
    if (fstat(matrix->fd, &now) == 0)
        end = mmul_min(end, (int64_t)now.st_size);
    return mmul_matrix_fail_truncated(matrix->name, end, matrix->data_offset + bytes, err);
}

// Reads elements as stored, in the byte order of this machine.
static enum mmul_status read_stored_run(const struct mmul_matrix *matrix, int64_t first,
                                        int64_t count, void *dst, struct mmul_error *err) {
    size_t bytes_each = mmul_dtype_bytes(matrix->info.stored);
    size_t bytes = (size_t)count * bytes_each, got = 0;
    int64_t offset = first * (int64_t)bytes_each;
    if (matrix->memory != NULL) {
        memcpy(dst, (const char *)matrix->memory + offset, bytes);
        return MMUL_OK;
    }
    offset += matrix->data_offset;
    int errnum = mmul_pread_all(matrix->fd, dst, bytes, offset, &got);
    if (errnum != 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errnum, "cannot read '%s'", matrix->name);
    if (got < bytes)
        return fail_truncated_at(matrix, offset + (int64_t)got, err);
    if (matrix->info.big_endian)
        swap_bytes(matrix->info.stored, dst, count);
    return MMUL_OK;
}

// Refuses whole numbers that `target` cannot represent, and reports the position of the first.
// `elements` are `first` and following of the stack in C order.
static enum mmul_status check_integers(const struct mmul_matrix *matrix, const void *elements,
                                       int64_t first, int64_t count, enum mmul_dtype target,
                                       struct mmul_error *err) {
    const struct mmul_shape s = mmul_matrix_stored_shape(matrix);
    // The type represents each whole number up to this one exactly.
    const int64_t limit = target == MMUL_F64 ? INT64_C(1) << 53 : 1 << 24;
    for (int64_t e = 0; e < count; e++) {
        int64_t value = mmul_dtype_get_integer(matrix->info.stored, elements, e), at = first + e;
        if (value <= limit && value >= -limit)
            continue;
        int64_t row = at / s.cols, plane = row / s.rows;
        return mmul_fail(err, MMUL_ERR_DATA,
                         "'%s' holds %lld at [%lld, %lld, %lld, %lld]: %s is exact up to %lld",
                         matrix->name, (long long)value, (long long)(plane / s.depth),
                         (long long)(plane % s.depth), (long long)(row % s.rows),
                         (long long)(at % s.cols), mmul_dtype_name(target), (long long)limit);
    }
    return MMUL_OK;
}

// Converts elements `first` and following of the stack to float32, or whole numbers to float64.
// float64 values beyond float32 are counted. Whole numbers that would change are refused.
static enum mmul_status convert_elements(struct mmul_matrix *matrix, const void *elements,
                                         int64_t first, int64_t count, struct target to,
                                         struct mmul_error *err) {
    enum mmul_dtype stored = matrix->info.stored;
    double *doubles = to.at;
    if (mmul_dtype_is_integer(stored)) {
        enum mmul_status status = check_integers(matrix, elements, first, count, to.dtype, err);
        if (status != MMUL_OK)
            return status;
    }
    if (to.dtype == MMUL_F64) {
        for (int64_t e = 0; e < count; e++)
            doubles[e] = (double)mmul_dtype_get_integer(stored, elements, e);
        return MMUL_OK;
    }
    mmul_dtype_widen(stored, elements, count, to.at);
    if (stored == MMUL_F64)
        __atomic_fetch_add(&matrix->overflows, mmul_dtype_overflows64(MMUL_F32, elements, count),
                           __ATOMIC_RELAXED);
    return MMUL_OK;
}

enum mmul_status mmul_matrix_read_run(struct mmul_matrix *matrix, int64_t first, int64_t count,
                                      enum mmul_dtype target, void *dst, struct mmul_error *err) {
    enum mmul_dtype stored = matrix->info.stored;
    if (target == stored)
        return read_stored_run(matrix, first, count, dst, err);
    assert(target == MMUL_F32 || (target == MMUL_F64 && mmul_dtype_is_integer(stored)));
    uint64_t buffer[BUFFER_BYTES / sizeof(uint64_t)];
    int64_t capacity = BUFFER_BYTES / (int64_t)mmul_dtype_bytes(stored);
    int64_t target_bytes = (int64_t)mmul_dtype_bytes(target);
    for (int64_t done = 0; done < count;) {
        int64_t now = mmul_min(capacity, count - done);
        enum mmul_status status = read_stored_run(matrix, first + done, now, buffer, err);
        if (status == MMUL_OK)
            status =
                convert_elements(matrix, buffer, first + done, now,
                                 (struct target){target, (char *)dst + done * target_bytes}, err);
        if (status != MMUL_OK)
            return status;
        done += now;
    }
    return MMUL_OK;
}

// ----------------------------------------------------------------------------------- Fortran order

// Rows [row, row + rows) and columns [col, col + cols) of one matrix of the stack.
struct rectangle {
    int64_t matrix, row, rows, col, cols;
};

// Returns the index of the rectangle's first element. The first index runs fastest:
// element (b, d, i, j) is at b + B (d + D (i + M j)). Rows are B D apart, columns B D M.
static int64_t fortran_element(struct mmul_shape shape, struct rectangle at) {
    int64_t b = at.matrix / shape.depth, d = at.matrix % shape.depth;
    return b + shape.batch * (d + shape.depth * (at.row + shape.rows * at.col));
}

// `each` is a constant in every call, so that each copy is a single move.
__attribute__((always_inline)) static inline void gather_elements(
    size_t each, const unsigned char *src, int64_t row_step, int64_t col_step,
    struct rectangle tile, unsigned char *dst) {
    for (int64_t j = 0; j < tile.cols; j++)
        for (int64_t i = 0; i < tile.rows; i++)
            memcpy(dst + (size_t)(i * TILE_COLS + j) * each,
                   src + (size_t)(i * row_step + j * col_step) * each, each);
}

// Copies one tile to dst, with rows `dst_cols` elements apart.
static enum mmul_status gather_tile(struct mmul_matrix *matrix, struct rectangle tile,
                                    enum mmul_dtype target, int64_t dst_cols, char *dst,
                                    struct mmul_error *err) {
    uint64_t buffer[TILE_ROWS * TILE_COLS];
    unsigned char *elements = (unsigned char *)buffer;
    struct mmul_shape shape = mmul_matrix_stored_shape(matrix);
    enum mmul_dtype dtype = matrix->info.stored;
    size_t bytes_each = mmul_dtype_bytes(dtype), target_bytes = mmul_dtype_bytes(target);
    int64_t row_step = mmul_shape_matrices(shape), col_step = row_step * shape.rows;
    const unsigned char *src =
        (const unsigned char *)matrix->fortran + fortran_element(shape, tile) * (int64_t)bytes_each;
    if (bytes_each == 1)
        gather_elements(1, src, row_step, col_step, tile, elements);
    else if (bytes_each == 2)
        gather_elements(2, src, row_step, col_step, tile, elements);
    else if (bytes_each == 4)
        gather_elements(4, src, row_step, col_step, tile, elements);
    else
        gather_elements(8, src, row_step, col_step, tile, elements);
    for (int64_t i = 0; i < tile.rows; i++) {
        const unsigned char *row = elements + (size_t)(i * TILE_COLS) * bytes_each;
        char *dst_row = dst + (size_t)(i * dst_cols) * target_bytes;
        int64_t first = (tile.matrix * shape.rows + tile.row + i) * shape.cols + tile.col;
        enum mmul_status status = MMUL_OK;
        if (target == dtype)
            memcpy(dst_row, row, (size_t)tile.cols * bytes_each);
        else
            status = convert_elements(matrix, row, first, tile.cols,
                                      (struct target){target, dst_row}, err);
        if (status != MMUL_OK)
            return status;
    }
    return MMUL_OK;
}

static enum mmul_status gather_band(struct mmul_matrix *matrix, struct rectangle band,
                                    enum mmul_dtype target, int64_t dst_cols, char *dst,
                                    struct mmul_error *err) {
    int64_t target_bytes = (int64_t)mmul_dtype_bytes(target);
    for (int64_t i = 0; i < band.rows; i += TILE_ROWS) {
        for (int64_t j = 0; j < band.cols; j += TILE_COLS) {
            struct rectangle tile = {
                .matrix = band.matrix,
                .row = band.row + i,
                .rows = mmul_min(TILE_ROWS, band.rows - i),
                .col = band.col + j,
                .cols = mmul_min(TILE_COLS, band.cols - j),
            };
            enum mmul_status status = gather_tile(matrix, tile, target, dst_cols,
                                                  dst + (i * dst_cols + j) * target_bytes, err);
            if (status != MMUL_OK)
                return status;
        }
    }
    return MMUL_OK;
}

// Gathers [begin, end) in bands: the rest of a row, whole rows, and the start of a row.
static enum mmul_status gather_region(struct mmul_matrix *matrix, struct mmul_region region,
                                      int64_t begin, int64_t end, struct target to,
                                      struct mmul_error *err) {
    int64_t width = region.col_end - region.col_begin;
    for (int64_t p = begin; p < end;) {
        int64_t col = p % width, left = end - p;
        bool whole_rows = col == 0 && left >= width;
        struct rectangle band = {
            .matrix = region.matrix,
            .row = region.row_begin + p / width,
            .rows = whole_rows ? left / width : 1,
            .col = region.col_begin + col,
            .cols = whole_rows ? width : mmul_min(left, width - col),
        };
        char *dst = (char *)to.at + (p - begin) * (int64_t)mmul_dtype_bytes(to.dtype);
        enum mmul_status status = gather_band(matrix, band, to.dtype, width, dst, err);
        if (status != MMUL_OK)
            return status;
        p += band.rows * band.cols;
    }
    return MMUL_OK;
}

// ----------------------------------------------------------------------------------------- entries

// Reads from a region of the stored stack.
static enum mmul_status read_stored_region(struct mmul_matrix *matrix, struct mmul_region region,
                                           int64_t begin, int64_t end, struct target to,
                                           struct mmul_error *err) {
    struct mmul_shape shape = mmul_matrix_stored_shape(matrix);
    assert(begin >= end || mmul_region_fits(shape, region, begin, end));
    if (matrix->fortran != NULL)
        return gather_region(matrix, region, begin, end, to, err);
    for (int64_t p = begin; p < end;) {
        struct mmul_run run = mmul_region_run_at(shape, region, p, end);
        enum mmul_status status = mmul_matrix_read_run(
            matrix, run.element, run.count, to.dtype,
            (char *)to.at + (p - begin) * (int64_t)mmul_dtype_bytes(to.dtype), err);
        if (status != MMUL_OK)
            return status;
        p += run.count;
    }
    return MMUL_OK;
}

static enum mmul_status read_region(struct mmul_matrix *matrix, struct mmul_region region,
                                    int64_t begin, int64_t end, struct target to,
                                    struct mmul_error *err) {
    const int64_t each = (int64_t)mmul_dtype_bytes(to.dtype);
    enum mmul_status status = MMUL_OK;
    for (int64_t p = begin; status == MMUL_OK && p < end;) {
        const struct mmul_selected_piece piece =
            mmul_selection_piece_at(matrix->selection, region, p, end);
        status =
            read_stored_region(matrix, piece.region, piece.begin, piece.end,
                               (struct target){to.dtype, (char *)to.at + (p - begin) * each}, err);
        p += piece.end - piece.begin;
    }
    return status;
}

enum mmul_status mmul_matrix_read(struct mmul_matrix *matrix, struct mmul_region region,
                                  int64_t begin, int64_t end, void *dst, struct mmul_error *err) {
    return read_region(matrix, region, begin, end, (struct target){matrix->info.delivered, dst},
                       err);
}

enum mmul_status mmul_matrix_read_stored(struct mmul_matrix *matrix, struct mmul_region region,
                                         int64_t begin, int64_t end, void *dst,
                                         struct mmul_error *err) {
    return read_region(matrix, region, begin, end, (struct target){matrix->info.stored, dst}, err);
}

enum mmul_status mmul_matrix_read_float(struct mmul_matrix *matrix, struct mmul_region region,
                                        int64_t begin, int64_t end, float *dst,
                                        struct mmul_error *err) {
    return read_region(matrix, region, begin, end, (struct target){MMUL_F32, dst}, err);
}

enum mmul_status mmul_matrix_read_double(struct mmul_matrix *matrix, struct mmul_region region,
                                         int64_t begin, int64_t end, double *dst,
                                         struct mmul_error *err) {
    enum { CAPACITY = BUFFER_BYTES / sizeof(float) };
    float values[CAPACITY];
    if (matrix->info.stored == MMUL_F64 || mmul_dtype_is_integer(matrix->info.stored))
        return read_region(matrix, region, begin, end, (struct target){MMUL_F64, dst}, err);
    for (int64_t p = begin; p < end; p += CAPACITY) {
        int64_t stop = mmul_min(p + CAPACITY, end);
        enum mmul_status status = mmul_matrix_read_float(matrix, region, p, stop, values, err);
        if (status != MMUL_OK)
            return status;
        for (int64_t e = p; e < stop; e++)
            dst[e - begin] = values[e - p];
    }
    return MMUL_OK;
}
