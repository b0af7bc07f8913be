// SPDX-License-Identifier: MIT
// Which file the name of a matrix means: a kept set that is put together, standard input, or a path, perhaps with the
// address of a tensor behind it. What is in the file is matrix_file.c's matter.
#include "base/memory.h"
#include "io/matrix_file.h"
#include "io/shard_set.h"
#include "io/standard_stream.h"

static enum mmul_status open_named(struct mmul_matrix *matrix, struct mmul_error *err) {
    struct mmul_address address = {0};
    const char *kept = mmul_kept_name(matrix->name);
    enum mmul_status status = kept != NULL ? mmul_copy_text(matrix->name, &address.path, err)
                                           : mmul_address_find(matrix->name, &address, err);
    if (status != MMUL_OK)
        return status;
    matrix->path = address.path; // ownership passes on
    matrix->tensor = address.tensor;
    if (kept != NULL)
        status = mmul_kept_open_file(kept, &matrix->fd, err);
    else if (mmul_path_is_stdin(matrix->path))
        status = mmul_stdin_open(&matrix->fd, err);
    return status == MMUL_OK ? mmul_matrix_open_file(matrix, err) : status;
}

enum mmul_status mmul_matrix_open(const char *path, struct mmul_matrix **matrix,
                                  struct mmul_error *err) {
    struct mmul_matrix *opened = NULL;
    enum mmul_status status = mmul_matrix_create(path, &opened, err);
    if (status == MMUL_OK)
        status = open_named(opened, err);
    if (status == MMUL_OK)
        status = mmul_matrix_load(opened, false, err);
    if (status == MMUL_OK)
        *matrix = opened;
    else
        mmul_matrix_close(opened);
    return status;
}

enum mmul_status mmul_tensors_open(const char *path, struct mmul_tensors **tensors,
                                   struct mmul_error *err) {
    struct mmul_matrix *opened = NULL;
    struct mmul_tensors *listed = NULL;
    const bool is_kept = mmul_kept_name(path) != NULL;
    enum mmul_status status = mmul_matrix_create(path, &opened, err);
    if (status == MMUL_OK && !is_kept)
        status = open_named(opened, err);
    if (status == MMUL_OK && !is_kept && opened->tensor == NULL)
        status = mmul_matrix_list(opened, &listed, err);
    mmul_matrix_close(opened);
    if (status == MMUL_OK)
        *tensors = listed;
    return status;
}
