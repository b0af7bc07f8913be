// SPDX-License-Identifier: MIT
// Lists of tensors, independent of the format. The formats' own files fill the lists.
#include "io/tensors.h"

#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"
#include "io/matrix_file.h"
#include "model/matrix.h"

enum mmul_status mmul_tensors_create(enum mmul_format format, int64_t file_bytes, int64_t capacity,
                                     struct mmul_tensors **tensors, struct mmul_error *err) {
    struct mmul_tensors *made = NULL;
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "a list of tensors", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(made->all, capacity, "a list of tensors", err);
    if (status != MMUL_OK) {
        mmul_free(made);
        return status;
    }
    made->references = 1;
    made->format = format;
    made->file_bytes = file_bytes;
    made->capacity = capacity;
    *tensors = made;
    return MMUL_OK;
}

struct mmul_tensors *mmul_tensors_retain(struct mmul_tensors *tensors) {
    tensors->references++;
    return tensors;
}

void mmul_tensors_close(struct mmul_tensors *tensors) {
    if (tensors == NULL || --tensors->references > 0)
        return;
    for (int64_t t = 0; t < tensors->count; t++)
        mmul_free(tensors->all[t].name);
    mmul_free(tensors->all);
    for (int64_t c = 0; c < tensors->skipped_count; c++)
        mmul_free((char *)tensors->skipped[c].name);
    mmul_free(tensors->skipped);
    json_decref(tensors->metadata);
    mmul_archive_close(tensors->archive);
    mmul_input_file_release(tensors->file);
    mmul_free(tensors);
}

struct mmul_tensors_info mmul_tensors_info(const struct mmul_tensors *tensors) {
    return (struct mmul_tensors_info){
        .format = tensors->format, .count = tensors->count, .file_bytes = tensors->file_bytes};
}

int64_t mmul_tensors_skipped(const struct mmul_tensors *tensors,
                             const struct mmul_tensors_skipped **classes) {
    *classes = tensors->skipped;
    return tensors->skipped_count;
}

struct mmul_tensor mmul_tensors_get(const struct mmul_tensors *tensors, int64_t index) {
    const struct mmul_tensor_entry *entry = &tensors->all[index];
    struct mmul_tensor tensor = {.name = entry->name,
                                 .type = entry->type,
                                 .is_readable = entry->is_readable,
                                 .dimensions = entry->dimensions,
                                 .bytes = entry->bytes};
    memcpy(tensor.sizes, entry->sizes, sizeof tensor.sizes);
    return tensor;
}

bool mmul_tensor_is_matrix(const struct mmul_tensor *tensor) {
    bool is_empty = false;
    for (int d = 0; d < tensor->dimensions; d++)
        is_empty |= tensor->sizes[d] == 0;
    return tensor->is_readable && tensor->dimensions >= 1 && tensor->dimensions <= 4 && !is_empty;
}

const char *mmul_tensors_metadata(const struct mmul_tensors *tensors, const char *name) {
    return json_string_value(json_object_get(tensors->metadata, name));
}

// ----------------------------------------------------------------------------------------- finding

static const struct mmul_tensor_entry *find_tensor(const struct mmul_tensors *tensors,
                                                   const char *name, size_t length) {
    for (int64_t t = 0; t < tensors->count; t++)
        if (strlen(tensors->all[t].name) == length &&
            memcmp(tensors->all[t].name, name, length) == 0)
            return &tensors->all[t];
    return NULL;
}

// Reports a missing tensor. If the address ends in a range, the name is the part before it.
static enum mmul_status fail_absent(const struct mmul_tensors *tensors, const char *path,
                                    const char *address, struct mmul_error *err) {
    const char **names = NULL;
    char *name = NULL;
    size_t length;
    struct mmul_axis_range ignored;
    if (mmul_copy_text(address, &name, err) != MMUL_OK)
        return err->status;
    if (mmul_address_range(address, &length, &ignored))
        name[length] = '\0';
    const char *nearest = NULL;
    if (MMUL_ALLOCATE(names, tensors->count + 1, "a list of names", err) == MMUL_OK) {
        for (int64_t t = 0; t < tensors->count; t++)
            names[t] = tensors->all[t].name;
        nearest = mmul_nearest(name, names);
    }
    mmul_fail(err, MMUL_ERR_DATA, "'%s' holds no tensor '%s'", path, name);
    if (nearest != NULL)
        mmul_hint(err, "did you mean '%s'?", nearest);
    else if (tensors->count == 1)
        mmul_hint(err, "it holds only '%s'", tensors->all[0].name);
    else if (tensors->count == 0)
        mmul_hint(err, "it holds none");
    else
        mmul_hint(err, "mpimatmul info lists its %lld tensors", (long long)tensors->count);
    mmul_free(names);
    mmul_free(name);
    return err->status;
}

static enum mmul_status find_only_tensor(const struct mmul_tensors *tensors, const char *path,
                                         const struct mmul_tensor_entry **entry,
                                         struct mmul_error *err) {
    if (tensors->count == 1) {
        *entry = &tensors->all[0];
        return MMUL_OK;
    }
    mmul_fail(err, MMUL_ERR_DATA, "'%s' holds %lld tensors, expected one", path,
              (long long)tensors->count);
    if (tensors->count > 0)
        mmul_hint(err, "name one as '%s:%s'; mpimatmul info lists them", path,
                  tensors->all[0].name);
    return err->status;
}

enum mmul_status mmul_tensor_check_type(const struct mmul_tensor_entry *entry, const char *path,
                                        struct mmul_error *err) {
    static const struct {
        const char *begins, *hint;
    } hints[] = {
        {"complex", MMUL_HINT_COMPLEX},
        {"<c", MMUL_HINT_COMPLEX},
        {">c", MMUL_HINT_COMPLEX},
        {"C64", MMUL_HINT_COMPLEX},
        {"q", "in Python: x.dequantize()"},
        {"sparse", "in Python: x.to_dense()"},
        {"LZMA", "in Python: numpy.savez_compressed(NEW, **numpy.load(OLD))"},
        {"zip method", "unpack the archive and pack it again: zip -r"},
    };
    if (entry->is_readable)
        return MMUL_OK;
    mmul_fail(err, MMUL_ERR_DATA,
              "tensor '%s' of '%s' holds elements of type '%s', which is not read", entry->name,
              path, entry->type);
    for (size_t h = 0; h < sizeof hints / sizeof *hints; h++)
        if (strncmp(entry->type, hints[h].begins, strlen(hints[h].begins)) == 0)
            mmul_hint(err, "%s", hints[h].hint);
    return err->status;
}

enum mmul_status mmul_tensors_find(const struct mmul_tensors *tensors, const char *path,
                                   const char *address, const struct mmul_tensor_entry **entry,
                                   struct mmul_axis_range *range, struct mmul_error *err) {
    const struct mmul_tensor_entry *found = NULL;
    size_t length = 0;
    *range = (struct mmul_axis_range){0};
    if (address == NULL) {
        enum mmul_status status = find_only_tensor(tensors, path, &found, err);
        if (status != MMUL_OK)
            return status;
    } else {
        found = find_tensor(tensors, address, strlen(address));
        if (found == NULL && mmul_address_range(address, &length, range))
            found = find_tensor(tensors, address, length);
    }
    if (found == NULL)
        return fail_absent(tensors, path, address, err);
    *entry = found;
    return mmul_tensor_check_type(found, path, err);
}

// ------------------------------------------------------------------------------------------ shapes

enum mmul_status mmul_shape_from_sizes(const int64_t *sizes, int dimensions, const char *name,
                                       const char *kind, struct mmul_shape *shape,
                                       struct mmul_error *err) {
    int n = dimensions;
    if (n > 4)
        return mmul_fail(err, MMUL_ERR_DATA, "'%s' has %d dimensions, expected at most 4", name, n);
    struct mmul_shape found = {
        .batch = n > 3 ? sizes[n - 4] : 1,
        .depth = n > 2 ? sizes[n - 3] : 1,
        .rows = n > 1 ? sizes[n - 2] : 1,
        .cols = n > 0 ? sizes[n - 1] : 1,
    };
    int64_t count = 0;
    char text[96];
    if (!mmul_shape_count(found, &count)) {
        return mmul_fail(err, MMUL_ERR_DATA,
                         "'%s' is not a valid %s file: %s elements are too many to count", name,
                         kind, mmul_shape_format(found, text));
    }
    if (count == 0) {
        return mmul_fail(err, MMUL_ERR_DATA,
                         "'%s' is empty: its sizes are %s, expected at least 1 each", name,
                         mmul_shape_format(found, text));
    }
    *shape = found;
    return MMUL_OK;
}

enum mmul_status mmul_matrix_set_tensor(struct mmul_matrix *matrix,
                                        const struct mmul_tensor_entry *entry, const char *kind,
                                        struct mmul_error *err) {
    enum mmul_status status = mmul_shape_from_sizes(entry->sizes, entry->dimensions, matrix->name,
                                                    kind, &matrix->info.shape, err);
    if (status != MMUL_OK)
        return status;
    matrix->info.one_dimensional = entry->dimensions == 1;
    matrix->info.dimensions = entry->dimensions;
    matrix->info.stored = entry->dtype;
    matrix->info.file_bytes = entry->bytes;
    matrix->data_offset = entry->offset;
    return MMUL_OK;
}
