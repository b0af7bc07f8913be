// SPDX-License-Identifier: MIT
// Reads and writes the header of .safetensors files. jansson parses the JSON and refuses duplicate
// keys. This file checks each tensor's type, sizes and range of bytes.
#include "io/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/transfer.h" // refuses big-endian hosts
#include "model/matrix.h"

// Types with known sizes, which are checked. Readable ones map to a dtype. A type that is missing
// here (F4, F6_E2M3, ...) makes only its own tensor unreadable.
static const struct type {
    const char *name;
    int bytes;
    bool is_readable;
    enum mmul_dtype dtype;
} types[] = {
    {"F32", 4, true, MMUL_F32},      {"F16", 2, true, MMUL_F16},
    {"BF16", 2, true, MMUL_BF16},    {"F64", 8, true, MMUL_F64},
    {"I64", 8, true, MMUL_I64},      {"I32", 4, true, MMUL_I32},
    {"U8", 1, true, MMUL_U8},        {"BOOL", 1, true, MMUL_BOOL},
    {"I8", 1, true, MMUL_I8},        {"I16", 2, true, MMUL_I16},
    {"U16", 2, true, MMUL_U16},      {"U32", 4, true, MMUL_U32},
    {"U64", 8, false, MMUL_F32},     {"F8_E4M3", 1, false, MMUL_F32},
    {"F8_E5M2", 1, false, MMUL_F32}, {"F8_E8M0", 1, false, MMUL_F32},
    {"C64", 8, false, MMUL_F32},
};
enum { TYPE_COUNT = sizeof types / sizeof *types };

enum mmul_status mmul_safetensors_json_bytes(const unsigned char *bytes, size_t count,
                                             int64_t file_bytes, const char *name,
                                             size_t *json_bytes, struct mmul_error *err) {
    uint64_t length = 0;
    if (count < MMUL_SAFETENSORS_PREFIX_BYTES)
        return mmul_fail(
            err, MMUL_ERR_DATA,
            "'%s' is not a valid .safetensors file: %zu bytes are too few for a header", name,
            count);
    memcpy(&length, bytes, sizeof length);
    if (length > MMUL_SAFETENSORS_HEADER_MAX)
        return mmul_fail(err, MMUL_ERR_DATA,
                         "'%s' is not a valid .safetensors file: a header of %llu bytes, expected "
                         "at most %d",
                         name, (unsigned long long)length, MMUL_SAFETENSORS_HEADER_MAX);
    if ((int64_t)length > file_bytes - MMUL_SAFETENSORS_PREFIX_BYTES)
        return mmul_fail(err, MMUL_ERR_DATA,
                         "'%s' is not a valid .safetensors file: %lld bytes, but its header alone "
                         "takes %llu",
                         name, (long long)file_bytes,
                         (unsigned long long)length + MMUL_SAFETENSORS_PREFIX_BYTES);
    *json_bytes = (size_t)length;
    return MMUL_OK;
}

// -------------------------------------------------------------------------------------- one tensor

static enum mmul_status fail_entry(const char *file, const char *tensor, const char *what,
                                   struct mmul_error *err) {
    return mmul_fail(err, MMUL_ERR_DATA, "'%s' is not a valid .safetensors file: tensor '%s': %s",
                     file, tensor, what);
}

// Reads a whole number >= 0.
static bool read_count(const json_t *value, int64_t *count) {
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *count = json_integer_value(value);
    return true;
}

// Reads the type. *type stays NULL if the type is unknown.
static enum mmul_status read_type(const json_t *value, const char *file,
                                  struct mmul_tensor_entry *entry, const struct type **type,
                                  struct mmul_error *err) {
    const char *text = json_string_value(value);
    if (text == NULL || *text == '\0')
        return fail_entry(file, entry->name, "expected a dtype", err);
    mmul_text_copy(entry->type, sizeof entry->type, text);
    for (int t = 0; t < TYPE_COUNT; t++) {
        if (strcmp(types[t].name, text) != 0)
            continue;
        *type = &types[t];
        entry->is_readable = types[t].is_readable;
        entry->dtype = types[t].dtype;
        if (entry->is_readable)
            mmul_text_copy(entry->type, sizeof entry->type, mmul_dtype_name(entry->dtype));
    }
    return MMUL_OK;
}

static enum mmul_status read_sizes(const json_t *value, const char *file,
                                   struct mmul_tensor_entry *entry, struct mmul_error *err) {
    size_t dimensions = json_array_size(value); // 0 if it is no array
    if (!json_is_array(value))
        return fail_entry(file, entry->name, "expected a shape", err);
    if (dimensions > MMUL_TENSOR_DIMENSIONS)
        return fail_entry(file, entry->name, "more than 8 dimensions", err);
    entry->dimensions = (int)dimensions;
    for (size_t d = 0; d < dimensions; d++)
        if (!read_count(json_array_get(value, d), &entry->sizes[d]))
            return fail_entry(file, entry->name, "expected sizes that are whole numbers", err);
    return MMUL_OK;
}

// Returns true if type and sizes give exactly the tensor's bytes.
static bool has_exact_bytes(const struct mmul_tensor_entry *entry, const struct type *type) {
    int64_t bytes = type->bytes;
    for (int d = 0; d < entry->dimensions; d++)
        if (!mmul_multiply_sizes(bytes, entry->sizes[d], &bytes))
            return false;
    return bytes == entry->bytes;
}

// Reads one tensor's entry. `data` is the number of bytes behind the header.
static enum mmul_status read_entry(const json_t *value, const char *file, int64_t data,
                                   struct mmul_tensor_entry *entry, struct mmul_error *err) {
    const json_t *offsets = json_object_get(value, "data_offsets");
    const struct type *type = NULL;
    int64_t begin, end;
    if (!json_is_object(value) || json_object_size(value) != 3)
        return fail_entry(file, entry->name, "expected dtype, shape and data_offsets", err);
    enum mmul_status status = read_type(json_object_get(value, "dtype"), file, entry, &type, err);
    if (status == MMUL_OK)
        status = read_sizes(json_object_get(value, "shape"), file, entry, err);
    if (status != MMUL_OK)
        return status;
    if (json_array_size(offsets) != 2 || !read_count(json_array_get(offsets, 0), &begin) ||
        !read_count(json_array_get(offsets, 1), &end) || begin > end)
        return fail_entry(file, entry->name, "expected two data_offsets", err);
    if (end > data)
        return fail_entry(file, entry->name, "its data_offsets lie beyond the end of the file",
                          err);
    entry->offset = begin;
    entry->bytes = end - begin;
    if (type != NULL && !has_exact_bytes(entry, type))
        return fail_entry(file, entry->name, "its dtype and shape do not match its data_offsets",
                          err);
    return MMUL_OK;
}

// ------------------------------------------------------------------------------------ whole header

// A reserved key: no tensor can have this name.
static const char metadata_key[] = "__metadata__";

static enum mmul_status check_metadata(json_t *value, const char *file, struct mmul_error *err) {
    const char *key;
    json_t *text;
    bool is_valid = json_is_object(value);
    json_object_foreach(value, key, text) is_valid &= json_is_string(text);
    return is_valid ? MMUL_OK : fail_entry(file, metadata_key, "expected texts", err);
}

static int compare_entries(const void *a, const void *b) {
    const struct mmul_tensor_entry *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static enum mmul_status read_tensors(json_t *root, const char *file, int64_t data,
                                     struct mmul_tensors *tensors, struct mmul_error *err) {
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value) {
        struct mmul_tensor_entry *entry = &tensors->all[tensors->count];
        if (strcmp(key, metadata_key) == 0) {
            if (check_metadata(value, file, err) != MMUL_OK)
                return err->status;
            tensors->metadata = json_incref(value);
            continue;
        }
        enum mmul_status status = mmul_copy_text(key, &entry->name, err);
        if (status != MMUL_OK)
            return status;
        tensors->count++;
        status = read_entry(value, file, data, entry, err);
        if (status != MMUL_OK)
            return status;
    }
    return MMUL_OK;
}

// Sorts the entries by offset, checks that they fill the file, and makes offsets relative to the
// file instead of the header's end.
static enum mmul_status place_tensors(struct mmul_tensors *tensors, const char *file,
                                      int64_t header, struct mmul_error *err) {
    int64_t end = 0;
    qsort(tensors->all, (size_t)tensors->count, sizeof *tensors->all, compare_entries);
    for (int64_t t = 0; t < tensors->count; t++) {
        struct mmul_tensor_entry *entry = &tensors->all[t];
        if (entry->offset != end)
            return fail_entry(file, entry->name,
                              entry->offset < end ? "its data overlap another tensor's"
                                                  : "there is a gap before its data",
                              err);
        end += entry->bytes;
        entry->offset += header;
    }
    if (header + end == tensors->file_bytes)
        return MMUL_OK;
    return mmul_fail(err, MMUL_ERR_DATA,
                     "'%s' is longer than its header says: %lld bytes, expected %lld", file,
                     (long long)tensors->file_bytes, (long long)(header + end));
}

enum mmul_status mmul_safetensors_parse(const char *json, size_t json_bytes, int64_t file_bytes,
                                        const char *name, struct mmul_tensors **tensors,
                                        struct mmul_error *err) {
    struct mmul_tensors *made = NULL;
    json_t *root = NULL;
    int64_t header = MMUL_SAFETENSORS_PREFIX_BYTES + (int64_t)json_bytes;
    enum mmul_status status = mmul_json_parse(json, json_bytes, name, &root, err);
    if (status != MMUL_OK)
        return status;
    if (!json_is_object(root))
        status = mmul_fail(err, MMUL_ERR_DATA,
                           "'%s' is not a valid .safetensors file: expected a JSON object", name);
    else
        status = mmul_tensors_create(MMUL_FORMAT_SAFETENSORS, file_bytes,
                                     (int64_t)json_object_size(root), &made, err);
    if (status == MMUL_OK)
        status = read_tensors(root, name, file_bytes - header, made, err);
    if (status == MMUL_OK)
        status = place_tensors(made, name, header, err);
    json_decref(root);
    if (status == MMUL_OK)
        *tensors = made;
    else
        mmul_tensors_close(made);
    return status;
}

// ----------------------------------------------------------------------------------------- writing

static enum mmul_status check_name(const char *name, struct mmul_error *err) {
    if (strcmp(name, metadata_key) == 0)
        return mmul_fail(err, MMUL_ERR_USAGE, "'%s' cannot name a tensor of .safetensors files",
                         metadata_key);
    if (!mmul_text_is_utf8(name))
        return mmul_fail(err, MMUL_ERR_USAGE, "'%s' cannot name a tensor: it is not UTF-8", name);
    return MMUL_OK;
}

// Adds the tensor's entry to the header. `begin` is the offset of its elements. Returns false if
// memory is short.
static bool add_entry(json_t *root, const struct mmul_safetensors_tensor *tensor, int64_t begin) {
    enum { SIZES = 4 };
    const struct mmul_shape s = tensor->shape;
    const int64_t all[SIZES] = {s.batch, s.depth, s.rows, s.cols};
    int dimensions = tensor->dimensions, type = 0;
    json_t *sizes = json_array();
    bool is_complete = sizes != NULL;
    while (types[type].dtype != tensor->dtype)
        type++;
    if (dimensions == 0)
        dimensions = mmul_shape_axes(s);
    for (int i = SIZES - dimensions; i < SIZES; i++)
        is_complete = json_array_append_new(sizes, json_integer(all[i])) == 0 && is_complete;
    json_t *entry =
        json_pack("{s:s,s:O,s:[I,I]}", "dtype", types[type].name, "shape", sizes, "data_offsets",
                  (json_int_t)begin, (json_int_t)(begin + tensor->bytes));
    json_decref(sizes);
    return json_object_set_new(root, tensor->name, entry) == 0 && is_complete;
}

enum mmul_status mmul_safetensors_format(const struct mmul_safetensors_content *content,
                                         unsigned char *header, size_t capacity, size_t *length,
                                         struct mmul_error *err) {
    enum { PREFIX = MMUL_SAFETENSORS_PREFIX_BYTES, ALIGNMENT = 64 };
    const struct mmul_safetensors_tensor *tensors = content->tensors;
    int64_t begin = 0;
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < content->count; i++)
        status = check_name(tensors[i].name, err);
    if (status != MMUL_OK)
        return status;
    json_t *root = json_object();
    bool is_complete =
        content->metadata == NULL || json_object_set(root, metadata_key, content->metadata) == 0;
    for (int i = 0; is_complete && i < content->count; i++) {
        is_complete = add_entry(root, &tensors[i], begin);
        begin += tensors[i].bytes;
    }
    // 0: memory is short. Larger than the capacity: nothing is complete.
    size_t json_bytes =
        is_complete ? json_dumpb(root, (char *)header + PREFIX, capacity - PREFIX, JSON_COMPACT)
                    : 0;
    json_decref(root);
    if (json_bytes == 0)
        return mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a header for tensor '%s'",
                         tensors[0].name);
    size_t total = (PREFIX + json_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (total > capacity)
        return mmul_fail(err, MMUL_ERR_USAGE, "'%.40s...' is too long a name for a tensor",
                         tensors[0].name);
    memset(header + PREFIX + json_bytes, ' ', total - PREFIX - json_bytes);
    const uint64_t padded = total - PREFIX;
    memcpy(header, &padded, sizeof padded);
    *length = total;
    return MMUL_OK;
}
