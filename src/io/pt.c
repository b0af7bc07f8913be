// SPDX-License-Identifier: MIT
// A tensor is a view of a storage: so many elements from one on, in steps of its strides. One that lies there in C
// order is copied as a stretch; of any other the stretch that it lies in is unpacked and gathered.
#include "io/pt.h"

#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/archive.h"
#include "io/matrix_file.h"
#include "io/pickle.h"
#include "model/dtype.h"

static const char kind[] = "a valid PyTorch file";

enum { BUFFER_BYTES = 64 << 10 };

static enum mmul_status fail_tensor(const char *file, const char *tensor, const char *what,
                                    struct mmul_error *err) {
    return mmul_fail(err, MMUL_ERR_DATA, "'%s' is not a valid PyTorch file: tensor '%s': %s", file,
                     tensor, what);
}

// ---------------------------------------------------------------------------------------- members

// The member of the folder in which the archive has everything; -1: there is none.
static int64_t find_member(struct mmul_archive *archive, const char *name, int length) {
    struct mmul_text path = {0};
    int64_t bytes, found = -1;
    const char *first = mmul_archive_member(archive, 0, &bytes);
    const char *slash = first != NULL ? strchr(first, '/') : NULL;
    if (slash == NULL || memchr(name, '\0', (size_t)length) != NULL)
        return -1;
    mmul_text_add(&path, "%.*s/%.*s", (int)(slash - first), first, length, name);
    if (!path.failed)
        found = mmul_archive_find(archive, path.data);
    mmul_text_fini(&path);
    return found;
}

static int64_t find_storage(struct mmul_archive *archive, const struct mmul_pickle_tensor *tensor) {
    struct mmul_text path = {0};
    int64_t found = -1;
    mmul_text_add(&path, "data/%.*s", tensor->storage_length, tensor->storage);
    if (!path.failed)
        found = find_member(archive, path.data, (int)path.length);
    mmul_text_fini(&path);
    return found;
}

// All of a member, which lasts until mmul_free.
static enum mmul_status read_member(struct mmul_archive *archive, int64_t member, const char *name,
                                    unsigned char **bytes, int64_t *count, struct mmul_error *err) {
    struct mmul_archive_stream *stream = NULL;
    int64_t length = 0;
    if (mmul_archive_member(archive, member, &length) == NULL || length > MMUL_PICKLE_MAX)
        return mmul_fail(
            err, MMUL_ERR_DATA,
            "'%s' is not a valid PyTorch file: a pickle of %lld bytes, expected at most %d", name,
            (long long)length, MMUL_PICKLE_MAX);
    enum mmul_status status = MMUL_ALLOCATE_RAW(*bytes, length, "a pickle", err);
    if (status == MMUL_OK)
        status = mmul_archive_begin(archive, member, name, &stream, err);
    if (status == MMUL_OK)
        status = mmul_archive_read(stream, *bytes, length, count, err);
    mmul_archive_end(stream);
    return status;
}

static enum mmul_status find_order(struct mmul_archive *archive, const char *name, bool *is_big,
                                   struct mmul_error *err) {
    static const char order[] = "byteorder";
    const int64_t member = find_member(archive, order, (int)sizeof order - 1);
    unsigned char *bytes = NULL;
    int64_t count = 0;
    *is_big = false;
    if (member < 0)
        return MMUL_OK;
    enum mmul_status status = read_member(archive, member, name, &bytes, &count, err);
    if (status == MMUL_OK) {
        *is_big = count == 3 && memcmp(bytes, "big", 3) == 0;
        if (!*is_big && (count != 6 || memcmp(bytes, "little", 6) != 0))
            status = mmul_fail(err, MMUL_ERR_DATA,
                               "'%s' is not a valid PyTorch file: its byteorder is neither little "
                               "nor big",
                               name);
    }
    mmul_free(bytes);
    return status;
}

// ---------------------------------------------------------------------------------------- listing

// How many elements there are, and from the first to the last one in the storage; false: too many to count.
static bool count_elements(int dimensions, const int64_t *sizes, const int64_t *strides,
                           int64_t *count, int64_t *stretch) {
    int64_t step;
    *count = *stretch = 1;
    for (int d = 0; d < dimensions; d++) {
        if (sizes[d] == 0) {
            *count = *stretch = 0;
            return true;
        }
        if (!mmul_multiply_sizes(*count, sizes[d], count) ||
            !mmul_multiply_sizes(sizes[d] - 1, strides[d], &step) ||
            __builtin_add_overflow(*stretch, step, stretch))
            return false;
    }
    return true;
}

static enum mmul_status describe(struct mmul_archive *archive, const char *name,
                                 const struct mmul_pickle_tensor *tensor,
                                 struct mmul_tensor_entry *entry, struct mmul_error *err) {
    int64_t count, stretch, end, storage_bytes = 0;
    entry->member = find_storage(archive, tensor);
    if (entry->member < 0 || mmul_archive_member(archive, entry->member, &storage_bytes) == NULL)
        return fail_tensor(name, tensor->name, "its storage is not there", err);
    if (!count_elements(tensor->dimensions, tensor->sizes, tensor->strides, &count, &stretch) ||
        __builtin_add_overflow(tensor->first, stretch, &end) ||
        !mmul_multiply_sizes(end, tensor->bytes_each, &end) ||
        !mmul_multiply_sizes(count, tensor->bytes_each, &entry->bytes))
        return fail_tensor(name, tensor->name, "its elements are too many to count", err);
    if (count > 0 && end > storage_bytes)
        return fail_tensor(name, tensor->name, "it goes beyond the end of its storage", err);
    mmul_text_copy(entry->type, sizeof entry->type, tensor->type);
    entry->is_readable = tensor->is_readable;
    entry->dtype = tensor->dtype;
    entry->dimensions = tensor->dimensions;
    memcpy(entry->sizes, tensor->sizes, sizeof entry->sizes);
    memcpy(entry->strides, tensor->strides, sizeof entry->strides);
    entry->offset = tensor->first * tensor->bytes_each;
    return mmul_copy_text(tensor->name, &entry->name, err);
}

static enum mmul_status list(struct mmul_archive *archive, const char *name,
                             const struct mmul_pickle *pickle, struct mmul_tensors *tensors,
                             struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int64_t t = 0; status == MMUL_OK && t < pickle->count; t++) {
        status = describe(archive, name, &pickle->tensors[t], &tensors->all[t], err);
        tensors->count += status == MMUL_OK;
    }
    return status;
}

enum mmul_status mmul_pt_list(int fd, const char *name, int64_t file_bytes,
                              struct mmul_tensors **tensors, struct mmul_error *err) {
    static const char pickle_name[] = "data.pkl";
    struct mmul_archive *archive = NULL;
    struct mmul_tensors *made = NULL;
    struct mmul_pickle pickle = {.count = 0};
    unsigned char *bytes = NULL;
    int64_t count = 0, member = -1;
    enum mmul_status status = mmul_archive_open(fd, name, kind, &archive, err);
    if (status == MMUL_OK)
        member = find_member(archive, pickle_name, (int)sizeof pickle_name - 1);
    if (status == MMUL_OK && member < 0)
        status =
            mmul_fail(err, MMUL_ERR_DATA, "'%s' is not %s: it has no %s", name, kind, pickle_name);
    if (status == MMUL_OK)
        status = read_member(archive, member, name, &bytes, &count, err);
    if (status == MMUL_OK)
        status = mmul_pickle_parse(bytes, (size_t)count, name, &pickle, err);
    if (status == MMUL_OK)
        status = mmul_tensors_create(MMUL_FORMAT_PT, file_bytes, pickle.count, &made, err);
    if (status == MMUL_OK)
        status = list(archive, name, &pickle, made, err);
    mmul_pickle_fini(&pickle);
    mmul_free(bytes);
    mmul_archive_close(archive);
    if (status == MMUL_OK)
        *tensors = made;
    else
        mmul_tensors_close(made);
    return status;
}

enum mmul_status mmul_pt_list_file(const struct mmul_matrix *matrix, const unsigned char *start,
                                   size_t count, struct mmul_tensors **tensors,
                                   struct mmul_error *err) {
    (void)start, (void)count;
    return mmul_pt_list(matrix->fd, matrix->path, matrix->info.file_bytes, tensors, err);
}

// --------------------------------------------------------------------------------------- decoding

static enum mmul_status read_exactly(struct mmul_archive_stream *stream, const char *name,
                                     void *dst, int64_t count, struct mmul_error *err) {
    int64_t got = 0;
    enum mmul_status status = mmul_archive_read(stream, dst, count, &got, err);
    return status == MMUL_OK && got < count
               ? mmul_fail(err, MMUL_ERR_DATA,
                           "cannot read '%s': its storage is shorter than the archive says", name)
               : status;
}

static enum mmul_status skip(struct mmul_archive_stream *stream, const char *name, int64_t count,
                             struct mmul_error *err) {
    char buffer[BUFFER_BYTES];
    enum mmul_status status = MMUL_OK;
    for (int64_t done = 0; status == MMUL_OK && done < count; done += BUFFER_BYTES)
        status = read_exactly(stream, name, buffer, mmul_smaller(BUFFER_BYTES, count - done), err);
    return status;
}

static enum mmul_status copy(struct mmul_archive_stream *stream, const char *name, int64_t count,
                             struct mmul_decoded *to, struct mmul_error *err) {
    char buffer[BUFFER_BYTES];
    enum mmul_status status = MMUL_OK;
    for (int64_t done = 0, now; status == MMUL_OK && done < count; done += now) {
        now = mmul_smaller(BUFFER_BYTES, count - done);
        status = read_exactly(stream, name, buffer, now, err);
        if (status == MMUL_OK)
            status = mmul_decoded_add(to, buffer, (size_t)now, err);
    }
    // At its end a storage is checked.
    int64_t ignored;
    return status == MMUL_OK ? mmul_archive_read(stream, buffer, 1, &ignored, err) : status;
}

// The places of its sizes and strides are the last ones of four.
static enum mmul_status gather(const struct mmul_tensor_entry *entry, const char *stretch,
                               struct mmul_decoded *to, struct mmul_error *err) {
    enum { AXES = 4 };
    int64_t n[AXES] = {1, 1, 1, 1}, step[AXES] = {0};
    const int64_t each = (int64_t)mmul_dtype_bytes(entry->dtype);
    enum mmul_status status = MMUL_OK;
    for (int d = 0; d < entry->dimensions; d++) {
        n[AXES - entry->dimensions + d] = entry->sizes[d];
        step[AXES - entry->dimensions + d] = entry->strides[d] * each;
    }
    for (int64_t b = 0; b < n[0]; b++)
        for (int64_t c = 0; c < n[1]; c++)
            for (int64_t i = 0; i < n[2]; i++)
                for (int64_t j = 0; status == MMUL_OK && j < n[3]; j++)
                    status = mmul_decoded_add(
                        to, stretch + b * step[0] + c * step[1] + i * step[2] + j * step[3],
                        (size_t)each, err);
    return status;
}

static enum mmul_status decode_view(struct mmul_archive_stream *stream, const char *name,
                                    const struct mmul_tensor_entry *entry, int64_t stretch_bytes,
                                    struct mmul_decoded *to, struct mmul_error *err) {
    struct mmul_decoded stretch;
    void *memory = NULL;
    enum mmul_status status = mmul_decoded_init(&stretch, name, err);
    if (status == MMUL_OK)
        status = mmul_decoded_map(&stretch, stretch_bytes, &memory, err);
    if (status == MMUL_OK)
        status = read_exactly(stream, name, memory, stretch_bytes, err);
    if (status == MMUL_OK)
        status = gather(entry, memory, to, err);
    mmul_decoded_fini(&stretch);
    return status;
}

static bool is_in_order(const struct mmul_tensor_entry *entry) {
    int64_t stride = 1;
    for (int d = entry->dimensions - 1; d >= 0; d--) {
        if (entry->sizes[d] > 1 && entry->strides[d] != stride)
            return false;
        stride *= entry->sizes[d];
    }
    return true;
}

enum mmul_status mmul_pt_decode(int fd, const char *name, const struct mmul_tensor_entry *entry,
                                struct mmul_decoded *to, bool *is_big, struct mmul_error *err) {
    struct mmul_archive *archive = NULL;
    struct mmul_archive_stream *stream = NULL;
    int64_t count = 0, stretch = 0;
    (void)count_elements(entry->dimensions, entry->sizes, entry->strides, &count, &stretch);
    enum mmul_status status = mmul_archive_open(fd, name, kind, &archive, err);
    if (status == MMUL_OK)
        status = find_order(archive, name, is_big, err);
    if (status == MMUL_OK)
        status = mmul_archive_begin(archive, entry->member, name, &stream, err);
    if (status == MMUL_OK)
        status = skip(stream, name, entry->offset, err);
    if (status == MMUL_OK)
        status = is_in_order(entry)
                     ? copy(stream, name, entry->bytes, to, err)
                     : decode_view(stream, name, entry,
                                   stretch * (int64_t)mmul_dtype_bytes(entry->dtype), to, err);
    mmul_archive_end(stream);
    mmul_archive_close(archive);
    return status;
}

static enum mmul_status become(struct mmul_matrix *matrix, const struct mmul_tensor_entry *entry,
                               struct mmul_error *err) {
    struct mmul_decoded decoded;
    bool is_big = false;
    enum mmul_status status = mmul_decoded_init(&decoded, matrix->name, err);
    if (status == MMUL_OK)
        status = mmul_pt_decode(matrix->fd, matrix->name, entry, &decoded, &is_big, err);
    if (status == MMUL_OK)
        status = mmul_decoded_end(&decoded, matrix, err);
    mmul_decoded_fini(&decoded);
    matrix->info.one_dimensional = entry->dimensions == 1;
    matrix->info.dimensions = entry->dimensions;
    matrix->info.stored = entry->dtype;
    matrix->info.big_endian = is_big;
    return status;
}

enum mmul_status mmul_pt_load(struct mmul_matrix *matrix, const unsigned char *start, size_t count,
                              bool empty_allowed, struct mmul_error *err) {
    const struct mmul_tensor_entry *entry;
    struct mmul_tensors *tensors = NULL;
    (void)empty_allowed; // shards are .bin and .npy files
    enum mmul_status status = mmul_pt_list_file(matrix, start, count, &tensors, err);
    if (status == MMUL_OK)
        status =
            mmul_tensors_find(tensors, matrix->path, matrix->tensor, &entry, &matrix->range, err);
    if (status == MMUL_OK)
        status = mmul_shape_of_sizes(entry->sizes, entry->dimensions, matrix->name, ".pt",
                                     &matrix->info.shape, err);
    if (status == MMUL_OK)
        status = become(matrix, entry, err);
    mmul_tensors_close(tensors);
    return status;
}
