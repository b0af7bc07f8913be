// SPDX-License-Identifier: MIT
// Reads GGUF files. The header goes through a small buffer. Named values are skipped except the
// alignment. Every count is checked against the bytes left in the file before memory is allocated
// for it. The types and their decoders are in gguf_types.c.
#include "io/gguf.h"

#include <inttypes.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/gguf_types.h"
#include "io/matrix_file.h"
#include "io/transfer.h"
#include "model/dtype.h"

// ----------------------------------------------------------------------------------------- reading

struct reader {
    int fd;
    const char *name;
    int64_t at, file_bytes; // at: offset of the next byte
    int64_t begin, end;     // range of the file in the buffer
    struct mmul_error *err;
    unsigned char buffer[64 << 10];
};

static enum mmul_status fail_header(const struct reader *r, const char *what) {
    return mmul_fail(r->err, MMUL_ERR_DATA, "'%s' is not a valid GGUF file: %s", r->name, what);
}

static enum mmul_status read_bytes(struct reader *r, void *dst, int64_t count) {
    if (count > r->file_bytes - r->at)
        return fail_header(r, "the file ends inside its header");
    for (int64_t done = 0, now; done < count; done += now, r->at += now) {
        if (r->at < r->begin || r->at >= r->end) {
            size_t got = 0;
            int errnum = mmul_pread_all(r->fd, r->buffer, sizeof r->buffer, r->at, &got);
            if (errnum != 0)
                return mmul_fail_errno(r->err, MMUL_ERR_NO_INPUT, errnum, "cannot read '%s'",
                                       r->name);
            if (got == 0)
                return fail_header(r, "the file ends inside its header");
            r->begin = r->at;
            r->end = r->at + (int64_t)got;
        }
        now = mmul_min(count - done, r->end - r->at);
        memcpy((char *)dst + done, r->buffer + (r->at - r->begin), (size_t)now);
    }
    return MMUL_OK;
}

static enum mmul_status skip_bytes(struct reader *r, uint64_t count, uint64_t bytes_each) {
    const uint64_t left = (uint64_t)(r->file_bytes - r->at);
    if (bytes_each > 0 && count > left / bytes_each)
        return fail_header(r, "the file ends inside its header");
    r->at += (int64_t)(count * bytes_each);
    return MMUL_OK;
}

static enum mmul_status read_u32(struct reader *r, uint32_t *number) {
    return read_bytes(r, number, sizeof *number);
}

static enum mmul_status read_u64(struct reader *r, uint64_t *number) {
    return read_bytes(r, number, sizeof *number);
}

// Reads a text. A text of `capacity` bytes or more is skipped, and *text stays empty.
static enum mmul_status read_text(struct reader *r, char *text, size_t capacity) {
    uint64_t length = 0;
    *text = '\0';
    enum mmul_status status = read_u64(r, &length);
    if (status != MMUL_OK || length >= capacity)
        return status == MMUL_OK ? skip_bytes(r, length, 1) : status;
    status = read_bytes(r, text, (int64_t)length);
    text[status == MMUL_OK ? length : 0] = '\0';
    return status;
}

// ------------------------------------------------------------------------------------ named values

enum { UINT32 = 4, TEXT = 8, ARRAY = 9, KINDS = 13 };

static enum mmul_status skip_value(struct reader *r, uint32_t kind) {
    static const int bytes[KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    uint32_t inner = 0;
    uint64_t count = 0;
    char ignored[1];
    if (kind >= KINDS)
        return fail_header(r, "a value of an unknown type");
    if (kind == TEXT)
        return read_text(r, ignored, sizeof ignored);
    if (kind != ARRAY)
        return skip_bytes(r, 1, (uint64_t)bytes[kind]);
    enum mmul_status status = read_u32(r, &inner);
    if (status == MMUL_OK)
        status = read_u64(r, &count);
    if (status == MMUL_OK && (inner >= KINDS || inner == ARRAY))
        return fail_header(r, "an array of an unknown type");
    if (status != MMUL_OK || inner != TEXT)
        return status == MMUL_OK ? skip_bytes(r, count, (uint64_t)bytes[inner]) : status;
    // each takes bytes of the file: the loop ends
    for (uint64_t i = 0; status == MMUL_OK && i < count; i++)
        status = read_text(r, ignored, sizeof ignored);
    return status;
}

static enum mmul_status read_values(struct reader *r, uint64_t count, uint32_t *alignment) {
    char key[64];
    uint32_t kind = 0;
    enum mmul_status status = MMUL_OK;
    *alignment = 32;
    for (uint64_t i = 0; status == MMUL_OK && i < count; i++) {
        status = read_text(r, key, sizeof key);
        if (status == MMUL_OK)
            status = read_u32(r, &kind);
        if (status == MMUL_OK && strcmp(key, "general.alignment") == 0 && kind == UINT32)
            status = read_u32(r, alignment);
        else if (status == MMUL_OK)
            status = skip_value(r, kind);
    }
    if (status == MMUL_OK && (*alignment == 0 || *alignment % 8 != 0))
        status = fail_header(r, "its alignment is no multiple of 8");
    return status;
}

// ----------------------------------------------------------------------------------------- tensors

// Sets type and bytes of a tensor of `elements` elements, `row` of them in a row. place_tensors
// sets the bytes of an unknown type.
static enum mmul_status set_type_and_bytes(const struct reader *r, const char *name,
                                           int64_t elements, uint64_t row,
                                           struct mmul_tensor_entry *entry) {
    const struct mmul_gguf_type *type = mmul_gguf_type_get((uint32_t)entry->member);
    if (type == NULL) {
        snprintf(entry->type, sizeof entry->type, "type %u", (uint32_t)entry->member);
        return MMUL_OK;
    }
    if (row % (uint64_t)type->elements != 0)
        return mmul_fail(r->err, MMUL_ERR_DATA,
                         "'%s' is not a valid GGUF file: tensor '%s': rows of %" PRIu64
                         " elements are not whole blocks of %d, the block size of %s",
                         r->name, name, row, type->elements, type->name);
    if (!mmul_multiply_sizes(elements / type->elements, type->bytes, &entry->bytes))
        return fail_header(r, "a tensor has too many elements to count");
    entry->is_readable = mmul_gguf_type_is_readable(type);
    entry->dtype = type->dtype;
    mmul_text_copy(entry->type, sizeof entry->type,
                   type->elements == 1 ? mmul_dtype_name(type->dtype) : type->name);
    return MMUL_OK;
}

static enum mmul_status read_tensor(struct reader *r, struct mmul_tensor_entry *entry) {
    enum { NAME_MAX_BYTES = 1024 };
    char name[NAME_MAX_BYTES];
    uint32_t dimensions = 0, type = 0;
    uint64_t sizes[MMUL_TENSOR_DIMENSIONS] = {1}, offset = 0;
    int64_t elements = 1;
    enum mmul_status status = read_text(r, name, sizeof name);
    if (status == MMUL_OK && name[0] == '\0')
        status = fail_header(r, "a tensor without a name, or with one of more than 1023 bytes");
    if (status == MMUL_OK)
        status = read_u32(r, &dimensions);
    if (status == MMUL_OK && dimensions > MMUL_TENSOR_DIMENSIONS)
        status = fail_header(r, "a tensor of more than 8 dimensions");
    for (uint32_t d = 0; status == MMUL_OK && d < dimensions; d++)
        status = read_u64(r, &sizes[d]);
    if (status == MMUL_OK)
        status = read_u32(r, &type);
    if (status == MMUL_OK)
        status = read_u64(r, &offset);
    if (status != MMUL_OK)
        return status;
    // GGUF lists the fastest dimension first, an entry lists it last.
    for (uint32_t d = 0; d < dimensions; d++) {
        entry->sizes[dimensions - 1 - d] = (int64_t)sizes[d];
        if (sizes[d] > INT64_MAX || !mmul_multiply_sizes(elements, (int64_t)sizes[d], &elements))
            return fail_header(r, "a tensor has too many elements to count");
    }
    entry->dimensions = (int)dimensions;
    entry->member = type;
    entry->offset = offset > INT64_MAX ? INT64_MAX : (int64_t)offset; // beyond the end of any file
    status = set_type_and_bytes(r, name, elements, sizes[0], entry);
    return status == MMUL_OK ? mmul_copy_text(name, &entry->name, r->err) : status;
}

// Makes offsets relative to the file instead of the header's end, and checks them. Tensors lie in
// the order of the header, so one of unknown type ends where the next begins.
static enum mmul_status place_tensors(const struct reader *r, struct mmul_tensors *tensors,
                                      uint32_t alignment) {
    const int64_t begin = mmul_divide_up(r->at, alignment) * alignment;
    int64_t next = r->file_bytes;
    for (int64_t t = tensors->count - 1; t >= 0; t--) {
        struct mmul_tensor_entry *entry = &tensors->all[t];
        const bool is_unknown = mmul_gguf_type_get((uint32_t)entry->member) == NULL;
        int64_t end;
        if (entry->offset % alignment != 0 ||
            __builtin_add_overflow(entry->offset, begin, &entry->offset) ||
            __builtin_add_overflow(entry->offset, entry->bytes, &end) || end > r->file_bytes)
            return mmul_fail(r->err, MMUL_ERR_DATA,
                             "'%s' is not a valid GGUF file: tensor '%s' does not lie in it",
                             r->name, entry->name);
        if (is_unknown)
            entry->bytes = mmul_max(next - entry->offset, 0);
        next = entry->offset;
    }
    return MMUL_OK;
}

static enum mmul_status read_header(struct reader *r, struct mmul_tensors **tensors) {
    enum { LEAST_BYTES = 8 + 4 + 4 + 8 }; // minimum size of a tensor's entry
    uint32_t start[2] = {0}, alignment = 0;
    uint64_t tensor_count = 0, value_count = 0;
    enum mmul_status status = read_bytes(r, start, sizeof start);
    if (status == MMUL_OK && start[1] != 2 && start[1] != 3)
        return mmul_fail(r->err, MMUL_ERR_DATA,
                         "'%s' is not read: GGUF version %u%s, expected 2 or 3", r->name,
                         start[1] > UINT16_MAX ? __builtin_bswap32(start[1]) : start[1],
                         start[1] > UINT16_MAX ? ", big-endian" : "");
    if (status == MMUL_OK)
        status = read_u64(r, &tensor_count);
    if (status == MMUL_OK)
        status = read_u64(r, &value_count);
    if (status == MMUL_OK)
        status = read_values(r, value_count, &alignment);
    if (status == MMUL_OK && tensor_count > (uint64_t)(r->file_bytes - r->at) / LEAST_BYTES)
        status = fail_header(r, "the file ends inside its header");
    if (status == MMUL_OK)
        status = mmul_tensors_create(MMUL_FORMAT_GGUF, r->file_bytes, (int64_t)tensor_count,
                                     tensors, r->err);
    for (uint64_t t = 0; status == MMUL_OK && t < tensor_count; t++) {
        status = read_tensor(r, &(*tensors)->all[t]);
        (*tensors)->count += status == MMUL_OK;
    }
    return status == MMUL_OK ? place_tensors(r, *tensors, alignment) : status;
}

enum mmul_status mmul_gguf_list(int fd, const char *name, int64_t file_bytes,
                                struct mmul_tensors **tensors, struct mmul_error *err) {
    struct reader r = {.fd = fd, .name = name, .file_bytes = file_bytes, .err = err};
    struct mmul_tensors *made = NULL;
    enum mmul_status status = read_header(&r, &made);
    if (status == MMUL_OK)
        *tensors = made;
    else
        mmul_tensors_close(made);
    return status;
}

// ---------------------------------------------------------------------------------------- decoding

bool mmul_gguf_is_packed(const struct mmul_tensor_entry *entry) {
    const struct mmul_gguf_type *type = mmul_gguf_type_get((uint32_t)entry->member);
    return type != NULL && type->decode != NULL;
}

enum mmul_status mmul_gguf_decode(int fd, const char *name, const struct mmul_tensor_entry *entry,
                                  struct mmul_decoded *to, struct mmul_error *err) {
    enum { BUFFER_BYTES = 64 << 10 };
    unsigned char packed[BUFFER_BYTES];
    float values[MMUL_GGUF_BLOCK_ELEMENTS_MAX];
    const struct mmul_gguf_type *type = mmul_gguf_type_get((uint32_t)entry->member);
    const int64_t at_once = BUFFER_BYTES / type->bytes * type->bytes;
    enum mmul_status status = MMUL_OK;
    for (int64_t done = 0, now; status == MMUL_OK && done < entry->bytes; done += now) {
        size_t got = 0;
        now = mmul_min(at_once, entry->bytes - done);
        int errnum = mmul_pread_all(fd, packed, (size_t)now, entry->offset + done, &got);
        if (errnum != 0)
            return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errnum, "cannot read '%s'", name);
        if ((int64_t)got < now)
            return mmul_matrix_fail_truncated(name, entry->offset + done + (int64_t)got,
                                              entry->offset + entry->bytes, err);
        for (int64_t at = 0; status == MMUL_OK && at < now; at += type->bytes) {
            type->decode(packed + at, values);
            status = mmul_decoded_append(to, values, (size_t)type->elements * sizeof *values, err);
        }
    }
    return status;
}

// Applies the matrix's range of the first axis, so that only these rows are decoded: rows are whole
// blocks. If the first axis is the row itself, the range stays to be applied later.
static enum mmul_status narrow_to_range(struct mmul_matrix *matrix, struct mmul_tensor_entry *entry,
                                        struct mmul_error *err) {
    const int64_t all = entry->sizes[0];
    int64_t begin, end;
    if (entry->dimensions < 2 || !mmul_axis_range_resolve(&matrix->range, all, &begin, &end))
        return MMUL_OK; // an empty range is refused later
    entry->offset += entry->bytes / all * begin;
    entry->bytes = entry->bytes / all * (end - begin);
    entry->sizes[0] = end - begin;
    matrix->range = (struct mmul_axis_range){0};
    return mmul_shape_from_sizes(entry->sizes, entry->dimensions, matrix->name, ".gguf",
                                 &matrix->info.shape, err);
}

static enum mmul_status decode_packed(struct mmul_matrix *matrix,
                                      const struct mmul_tensor_entry *entry,
                                      struct mmul_error *err) {
    struct mmul_tensor_entry part = *entry;
    struct mmul_decoded decoded;
    enum mmul_status status = narrow_to_range(matrix, &part, err);
    if (status != MMUL_OK)
        return status;
    status = mmul_decoded_init(&decoded, matrix->name, err);
    if (status == MMUL_OK)
        status = mmul_gguf_decode(matrix->fd, matrix->name, &part, &decoded, err);
    if (status == MMUL_OK)
        status = mmul_decoded_attach(&decoded, matrix, err);
    mmul_decoded_fini(&decoded);
    return status;
}

enum mmul_status mmul_gguf_select_tensor(struct mmul_matrix *matrix,
                                         const struct mmul_tensors *tensors,
                                         const struct mmul_tensor_entry *entry,
                                         struct mmul_error *err) {
    enum mmul_status status = mmul_matrix_set_tensor(matrix, entry, ".gguf", err);
    (void)tensors;
    return status == MMUL_OK && mmul_gguf_is_packed(entry) ? decode_packed(matrix, entry, err)
                                                           : status;
}
