// SPDX-License-Identifier: MIT
// Matrices in files, recognised by their first bytes, and in the caller's memory. Every error of a
// file is found here, before anything of its size is allocated. A file in Fortran order is read
// whole at once. matrix_open.c resolves names, matrix_read.c reads elements.
#include "io/matrix_file.h"

#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "io/formats.h"
#include "io/tensors.h"
#include "io/transfer.h"
#include "model/matrix.h"

enum mmul_status mmul_matrix_create(const char *name, struct mmul_matrix **matrix,
                                    struct mmul_error *err) {
    struct mmul_matrix *made = mmul_allocate(1, sizeof *made, "a matrix", err);
    if (made == NULL)
        return err->status;
    made->fd = -1;
    enum mmul_status status = mmul_copy_text(name, &made->name, err);
    if (status != MMUL_OK) {
        mmul_free(made);
        return status;
    }
    *matrix = made;
    return MMUL_OK;
}

static enum mmul_dtype delivered_dtype(enum mmul_dtype stored) {
    return stored == MMUL_F16 || stored == MMUL_BF16 ? stored : MMUL_F32;
}

void mmul_matrix_attach_file(struct mmul_matrix *matrix, struct mmul_input_file *file) {
    matrix->file = file;
    matrix->fd = file->fd;
    matrix->stored = file->opened.st_mtim;
    matrix->info.file_bytes = file->opened.st_size;
}

// The first bytes of a file and the row of its format.
struct start {
    unsigned char bytes[MMUL_FORMAT_START_BYTES];
    size_t count;
    const struct mmul_format_row *row;
};

static enum mmul_status read_start(const struct mmul_matrix *matrix, struct start *start,
                                   struct mmul_error *err) {
    start->count = 0;
    int errnum = mmul_pread_all(matrix->fd, start->bytes, sizeof start->bytes, 0, &start->count);
    if (errnum != 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errnum, "cannot read '%s'", matrix->name);
    start->row = mmul_format_detect(matrix->fd, matrix->path, start->bytes, start->count);
    return MMUL_OK;
}

static enum mmul_status load_header(struct mmul_matrix *matrix, bool empty_allowed,
                                    struct mmul_error *err) {
    char hint[MMUL_FORMAT_HINT_BYTES];
    struct start start;
    enum mmul_status status = read_start(matrix, &start, err);
    if (status != MMUL_OK)
        return status;
    const struct mmul_format_row *row = start.row;
    if (matrix->tensor != NULL && row->load != NULL) {
        return mmul_fail(err, MMUL_ERR_DATA,
                         "cannot open '%s': '%s' is %s, which has no named tensors", matrix->name,
                         matrix->path, row->called);
    }
    if (row->load == NULL) {
        mmul_fail(err, MMUL_ERR_DATA, "'%s' is %s, which is not read yet", matrix->name,
                  row->called);
        mmul_hint(err, "%s", mmul_format_fill_hint(row, matrix->path, hint));
        return err->status;
    }
    status = row->load(matrix, start.bytes, start.count, empty_allowed, err);
    matrix->info.format = row->format;
    matrix->info.delivered = delivered_dtype(matrix->info.stored);
    return status;
}

// Reads the whole file into memory, released with mmul_free. `what` names it in error texts.
static enum mmul_status read_all_elements(struct mmul_matrix *matrix, const char *what,
                                          void **elements, struct mmul_error *err) {
    const enum mmul_dtype dtype = matrix->info.stored;
    int64_t count = 0;
    if (!mmul_shape_count(matrix->info.shape, &count))
        return mmul_fail(err, MMUL_ERR_INTERNAL, "the size of '%s' was not checked", matrix->name);
    void *made = mmul_allocate_raw(count, mmul_dtype_bytes(dtype), what, err);
    if (made == NULL)
        return err->status;
    enum mmul_status status = mmul_matrix_read_run(matrix, 0, count, dtype, made, err);
    if (status == MMUL_OK)
        *elements = made;
    else
        mmul_free(made);
    return status;
}

static enum mmul_status load_fortran(struct mmul_matrix *matrix, struct mmul_error *err) {
    if (!matrix->info.fortran_order)
        return MMUL_OK;
    return read_all_elements(matrix, "a .npy file in Fortran order", &matrix->fortran, err);
}

// Converts a whole Fortran-order file to C order, in memory, since a range of it is not contiguous.
static enum mmul_status convert_to_c_order(struct mmul_matrix *matrix, struct mmul_error *err) {
    struct mmul_shape shape = matrix->info.shape;
    size_t bytes_each = mmul_dtype_bytes(matrix->info.stored);
    int64_t each = shape.rows * shape.cols, matrices = mmul_shape_matrices(shape);
    enum mmul_status status = load_fortran(matrix, err);
    if (status != MMUL_OK)
        return status;
    matrix->reordered =
        mmul_allocate_raw(matrices * each, bytes_each, "a .npy file in Fortran order", err);
    if (matrix->reordered == NULL)
        return err->status;
    for (int64_t m = 0; m < matrices && status == MMUL_OK; m++)
        status = mmul_matrix_read_stored(matrix, mmul_region_whole(shape, m), 0, each,
                                         (char *)matrix->reordered + m * each * (int64_t)bytes_each,
                                         err);
    mmul_free(matrix->fortran);
    matrix->fortran = NULL;
    matrix->memory = matrix->reordered;
    matrix->info.fortran_order = matrix->info.big_endian = false;
    return status;
}

// Narrows the matrix to the range of its first axis, which in C order is contiguous.
static enum mmul_status apply_range(struct mmul_matrix *matrix, struct mmul_error *err) {
    const struct mmul_axis_range *range = &matrix->range;
    struct mmul_shape *shape = &matrix->info.shape;
    int64_t *const axes[] = {&shape->cols, &shape->rows, &shape->depth, &shape->batch};
    int64_t begin, end, each = (int64_t)mmul_dtype_bytes(matrix->info.stored);
    if (!range->has_begin && !range->has_end)
        return MMUL_OK;
    if (matrix->info.dimensions == 0)
        return mmul_fail(err, MMUL_ERR_DATA, "'%s' is a range of a number, which has no axis",
                         matrix->name);
    int64_t *axis = axes[matrix->info.dimensions - 1];
    if (!mmul_axis_range_resolve(range, *axis, &begin, &end))
        return mmul_fail(err, MMUL_ERR_DATA, "'%s' is empty: its first axis has %lld elements",
                         matrix->name, (long long)*axis);
    enum mmul_status status =
        matrix->info.fortran_order ? convert_to_c_order(matrix, err) : MMUL_OK;
    if (status != MMUL_OK)
        return status;
    for (int d = 0; d < matrix->info.dimensions - 1; d++)
        each *= *axes[d];
    *axis = end - begin;
    if (matrix->memory != NULL)
        matrix->memory = (const char *)matrix->memory + begin * each;
    else
        matrix->data_offset += begin * each;
    matrix->info.file_bytes = (end - begin) * each;
    return MMUL_OK;
}

static enum mmul_status apply_range_and_order(struct mmul_matrix *matrix, struct mmul_error *err) {
    enum mmul_status status = apply_range(matrix, err);
    return status == MMUL_OK ? load_fortran(matrix, err) : status;
}

enum mmul_status mmul_matrix_locate_tensor(struct mmul_matrix *matrix,
                                           const struct mmul_tensors *tensors,
                                           const struct mmul_tensor_entry *entry,
                                           struct mmul_error *err) {
    const struct mmul_format_row *row = mmul_format_row(tensors->format);
    enum mmul_status status = row->take != NULL
                                  ? row->take(matrix, tensors, entry, err)
                                  : mmul_matrix_set_tensor(matrix, entry, row->ending, err);
    matrix->info.format = tensors->format;
    matrix->info.delivered = delivered_dtype(matrix->info.stored);
    return status == MMUL_OK ? apply_range_and_order(matrix, err) : status;
}

enum mmul_status mmul_matrix_locate_elements(struct mmul_matrix *matrix,
                                             const struct mmul_tensors *tensors, bool empty_allowed,
                                             struct mmul_error *err) {
    const struct mmul_tensor_entry *entry;
    enum mmul_status status;
    if (tensors == NULL) {
        status = load_header(matrix, empty_allowed, err);
        return status == MMUL_OK ? apply_range_and_order(matrix, err) : status;
    }
    status = mmul_tensors_find(tensors, matrix->path, matrix->tensor, &entry, &matrix->range, err);
    return status == MMUL_OK ? mmul_matrix_locate_tensor(matrix, tensors, entry, err) : status;
}

enum mmul_status mmul_matrix_list_tensors(const struct mmul_matrix *matrix,
                                          struct mmul_tensors **tensors, struct mmul_error *err) {
    struct start start;
    *tensors = NULL;
    enum mmul_status status = read_start(matrix, &start, err);
    return status == MMUL_OK && start.row->list != NULL
               ? start.row->list(matrix->fd, matrix->path, matrix->info.file_bytes, tensors, err)
               : status;
}

enum mmul_status mmul_matrix_open_shard(const char *path, struct mmul_matrix **matrix,
                                        struct mmul_error *err) {
    struct mmul_matrix *opened = NULL;
    struct mmul_input_file *file = NULL;
    struct mmul_tensors *tensors = NULL;
    enum mmul_status status = mmul_matrix_create(path, &opened, err);
    if (status == MMUL_OK)
        status = mmul_copy_text(path, &opened->path, err);
    if (status == MMUL_OK)
        status = mmul_input_file_open(path, -1, path, &file, err);
    if (status == MMUL_OK) {
        mmul_matrix_attach_file(opened, file);
        status = mmul_matrix_list_tensors(opened, &tensors, err);
    }
    if (status == MMUL_OK)
        status = mmul_matrix_locate_elements(opened, tensors, true, err);
    mmul_tensors_close(tensors);
    if (status == MMUL_OK)
        *matrix = opened;
    else
        mmul_matrix_close(opened);
    return status;
}

enum mmul_status mmul_matrix_borrow(const void *data, struct mmul_shape shape,
                                    enum mmul_dtype dtype, const char *name,
                                    struct mmul_matrix **matrix, struct mmul_error *err) {
    int64_t bytes = 0;
    enum mmul_status status = mmul_shape_bytes(shape, dtype, &bytes, err);
    if (status == MMUL_OK)
        status = mmul_matrix_create(name, matrix, err);
    if (status != MMUL_OK)
        return status;
    (*matrix)->memory = data;
    (*matrix)->info = (struct mmul_matrix_info){
        .shape = shape,
        .stored = dtype,
        .delivered = delivered_dtype(dtype),
        .format = MMUL_FORMAT_MEMORY,
        .file_bytes = bytes,
    };
    return MMUL_OK;
}

// Releases the file, once the elements are in memory or no longer needed.
static void release_file(struct mmul_matrix *matrix) {
    if (matrix->fd >= 0 && (matrix->file == NULL || matrix->fd != matrix->file->fd))
        close(matrix->fd); // decoded elements
    mmul_input_file_release(matrix->file);
    matrix->file = NULL;
    matrix->fd = -1;
}

enum mmul_status mmul_matrix_detach(struct mmul_matrix *matrix, struct mmul_error *err) {
    if (matrix->memory == NULL && matrix->fortran == NULL) {
        void *elements = NULL;
        enum mmul_status status = read_all_elements(matrix, "a matrix", &elements, err);
        if (status == MMUL_OK && mmul_matrix_was_written(matrix))
            status = mmul_matrix_fail_changed(matrix->name, err);
        if (status != MMUL_OK) {
            mmul_free(elements);
            return status;
        }
        matrix->memory = matrix->reordered = elements;
        matrix->info.big_endian = false;
    }
    release_file(matrix);
    return MMUL_OK;
}

void mmul_matrix_close(struct mmul_matrix *matrix) {
    if (matrix == NULL)
        return;
    release_file(matrix);
    mmul_selection_destroy(matrix->selection);
    MMUL_FREE_ALL(matrix->fortran, matrix->reordered, matrix->name, matrix->path, matrix->tensor,
                  matrix);
}

enum mmul_status mmul_matrix_identity(const struct mmul_matrix *matrix,
                                      char identity[MMUL_AT_LEAST(MMUL_IDENTITY_BYTES)],
                                      struct mmul_error *err) {
    if (matrix->file == NULL || matrix->file->real == NULL)
        return mmul_fail(err, MMUL_ERR_USAGE, "'%s' is not a file", matrix->name);
    return mmul_file_identity(matrix->file->fd, matrix->name, identity, err);
}
