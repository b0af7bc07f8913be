// SPDX-License-Identifier: MIT
// Opens matrices and lists of tensors by name. A name is a kept set (its shards are joined),
// standard input, or a path with an optional address of a tensor. A file of a set of inputs is
// opened once. matrix_file.c reads the content.
#include "base/memory.h"
#include "base/text.h"
#include "io/input_set.h"
#include "io/matrix_file.h"
#include "io/shard_set.h"
#include "io/standard_stream.h"
#include "io/tensors.h"

static enum mmul_status open_file(const char *path, const char *name, struct mmul_input_file **file,
                                  struct mmul_error *err) {
    const char *kept = mmul_kept_name(name);
    enum mmul_status status = MMUL_OK;
    int fd = -1;
    if (kept != NULL)
        status = mmul_persistent_join_file(kept, &fd, err);
    else if (mmul_path_is_stdin(path))
        status = mmul_stdin_open(&fd, err);
    return status == MMUL_OK ? mmul_input_file_open(path, fd, name, file, err) : status;
}

static enum mmul_status open_named(struct mmul_inputs *inputs, struct mmul_matrix *matrix,
                                   struct mmul_error *err) {
    struct mmul_tensor_address address = {0};
    const char *kept = mmul_kept_name(matrix->name);
    enum mmul_status status = kept != NULL ? mmul_copy_text(matrix->name, &address.path, err)
                                           : mmul_address_find(matrix->name, &address, err);
    if (status != MMUL_OK)
        return status;
    matrix->path = address.path; // ownership passes on
    matrix->tensor = address.tensor;
    struct mmul_input_file *file = mmul_inputs_find(inputs, matrix->path);
    if (file != NULL) {
        mmul_matrix_attach_file(matrix, mmul_input_file_retain(file));
        return MMUL_OK;
    }
    status = open_file(matrix->path, matrix->name, &file, err);
    if (status != MMUL_OK)
        return status;
    mmul_matrix_attach_file(matrix, file);
    return mmul_inputs_add(inputs, file, err);
}

// Lists the tensors of the matrix's file. *tensors has a reference for the caller, or is NULL. A
// set of inputs stores the list with the file.
static enum mmul_status list_tensors(struct mmul_inputs *inputs, const struct mmul_matrix *matrix,
                                     struct mmul_tensors **tensors, struct mmul_error *err) {
    *tensors = mmul_inputs_cached_tensors(inputs, matrix->file);
    if (*tensors != NULL)
        return MMUL_OK;
    enum mmul_status status = mmul_matrix_list_tensors(matrix, tensors, err);
    if (status == MMUL_OK && *tensors != NULL) {
        (*tensors)->file = mmul_input_file_retain(matrix->file);
        mmul_inputs_cache_tensors(inputs, *tensors);
    }
    return status;
}

enum mmul_status mmul_inputs_open_matrix(struct mmul_inputs *inputs, const char *path,
                                         struct mmul_matrix **matrix, struct mmul_error *err) {
    struct mmul_matrix *opened = NULL;
    struct mmul_tensors *tensors = NULL;
    enum mmul_status status = mmul_matrix_create(path, &opened, err);
    if (status == MMUL_OK)
        status = open_named(inputs, opened, err);
    if (status == MMUL_OK) {
        opened->missing_is_nan = mmul_inputs_missing_is_nan(inputs);
        status = list_tensors(inputs, opened, &tensors, err);
    }
    if (status == MMUL_OK)
        status = mmul_matrix_locate_elements(opened, tensors, false, err);
    mmul_tensors_close(tensors);
    if (status == MMUL_OK)
        *matrix = opened;
    else
        mmul_matrix_close(opened);
    return status;
}

enum mmul_status mmul_inputs_open_tensors(struct mmul_inputs *inputs, const char *path,
                                          struct mmul_tensors **tensors, struct mmul_error *err) {
    struct mmul_matrix *opened = NULL;
    struct mmul_tensors *listed = NULL;
    const bool is_kept = mmul_kept_name(path) != NULL;
    enum mmul_status status = mmul_matrix_create(path, &opened, err);
    if (status == MMUL_OK && !is_kept)
        status = open_named(inputs, opened, err);
    if (status == MMUL_OK && !is_kept && opened->tensor == NULL)
        status = list_tensors(inputs, opened, &listed, err);
    mmul_matrix_close(opened);
    if (status == MMUL_OK)
        *tensors = listed;
    return status;
}

enum mmul_status mmul_tensors_open_matrix(const struct mmul_tensors *tensors, int64_t index,
                                          struct mmul_matrix **matrix, struct mmul_error *err) {
    struct mmul_matrix *opened = NULL;
    struct mmul_text name = {0};
    const struct mmul_tensor_entry *entry = &tensors->all[index];
    const char *file = tensors->file->path;
    mmul_text_add(&name, "%s:%s", file, entry->name);
    enum mmul_status status = mmul_matrix_create(mmul_text_get(&name), &opened, err);
    mmul_text_fini(&name);
    if (status == MMUL_OK)
        status = mmul_copy_text(file, &opened->path, err);
    if (status == MMUL_OK)
        status = mmul_copy_text(entry->name, &opened->tensor, err);
    if (status == MMUL_OK)
        status = mmul_tensor_check_type(entry, file, err);
    if (status == MMUL_OK) {
        mmul_matrix_attach_file(opened, mmul_input_file_retain(tensors->file));
        status = mmul_matrix_locate_tensor(opened, tensors, entry, err);
    }
    if (status == MMUL_OK)
        *matrix = opened;
    else
        mmul_matrix_close(opened);
    return status;
}

enum mmul_status mmul_matrix_open(const char *path, struct mmul_matrix **matrix,
                                  struct mmul_error *err) {
    return mmul_inputs_open_matrix(NULL, path, matrix, err);
}

enum mmul_status mmul_tensors_open(const char *path, struct mmul_tensors **tensors,
                                   struct mmul_error *err) {
    return mmul_inputs_open_tensors(NULL, path, tensors, err);
}
