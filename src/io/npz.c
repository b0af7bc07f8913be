// SPDX-License-Identifier: MIT
// Members of .npz archives. Each member is a .npy file of its own. It is unpacked into an unnamed
// file, as standard input is, so that any rank of the node can read any part of it. From there on
// the code for .npy applies. Other members are ignored.
#include "io/npz.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/npy.h"

static const char ending[] = ".npy";

// ----------------------------------------------------------------------------------------- listing

// Reads the member's header into `bytes`, which has room for the longest one. Returns its length, 0
// if it is invalid.
static size_t read_header(struct mmul_archive_stream *stream, unsigned char *bytes) {
    struct mmul_error ignored;
    size_t length = 0;
    int64_t got = 0, more = 0;
    if (mmul_archive_read(stream, bytes, MMUL_NPY_PREFIX_BYTES, &got, &ignored) != MMUL_OK ||
        got < MMUL_NPY_PREFIX_BYTES ||
        mmul_npy_header_bytes(bytes, (size_t)got, "", &length, &ignored) != MMUL_OK)
        return 0;
    const int64_t rest = (int64_t)length > got ? (int64_t)length - got : 0;
    return mmul_archive_read(stream, bytes + got, rest, &more, &ignored) == MMUL_OK && more == rest
               ? length
               : 0;
}

// Sets type, sizes and bytes of elements of a member. An invalid one gets a type that says so.
static void describe_member(struct mmul_archive *archive, unsigned char *buffer,
                            struct mmul_tensor_entry *entry) {
    struct mmul_error ignored;
    struct mmul_archive_stream *stream = NULL;
    char method[MMUL_ARCHIVE_METHOD_BYTES];
    size_t length = 0;
    if (mmul_archive_open_member(archive, entry->member, "", &stream, &ignored) == MMUL_OK)
        length = read_header(stream, buffer);
    mmul_archive_close_member(stream);
    if (length > 0 && length <= (size_t)entry->bytes &&
        mmul_npy_describe(buffer, length, "", entry, &ignored) == MMUL_OK)
        entry->bytes -= (int64_t)length;
    else if (mmul_archive_refuses(archive, entry->member, method))
        mmul_text_copy(entry->type, sizeof entry->type,
                       strcmp(method, "LZMA") == 0 ? "LZMA-compressed" : method);
    else
        mmul_text_copy(entry->type, sizeof entry->type, "no valid .npy");
}

// Returns true if the member is a .npy file by its name or, as in numpy, by its content. *stem is
// the length of its name without the ending.
static bool is_npy_member(struct mmul_archive *archive, int64_t member, const char *file,
                          size_t *stem) {
    const size_t length = strlen(file), end = sizeof ending - 1;
    const bool has_ending = length > end && strcmp(file + length - end, ending) == 0;
    *stem = has_ending ? length - end : length;
    return has_ending || mmul_archive_member_begins_with(archive, member, mmul_npy_magic,
                                                         (int)sizeof mmul_npy_magic);
}

static enum mmul_status list_members(struct mmul_archive *archive, const char *name,
                                     struct mmul_tensors *tensors, unsigned char *buffer,
                                     struct mmul_error *err) {
    for (int64_t m = 0; m < tensors->capacity; m++) {
        int64_t bytes = 0;
        const char *file = mmul_archive_member_name(archive, m, &bytes);
        size_t stem = 0;
        if (file == NULL || !is_npy_member(archive, m, file, &stem))
            continue;
        if (mmul_archive_find(archive, file) != m) // numpy reads the last one, others the first
            return mmul_fail(err, MMUL_ERR_DATA,
                             "'%s' is not a valid .npz file: it has '%s' more than once", name,
                             file);
        struct mmul_tensor_entry *entry = &tensors->all[tensors->count];
        enum mmul_status status = mmul_copy_text(file, &entry->name, err);
        if (status != MMUL_OK)
            return status;
        entry->name[stem] = '\0';
        entry->member = m;
        entry->bytes = bytes;
        tensors->count++;
        describe_member(archive, buffer, entry);
    }
    return MMUL_OK;
}

bool mmul_npz_has_arrays(struct mmul_archive *archive) {
    for (int64_t m = 0; m < mmul_archive_count(archive); m++) {
        int64_t bytes;
        size_t stem;
        const char *file = mmul_archive_member_name(archive, m, &bytes);
        if (file != NULL && is_npy_member(archive, m, file, &stem))
            return true;
    }
    return false;
}

enum mmul_status mmul_npz_list(int fd, const char *name, int64_t file_bytes,
                               struct mmul_tensors **tensors, struct mmul_error *err) {
    struct mmul_archive *archive = NULL;
    unsigned char *buffer = NULL;
    struct mmul_tensors *made = NULL;
    enum mmul_status status = mmul_archive_open(fd, name, "a valid .npz file", &archive, err);
    if (status == MMUL_OK)
        status = mmul_tensors_create(MMUL_FORMAT_NPZ, file_bytes, mmul_archive_count(archive),
                                     &made, err);
    if (status != MMUL_OK) {
        mmul_archive_close(archive);
        return status;
    }
    made->archive = archive; // ownership passes on
    status = MMUL_ALLOCATE_RAW(buffer, MMUL_NPY_HEADER_MAX, "a .npy header", err);
    if (status == MMUL_OK)
        status = list_members(archive, name, made, buffer, err);
    mmul_free(buffer);
    if (status == MMUL_OK)
        *tensors = made;
    else
        mmul_tensors_close(made);
    return status;
}

// --------------------------------------------------------------------------------------- unpacking

static enum mmul_status copy_member(struct mmul_archive_stream *stream, const char *name,
                                    int64_t expected, struct mmul_decoded *to,
                                    struct mmul_error *err) {
    enum { BUFFER_BYTES = 64 << 10 };
    char buffer[BUFFER_BYTES];
    for (int64_t got = 1; got > 0;) {
        if (mmul_archive_read(stream, buffer, BUFFER_BYTES, &got, err) != MMUL_OK)
            return err->status;
        if (to->bytes + got > expected)
            return mmul_fail(err, MMUL_ERR_DATA,
                             "cannot read '%s': it is longer than the archive says, which is "
                             "%lld bytes",
                             name, (long long)expected);
        if (mmul_decoded_append(to, buffer, (size_t)got, err) != MMUL_OK)
            return err->status;
    }
    return MMUL_OK;
}

enum mmul_status mmul_npz_unpack(struct mmul_archive *archive, const char *name,
                                 const struct mmul_tensor_entry *entry, struct mmul_decoded *to,
                                 struct mmul_error *err) {
    struct mmul_archive_stream *stream = NULL;
    int64_t bytes = 0;
    enum mmul_status status = mmul_archive_open_member(archive, entry->member, name, &stream, err);
    if (status == MMUL_OK)
        (void)mmul_archive_member_name(archive, entry->member, &bytes);
    if (status == MMUL_OK)
        status = copy_member(stream, name, bytes, to, err);
    mmul_archive_close_member(stream);
    return status;
}

// ---------------------------------------------------------------------------------------- checking

// Reads a member to its end, where libzip compares its checksum.
static enum mmul_status read_through(struct mmul_archive *archive, const char *file,
                                     const struct mmul_tensor_entry *entry,
                                     struct mmul_error *err) {
    char buffer[16 << 10];
    struct mmul_archive_stream *stream = NULL;
    struct mmul_text name = {0};
    mmul_text_add(&name, "%s:%s", file, entry->name);
    enum mmul_status status =
        name.failed ? mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a name")
                    : mmul_archive_open_member(archive, entry->member, name.data, &stream, err);
    for (int64_t got = 1; status == MMUL_OK && got > 0;)
        status = mmul_archive_read(stream, buffer, sizeof buffer, &got, err);
    mmul_archive_close_member(stream);
    mmul_text_fini(&name);
    return status;
}

enum mmul_status mmul_npz_verify_checksums(const struct mmul_tensors *tensors,
                                           struct mmul_error *err) {
    char method[MMUL_ARCHIVE_METHOD_BYTES];
    enum mmul_status status = MMUL_OK;
    for (int64_t i = 0; status == MMUL_OK && i < tensors->count; i++) {
        const struct mmul_tensor_entry *entry = &tensors->all[i];
        if (!entry->is_readable && !mmul_archive_refuses(tensors->archive, entry->member, method))
            status = read_through(tensors->archive, tensors->file->path, entry, err);
    }
    return status;
}
