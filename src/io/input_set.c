// SPDX-License-Identifier: MIT
// Sets of input files: each file is opened once and listed once in a job.
#include "io/input_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "io/tensors.h"

// A file of the set, with a reference to both.
struct listed_file {
    struct mmul_input_file *file;
    struct mmul_tensors *tensors; // NULL: not listed yet, or a single matrix
};

struct mmul_inputs {
    struct listed_file *files; // owned
    int count, capacity;
    bool missing_is_nan;
};

enum mmul_status mmul_inputs_create(struct mmul_inputs **inputs, struct mmul_error *err) {
    return MMUL_ALLOCATE(*inputs, 1, "a set of files", err);
}

void mmul_inputs_destroy(struct mmul_inputs *inputs) {
    if (inputs == NULL)
        return;
    for (int i = 0; i < inputs->count; i++) {
        mmul_tensors_close(inputs->files[i].tensors);
        mmul_input_file_release(inputs->files[i].file);
    }
    mmul_free(inputs->files);
    mmul_free(inputs);
}

void mmul_inputs_set_missing(struct mmul_inputs *inputs, bool is_nan) {
    inputs->missing_is_nan = is_nan;
}

bool mmul_inputs_missing_is_nan(const struct mmul_inputs *inputs) {
    return inputs != NULL && inputs->missing_is_nan;
}

struct mmul_input_file *mmul_inputs_find(const struct mmul_inputs *inputs, const char *path) {
    struct mmul_input_file *found = NULL;
    for (int i = 0; inputs != NULL && found == NULL && i < inputs->count; i++)
        if (strcmp(inputs->files[i].file->path, path) == 0)
            found = inputs->files[i].file;
    if (inputs == NULL || found != NULL)
        return found;
    char *real = realpath(path, NULL);
    for (int i = 0; real != NULL && found == NULL && i < inputs->count; i++)
        if (inputs->files[i].file->real != NULL && strcmp(inputs->files[i].file->real, real) == 0)
            found = inputs->files[i].file;
    free(real);
    return found;
}

static struct listed_file *find_listed(const struct mmul_inputs *inputs,
                                       const struct mmul_input_file *file) {
    for (int i = 0; inputs != NULL && i < inputs->count; i++)
        if (inputs->files[i].file == file)
            return &inputs->files[i];
    return NULL;
}

struct mmul_tensors *mmul_inputs_cached_tensors(const struct mmul_inputs *inputs,
                                                const struct mmul_input_file *file) {
    const struct listed_file *found = find_listed(inputs, file);
    return found != NULL && found->tensors != NULL ? mmul_tensors_retain(found->tensors) : NULL;
}

void mmul_inputs_cache_tensors(struct mmul_inputs *inputs, struct mmul_tensors *tensors) {
    struct listed_file *found = find_listed(inputs, tensors->file);
    if (found != NULL && found->tensors == NULL)
        found->tensors = mmul_tensors_retain(tensors);
}

enum mmul_status mmul_inputs_open_file(struct mmul_inputs *inputs, const char *path, int *fd,
                                       struct mmul_error *err) {
    struct mmul_input_file *file = mmul_inputs_find(inputs, path), *opened = NULL;
    enum mmul_status status = MMUL_OK;
    if (file == NULL) {
        status = mmul_input_file_open(path, -1, path, &opened, err);
        if (status == MMUL_OK)
            status = mmul_inputs_add(inputs, file = opened, err);
    }
    if (status == MMUL_OK && file->opened.st_size == 0)
        status = mmul_fail(err, MMUL_ERR_NO_INPUT, "cannot read '%s': it is empty", path);
    if (status == MMUL_OK)
        *fd = file->fd;
    mmul_input_file_release(opened); // the set has its own reference
    return status;
}

enum mmul_status mmul_inputs_check_file(const struct mmul_inputs *inputs, const char *path,
                                        struct mmul_error *err) {
    struct mmul_input_file *file = mmul_inputs_find(inputs, path);
    if (file == NULL || !mmul_input_file_has_changed(file))
        return MMUL_OK;
    mmul_fail(err, MMUL_ERR_DATA, "'%s' was written to after it was opened", path);
    mmul_hint(err, "do not change inputs while the job runs");
    return err->status;
}

enum mmul_status mmul_inputs_add(struct mmul_inputs *inputs, struct mmul_input_file *file,
                                 struct mmul_error *err) {
    if (inputs == NULL)
        return MMUL_OK;
    if (inputs->count == inputs->capacity) {
        struct listed_file *grown = NULL;
        const int capacity = inputs->capacity > 0 ? 2 * inputs->capacity : 8;
        if (MMUL_ALLOCATE(grown, capacity, "a set of files", err) != MMUL_OK)
            return err->status;
        if (inputs->count > 0)
            memcpy(grown, inputs->files, (size_t)inputs->count * sizeof *grown);
        mmul_free(inputs->files);
        inputs->files = grown;
        inputs->capacity = capacity;
    }
    inputs->files[inputs->count++] = (struct listed_file){mmul_input_file_retain(file), NULL};
    return MMUL_OK;
}
