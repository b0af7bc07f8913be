// SPDX-License-Identifier: MIT
// Lists and decodes tensors of PyTorch files. A tensor is a view of a storage, or of an array's
// bytes in the pickle: a first element, sizes and strides. Elements in C order are copied as one
// stretch. Otherwise the stretch that contains the view is unpacked and the elements are gathered.
// pickle.c and pt_old.c parse the pickles.
#include "io/pt.h"

#include <limits.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/matrix_file.h"
#include "io/pickle.h"
#include "io/pt_old.h"
#include "io/transfer.h"
#include "model/dtype.h"

static const char kind[] = "a valid PyTorch file";

enum { BUFFER_BYTES = 64 << 10 };

static enum mmul_status fail_tensor(const char *file, const char *tensor, const char *what,
                                    struct mmul_error *err) {
    return mmul_fail(err, MMUL_ERR_DATA, "'%s' is not a valid PyTorch file: tensor '%s': %s", file,
                     tensor, what);
}

// An open file: an archive, or the older form.
struct source {
    const char *name;
    struct mmul_archive *archive; // NULL: the older form
    char *folder;                 // owned: folder of all members, with a slash, or ""
    int64_t pickle_member;
    unsigned char *bytes; // owned: content of the pickle's member
    struct mmul_pickle pickle;
    bool is_big;
    struct mmul_pt_old old;
};

// ----------------------------------------------------------------------------------------- members

static const char pickle_name[] = "data.pkl";

static int count_folders(const char *path) {
    int count = 0;
    for (; *path != '\0'; path++)
        count += *path == '/';
    return count;
}

// Returns the member with the pickle: named so in any folder. Of several, the one in the fewest
// folders.
static int64_t find_pickle(struct mmul_archive *archive, int *folder_length) {
    const size_t length = sizeof pickle_name - 1;
    int64_t found = -1;
    int least = INT_MAX;
    for (int64_t m = 0; m < mmul_archive_count(archive); m++) {
        int64_t bytes;
        const char *name = mmul_archive_member_name(archive, m, &bytes);
        const size_t all = name != NULL ? strlen(name) : 0;
        if (all < length || strcmp(name + all - length, pickle_name) != 0 ||
            (all > length && name[all - length - 1] != '/') || count_folders(name) >= least)
            continue;
        found = m;
        least = count_folders(name);
        *folder_length = (int)(all - length); // names in zip archives have at most 65535 bytes
    }
    return found;
}

bool mmul_pt_has_pickle(struct mmul_archive *archive) {
    int ignored;
    return find_pickle(archive, &ignored) >= 0;
}

// Returns member FOLDER/NAME below the archive's own folder, -1 if there is none.
static int64_t find_member(const struct source *source, const char *folder, const char *name,
                           int length) {
    struct mmul_text path = {0};
    int64_t found = -1;
    if (memchr(name, '\0', (size_t)length) != NULL)
        return -1;
    mmul_text_add(&path, "%s%s%.*s", source->folder, folder, length, name);
    if (!path.failed)
        found = mmul_archive_find(source->archive, path.data);
    mmul_text_fini(&path);
    return found;
}

// Reads a whole member into *bytes, released with mmul_free.
static enum mmul_status read_member(struct mmul_archive *archive, int64_t member, const char *name,
                                    unsigned char **bytes, int64_t *count, struct mmul_error *err) {
    struct mmul_archive_stream *stream = NULL;
    int64_t length = 0;
    if (mmul_archive_member_name(archive, member, &length) == NULL || length > MMUL_PICKLE_MAX)
        return mmul_fail(err, MMUL_ERR_DATA,
                         "'%s' is not read: its pickle has %lld bytes, at most %d are read", name,
                         (long long)length, MMUL_PICKLE_MAX);
    enum mmul_status status = MMUL_ALLOCATE_RAW(*bytes, length, "a pickle", err);
    if (status == MMUL_OK)
        status = mmul_archive_open_member(archive, member, name, &stream, err);
    if (status == MMUL_OK)
        status = mmul_archive_read(stream, *bytes, length, count, err);
    mmul_archive_close_member(stream);
    return status;
}

static enum mmul_status read_byte_order(struct source *source, struct mmul_error *err) {
    static const char order[] = "byteorder";
    const int64_t member = find_member(source, "", order, (int)sizeof order - 1);
    unsigned char *bytes = NULL;
    int64_t count = 0;
    if (member < 0)
        return MMUL_OK;
    enum mmul_status status =
        read_member(source->archive, member, source->name, &bytes, &count, err);
    if (status == MMUL_OK) {
        source->is_big = count == 3 && memcmp(bytes, "big", 3) == 0;
        if (!source->is_big && (count != 6 || memcmp(bytes, "little", 6) != 0))
            status = mmul_fail(err, MMUL_ERR_DATA,
                               "'%s' is not a valid PyTorch file: its byteorder is neither little "
                               "nor big",
                               source->name);
    }
    mmul_free(bytes);
    return status;
}

static enum mmul_status open_archive(struct source *source, int fd, struct mmul_error *err) {
    int64_t count = 0, ignored;
    int length = 0;
    enum mmul_status status = mmul_archive_open(fd, source->name, kind, &source->archive, err);
    if (status != MMUL_OK)
        return status;
    source->pickle_member = find_pickle(source->archive, &length);
    if (source->pickle_member < 0)
        return mmul_fail(err, MMUL_ERR_DATA, "'%s' is not %s: it has no %s", source->name, kind,
                         pickle_name);
    status =
        mmul_copy_text(mmul_archive_member_name(source->archive, source->pickle_member, &ignored),
                       &source->folder, err);
    if (status == MMUL_OK)
        source->folder[length] = '\0';
    if (status == MMUL_OK)
        status = read_member(source->archive, source->pickle_member, source->name, &source->bytes,
                             &count, err);
    if (status == MMUL_OK)
        status =
            mmul_pickle_parse(source->bytes, (size_t)count, source->name, &source->pickle, err);
    return status == MMUL_OK ? read_byte_order(source, err) : status;
}

static bool is_archive(int fd) {
    unsigned char start[2];
    size_t got = 0;
    return mmul_pread_all(fd, start, sizeof start, 0, &got) == 0 && got == sizeof start &&
           memcmp(start, "PK", sizeof start) == 0;
}

static enum mmul_status open_source(struct source *source, int fd, int64_t file_bytes,
                                    struct mmul_error *err) {
    return is_archive(fd) ? open_archive(source, fd, err)
                          : mmul_pt_old_read(fd, source->name, file_bytes, &source->old, err);
}

static void close_source(struct source *source) {
    mmul_pickle_fini(&source->pickle);
    mmul_pt_old_fini(&source->old);
    mmul_free(source->bytes);
    mmul_free(source->folder);
    mmul_archive_close(source->archive);
}

// ----------------------------------------------------------------------------------------- listing

// Computes the number of elements, and the distance from the first to the last in the storage, both
// included. Returns false if there are too many to count.
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

// Finds the elements: an array's in the pickle, others in a storage of `bytes` bytes. Returns false
// if the storage is missing.
static bool find_elements(const struct source *source, const struct mmul_pickle_tensor *tensor,
                          struct mmul_tensor_entry *entry, int64_t *bytes) {
    const bool is_old = source->archive == NULL;
    entry->member = -1;
    if (tensor->elements != NULL) {
        entry->member = is_old ? -1 : source->pickle_member;
        entry->offset = tensor->elements - (is_old ? source->old.bytes : source->bytes);
        *bytes = tensor->elements_bytes;
        return true;
    }
    if (is_old) {
        const struct mmul_pt_old_storage *storage = mmul_pt_old_find(
            &source->old, (struct mmul_pickle_text){tensor->storage, tensor->storage_length});
        entry->offset = storage != NULL ? storage->offset : 0;
        *bytes = storage != NULL ? storage->bytes : 0;
        return storage != NULL;
    }
    entry->member = find_member(source, "data/", tensor->storage, tensor->storage_length);
    entry->offset = 0;
    return entry->member >= 0 &&
           mmul_archive_member_name(source->archive, entry->member, bytes) != NULL;
}

static enum mmul_status describe_tensor(const struct source *source,
                                        const struct mmul_pickle_tensor *tensor,
                                        struct mmul_tensor_entry *entry, struct mmul_error *err) {
    const char *name = source->name;
    const bool has_elements = tensor->storage != NULL || tensor->elements != NULL;
    int64_t count, stretch, end, first, held = 0;
    if (has_elements && !find_elements(source, tensor, entry, &held))
        return fail_tensor(name, tensor->name, "its storage is not there", err);
    if (!count_elements(tensor->dimensions, tensor->sizes, tensor->strides, &count, &stretch) ||
        __builtin_add_overflow(tensor->first, stretch, &end) ||
        !mmul_multiply_sizes(end, tensor->bytes_each, &end) ||
        !mmul_multiply_sizes(tensor->first, tensor->bytes_each, &first) ||
        __builtin_add_overflow(entry->offset, first, &entry->offset) ||
        !mmul_multiply_sizes(count, tensor->bytes_each, &entry->bytes))
        return fail_tensor(name, tensor->name, "its elements are too many to count", err);
    if (has_elements && tensor->is_readable && count > 0 && end > held)
        return fail_tensor(name, tensor->name, "it goes beyond the end of its storage", err);
    mmul_text_copy(entry->type, sizeof entry->type, tensor->type);
    entry->is_readable = tensor->is_readable;
    entry->dtype = tensor->dtype;
    entry->dimensions = tensor->dimensions;
    memcpy(entry->sizes, tensor->sizes, sizeof entry->sizes);
    memcpy(entry->strides, tensor->strides, sizeof entry->strides);
    entry->is_big = tensor->elements != NULL ? tensor->is_big : source->is_big;
    entry->is_latin1 = tensor->is_latin1;
    return mmul_copy_text(tensor->name, &entry->name, err);
}

static enum mmul_status list_tensors(struct source *source, int64_t file_bytes,
                                     struct mmul_tensors **tensors, struct mmul_error *err) {
    struct mmul_pickle *pickle = source->archive != NULL ? &source->pickle : &source->old.pickle;
    enum mmul_status status =
        mmul_tensors_create(MMUL_FORMAT_PT, file_bytes, pickle->count, tensors, err);
    for (int64_t t = 0; status == MMUL_OK && t < pickle->count; t++) {
        status = describe_tensor(source, &pickle->tensors[t], &(*tensors)->all[t], err);
        (*tensors)->count += status == MMUL_OK;
    }
    if (status != MMUL_OK)
        return status;
    (*tensors)->skipped = pickle->skipped; // ownership passes on
    (*tensors)->skipped_count = pickle->skipped_count;
    pickle->skipped = NULL;
    pickle->skipped_count = 0;
    return MMUL_OK;
}

enum mmul_status mmul_pt_list(int fd, const char *name, int64_t file_bytes,
                              struct mmul_tensors **tensors, struct mmul_error *err) {
    struct mmul_tensors *made = NULL;
    struct source source = {.name = name};
    enum mmul_status status = open_source(&source, fd, file_bytes, err);
    if (status == MMUL_OK)
        status = list_tensors(&source, file_bytes, &made, err);
    if (status == MMUL_OK) {
        made->archive = source.archive; // ownership passes on
        source.archive = NULL;
    }
    close_source(&source);
    if (status == MMUL_OK)
        *tensors = made;
    else
        mmul_tensors_close(made);
    return status;
}

// ---------------------------------------------------------------------------------------- decoding

// The elements of an entry while they are read: from a member of an archive or from the file, as
// bytes or as text.
struct elements {
    const char *name;
    struct mmul_archive_stream *stream; // NULL: the file
    int fd;
    int64_t at; // next byte of the file
    bool is_latin1;
    unsigned char lead; // first byte of a two-byte character
};

static enum mmul_status fail_truncated(const struct elements *elements, struct mmul_error *err) {
    return mmul_fail(err, MMUL_ERR_DATA, "cannot read '%s': its storage is shorter than %s says",
                     elements->name, elements->stream != NULL ? "the archive" : "the file");
}

static enum mmul_status read_raw(struct elements *elements, void *dst, int64_t count,
                                 struct mmul_error *err) {
    int64_t got = 0;
    size_t got_bytes = 0;
    if (elements->stream != NULL) {
        enum mmul_status status = mmul_archive_read(elements->stream, dst, count, &got, err);
        return status == MMUL_OK && got < count ? fail_truncated(elements, err) : status;
    }
    int errnum = mmul_pread_all(elements->fd, dst, (size_t)count, elements->at, &got_bytes);
    elements->at += count;
    if (errnum != 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errnum, "cannot read '%s'", elements->name);
    return got_bytes < (size_t)count ? fail_truncated(elements, err) : MMUL_OK;
}

// Decodes text to bytes. Characters U+0080 to U+00FF have two bytes. The pickle's parser has
// checked that there are no others.
static enum mmul_status read_latin1(struct elements *elements, unsigned char *dst, int64_t count,
                                    struct mmul_error *err) {
    unsigned char buffer[BUFFER_BYTES];
    enum mmul_status status = MMUL_OK;
    for (int64_t done = 0; status == MMUL_OK && done < count;) {
        const int64_t raw = mmul_min(BUFFER_BYTES, count - done);
        status = read_raw(elements, buffer, raw, err);
        for (int64_t b = 0; status == MMUL_OK && b < raw; b++) {
            if (buffer[b] >= 0xC0)
                elements->lead = buffer[b];
            else
                dst[done++] = buffer[b] < 0x80
                                  ? buffer[b]
                                  : (unsigned char)(elements->lead << 6 | (buffer[b] & 0x3F));
        }
    }
    return status;
}

static enum mmul_status read_exactly(struct elements *elements, void *dst, int64_t count,
                                     struct mmul_error *err) {
    return elements->is_latin1 ? read_latin1(elements, dst, count, err)
                               : read_raw(elements, dst, count, err);
}

static enum mmul_status begin_elements(struct elements *elements, struct mmul_archive *archive,
                                       const struct mmul_tensor_entry *entry,
                                       struct mmul_error *err) {
    char buffer[BUFFER_BYTES];
    elements->at = entry->offset;
    if (entry->member < 0)
        return MMUL_OK;
    enum mmul_status status =
        mmul_archive_open_member(archive, entry->member, elements->name, &elements->stream, err);
    for (int64_t done = 0; status == MMUL_OK && done < entry->offset; done += BUFFER_BYTES)
        status = read_raw(elements, buffer, mmul_min(BUFFER_BYTES, entry->offset - done), err);
    return status;
}

static enum mmul_status copy_elements(struct elements *elements, int64_t count,
                                      struct mmul_decoded *to, struct mmul_error *err) {
    char buffer[BUFFER_BYTES];
    enum mmul_status status = MMUL_OK;
    for (int64_t done = 0, now; status == MMUL_OK && done < count; done += now) {
        now = mmul_min(BUFFER_BYTES, count - done);
        status = read_exactly(elements, buffer, now, err);
        if (status == MMUL_OK)
            status = mmul_decoded_append(to, buffer, (size_t)now, err);
    }
    // libzip verifies the checksum when the storage's end is read.
    int64_t ignored;
    return status == MMUL_OK && elements->stream != NULL
               ? mmul_archive_read(elements->stream, buffer, 1, &ignored, err)
               : status;
}

// Copies the elements of a view one by one. Missing leading dimensions have size 1.
static enum mmul_status gather_view(const struct mmul_tensor_entry *entry, const char *stretch,
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
                    status = mmul_decoded_append(
                        to, stretch + b * step[0] + c * step[1] + i * step[2] + j * step[3],
                        (size_t)each, err);
    return status;
}

static enum mmul_status decode_view(struct elements *elements,
                                    const struct mmul_tensor_entry *entry, int64_t stretch_bytes,
                                    struct mmul_decoded *to, struct mmul_error *err) {
    struct mmul_decoded stretch;
    void *memory = NULL;
    enum mmul_status status = mmul_decoded_init(&stretch, elements->name, err);
    if (status == MMUL_OK)
        status = mmul_decoded_map(&stretch, stretch_bytes, &memory, err);
    if (status == MMUL_OK)
        status = read_exactly(elements, memory, stretch_bytes, err);
    if (status == MMUL_OK)
        status = gather_view(entry, memory, to, err);
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

enum mmul_status mmul_pt_decode(int fd, struct mmul_archive *archive, const char *name,
                                const struct mmul_tensor_entry *entry, struct mmul_decoded *to,
                                struct mmul_error *err) {
    struct elements elements = {.name = name, .fd = fd, .is_latin1 = entry->is_latin1};
    int64_t count = 0, stretch = 0;
    (void)count_elements(entry->dimensions, entry->sizes, entry->strides, &count, &stretch);
    enum mmul_status status = begin_elements(&elements, archive, entry, err);
    if (status == MMUL_OK)
        status = is_in_order(entry)
                     ? copy_elements(&elements, entry->bytes, to, err)
                     : decode_view(&elements, entry,
                                   stretch * (int64_t)mmul_dtype_bytes(entry->dtype), to, err);
    mmul_archive_close_member(elements.stream);
    return status;
}

enum mmul_status mmul_pt_select_tensor(struct mmul_matrix *matrix,
                                       const struct mmul_tensors *tensors,
                                       const struct mmul_tensor_entry *entry,
                                       struct mmul_error *err) {
    struct mmul_decoded decoded;
    enum mmul_status status = mmul_matrix_set_tensor(matrix, entry, ".pt", err);
    if (status != MMUL_OK)
        return status;
    matrix->info.big_endian = entry->is_big;
    status = mmul_decoded_init(&decoded, matrix->name, err);
    if (status == MMUL_OK)
        status = mmul_pt_decode(matrix->fd, tensors->archive, matrix->name, entry, &decoded, err);
    if (status == MMUL_OK)
        status = mmul_decoded_attach(&decoded, matrix, err);
    mmul_decoded_fini(&decoded);
    return status;
}
