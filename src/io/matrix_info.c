// SPDX-License-Identifier: MIT
// Queries on an open matrix: its properties, the check of its file's length, and the identity of
// its file. Reads no elements.
#include "io/matrix_file.h"

#include <linux/magic.h>
#include <sys/statfs.h>

#include "base/status.h"
#include "io/file_stat.h"
#include "model/matrix.h"

enum mmul_status mmul_matrix_check_length(const struct mmul_matrix *matrix,
                                          struct mmul_error *err) {
    const struct mmul_matrix_info *info = &matrix->info;
    int64_t bytes = 0, expected;
    char text[96];
    enum mmul_status status = mmul_shape_bytes(info->shape, info->stored, &bytes, err);
    if (status != MMUL_OK || __builtin_add_overflow(bytes, matrix->data_offset, &expected)) {
        return mmul_fail(
            err, MMUL_ERR_DATA, "'%s' is not a valid matrix file: %s elements of %s are too many",
            matrix->name, mmul_shape_format(info->shape, text), mmul_dtype_name(info->stored));
    }
    if (expected == info->file_bytes)
        return MMUL_OK;
    return mmul_fail(err, MMUL_ERR_DATA,
                     "'%s' is %s than its header says: %lld bytes, expected %lld for %s %s",
                     matrix->name, info->file_bytes < expected ? "shorter" : "longer",
                     (long long)info->file_bytes, (long long)expected,
                     mmul_shape_format(info->shape, text), mmul_dtype_name(info->stored));
}

struct mmul_matrix_info mmul_matrix_info(const struct mmul_matrix *matrix) {
    struct mmul_matrix_info info = matrix->info;
    if (info.dimensions == 0)
        info.dimensions = mmul_shape_axes(info.shape);
    if (info.dimensions < 2)
        info.dimensions = 2;
    return info;
}

void mmul_matrix_select(struct mmul_matrix *matrix, struct mmul_selection *selection) {
    matrix->selection = selection;
    matrix->info.shape = mmul_selection_shape(selection);
}

struct mmul_shape mmul_matrix_stored_shape(const struct mmul_matrix *matrix) {
    return matrix->selection != NULL ? mmul_selection_stored(matrix->selection)
                                     : matrix->info.shape;
}

int64_t mmul_matrix_overflows(const struct mmul_matrix *matrix) {
    return matrix->overflows;
}

const char *mmul_matrix_name(const struct mmul_matrix *matrix) {
    return matrix->name;
}

// Decoded elements are a copy, so a later write does not matter.
bool mmul_matrix_was_written(const struct mmul_matrix *matrix) {
    return matrix->file != NULL && matrix->fd == matrix->file->fd &&
           mmul_input_file_has_changed(matrix->file);
}

enum mmul_status mmul_matrix_fail_changed(const char *name, struct mmul_error *err) {
    mmul_fail(err, MMUL_ERR_DATA, "'%s' was written to while it was read", name);
    mmul_hint(err, "write a new file and rename it over the old one: readers are not disturbed");
    return err->status;
}

int64_t mmul_matrix_memory_bytes(const struct mmul_matrix *matrix) {
    struct statfs system;
    struct stat file;
    int64_t elements = 0;
    (void)mmul_shape_count(mmul_matrix_stored_shape(matrix), &elements);
    int64_t bytes = matrix->reordered != NULL || matrix->fortran != NULL
                        ? elements * (int64_t)mmul_dtype_bytes(matrix->info.stored)
                        : 0;
    if (matrix->fd >= 0 && fstat(matrix->fd, &file) == 0 && file.st_nlink == 0 &&
        fstatfs(matrix->fd, &system) == 0 &&
        (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC))
        bytes += file.st_size;
    return bytes;
}

bool mmul_matrix_is_file(const struct mmul_matrix *matrix, const struct stat *file) {
    return matrix->file != NULL && mmul_stat_is_same_file(&matrix->file->opened, file);
}
