// SPDX-License-Identifier: MIT
// Members of .npz archives by way of libzip. Each is a .npy file of its own: to be read at any place by
// any rank of the node it is unpacked into a file without a name, as standard input is, and what
// follows is the same as for a .npy. Other members are not looked at.
#include "io/npz.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/npy.h"
#include "io/transfer.h"

static const char ending[] = ".npy";

static enum mmul_status fail_zip(const char *name, zip_error_t *problem, struct mmul_error *err) {
    enum mmul_status status = mmul_fail(err, MMUL_ERR_DATA, "'%s' is not a valid .npz file: %s",
                                        name, zip_error_strerror(problem));
    zip_error_fini(problem);
    return status;
}

static enum mmul_status archive_open(int fd, const char *name, zip_t **archive,
                                     struct mmul_error *err) {
    int code = 0, copy = dup(fd);
    if (copy < 0)
        return mmul_fail_errno(err, MMUL_ERR_SYSTEM, errno, "cannot open '%s'", name);
    zip_t *opened = zip_fdopen(copy, 0, &code);
    if (opened == NULL) {
        zip_error_t problem;
        close(copy);
        zip_error_init_with_code(&problem, code);
        return fail_zip(name, &problem, err);
    }
    *archive = opened;
    return MMUL_OK;
}

// Reads `count` bytes or fewer, where the member ends before. -1: it cannot be read.
static int64_t read_some(zip_file_t *file, void *dst, size_t count) {
    size_t done = 0;
    while (done < count) {
        zip_int64_t got = zip_fread(file, (char *)dst + done, count - done);
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (int64_t)done;
}

// ---------------------------------------------------------------------------------------- listing

// The member's header to `bytes`, which has room for the longest. 0: it has none that is valid.
static size_t read_header(zip_file_t *file, unsigned char *bytes) {
    struct mmul_error ignored;
    size_t length = 0;
    int64_t got = read_some(file, bytes, MMUL_NPY_PREFIX_BYTES);
    if (got < MMUL_NPY_PREFIX_BYTES ||
        mmul_npy_header_bytes(bytes, (size_t)got, "", &length, &ignored) != MMUL_OK)
        return 0;
    size_t rest = length > (size_t)got ? length - (size_t)got : 0;
    return read_some(file, bytes + got, rest) == (int64_t)rest ? length : 0;
}

// Type and sizes of a member, and how many bytes its elements take; what is not valid is called so.
static void describe(zip_t *archive, zip_uint64_t member, unsigned char *buffer,
                     struct mmul_tensor_entry *entry) {
    struct mmul_error ignored;
    zip_file_t *file = zip_fopen_index(archive, member, 0);
    size_t length = file != NULL ? read_header(file, buffer) : 0;
    if (file != NULL)
        zip_fclose(file);
    if (length > 0 && length <= (size_t)entry->bytes &&
        mmul_npy_describe(buffer, length, "", entry, &ignored) == MMUL_OK)
        entry->bytes -= (int64_t)length;
    else
        mmul_text_copy(entry->type, sizeof entry->type, "no valid .npy");
}

static enum mmul_status list_members(zip_t *archive, const char *name, struct mmul_tensors *tensors,
                                     unsigned char *buffer, struct mmul_error *err) {
    for (int64_t m = 0; m < tensors->capacity; m++) {
        zip_stat_t found;
        const zip_uint64_t needed = ZIP_STAT_NAME | ZIP_STAT_SIZE;
        if (zip_stat_index(archive, (zip_uint64_t)m, 0, &found) != 0 ||
            (found.valid & needed) != needed || found.size > INT64_MAX)
            continue;
        size_t length = strlen(found.name), end = sizeof ending - 1;
        if (length <= end || strcmp(found.name + length - end, ending) != 0)
            continue;
        if (zip_name_locate(archive, found.name, 0) != m) // numpy reads the last, others the first
            return mmul_fail(err, MMUL_ERR_DATA,
                             "'%s' is not a valid .npz file: it has '%s' more than once", name,
                             found.name);
        struct mmul_tensor_entry *entry = &tensors->all[tensors->count];
        enum mmul_status status = mmul_copy_text(found.name, &entry->name, err);
        if (status != MMUL_OK)
            return status;
        entry->name[length - end] = '\0';
        entry->member = m;
        entry->bytes = (int64_t)found.size;
        tensors->count++;
        describe(archive, (zip_uint64_t)m, buffer, entry);
    }
    return MMUL_OK;
}

enum mmul_status mmul_npz_list(int fd, const char *name, int64_t file_bytes,
                               struct mmul_tensors **tensors, struct mmul_error *err) {
    zip_t *archive = NULL;
    unsigned char *buffer = NULL;
    struct mmul_tensors *made = NULL;
    enum mmul_status status = archive_open(fd, name, &archive, err);
    if (status != MMUL_OK)
        return status;
    status = MMUL_ALLOCATE_RAW(buffer, MMUL_NPY_HEADER_MAX, "a .npy header", err);
    if (status == MMUL_OK)
        status = mmul_tensors_create(MMUL_FORMAT_NPZ, file_bytes, zip_get_num_entries(archive, 0),
                                     &made, err);
    if (status == MMUL_OK)
        status = list_members(archive, name, made, buffer, err);
    mmul_free(buffer);
    zip_discard(archive);
    if (status == MMUL_OK)
        *tensors = made;
    else
        mmul_tensors_close(made);
    return status;
}

// -------------------------------------------------------------------------------------- unpacking

static enum mmul_status copy_member(zip_file_t *file, const char *name, int64_t expected,
                                    struct mmul_decoded *to, struct mmul_error *err) {
    enum { BUFFER_BYTES = 64 << 10 };
    char buffer[BUFFER_BYTES];
    for (int64_t got = 1; got > 0;) {
        got = read_some(file, buffer, BUFFER_BYTES);
        if (got < 0)
            return mmul_fail(err, MMUL_ERR_DATA, "cannot read '%s': %s", name,
                             zip_file_strerror(file));
        if (to->bytes + got > expected)
            return mmul_fail(err, MMUL_ERR_DATA,
                             "cannot read '%s': it is longer than the archive says, which is "
                             "%lld bytes",
                             name, (long long)expected);
        if (mmul_decoded_add(to, buffer, (size_t)got, err) != MMUL_OK)
            return err->status;
    }
    return MMUL_OK;
}

enum mmul_status mmul_npz_unpack(int fd, const char *name, const struct mmul_tensor_entry *entry,
                                 struct mmul_decoded *to, struct mmul_error *err) {
    zip_t *archive = NULL;
    zip_stat_t found;
    enum mmul_status status = archive_open(fd, name, &archive, err);
    if (status != MMUL_OK)
        return status;
    zip_file_t *file = zip_fopen_index(archive, (zip_uint64_t)entry->member, 0);
    if (file == NULL || zip_stat_index(archive, (zip_uint64_t)entry->member, 0, &found) != 0)
        status = mmul_fail(err, MMUL_ERR_DATA, "cannot read '%s': %s", name, zip_strerror(archive));
    else
        status = copy_member(file, name, (int64_t)found.size, to, err);
    if (file != NULL)
        zip_fclose(file);
    zip_discard(archive);
    return status;
}

// ---------------------------------------------------------------------------------------- packing

// The archive as libzip writes it: it takes files by their names, which would lose the lock on ours.
struct sink {
    int fd;
    int64_t at, end;
    zip_error_t problem;
};

static zip_int64_t sink_write(struct sink *sink, const void *data, zip_uint64_t length) {
    int errnum = mmul_pwrite_all(sink->fd, data, length, sink->at);
    if (errnum != 0) {
        zip_error_set(&sink->problem, ZIP_ER_WRITE, errnum);
        return -1;
    }
    sink->at += (int64_t)length;
    sink->end = sink->at > sink->end ? sink->at : sink->end;
    return (zip_int64_t)length;
}

// There is nothing in the archive before, so that nothing is ever read from it.
static zip_int64_t sink_call(void *context, void *data, zip_uint64_t length,
                             zip_source_cmd_t command) {
    struct sink *sink = context;
    zip_int64_t offset;
    switch (command) {
    case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(
            ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR,
            ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL, ZIP_SOURCE_BEGIN_WRITE, ZIP_SOURCE_WRITE,
            ZIP_SOURCE_SEEK_WRITE, ZIP_SOURCE_TELL_WRITE, ZIP_SOURCE_COMMIT_WRITE,
            ZIP_SOURCE_ROLLBACK_WRITE, ZIP_SOURCE_REMOVE, ZIP_SOURCE_FREE, -1);
    case ZIP_SOURCE_STAT:
        zip_stat_init(data);
        ((zip_stat_t *)data)->valid = ZIP_STAT_SIZE;
        ((zip_stat_t *)data)->size = 0;
        return sizeof(zip_stat_t);
    case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&sink->problem, data, length);
    case ZIP_SOURCE_WRITE:
        return sink_write(sink, data, length);
    case ZIP_SOURCE_SEEK_WRITE:
        offset = zip_source_seek_compute_offset((zip_uint64_t)sink->at, (zip_uint64_t)sink->end,
                                                data, length, &sink->problem);
        if (offset >= 0)
            sink->at = offset;
        return offset < 0 ? -1 : 0;
    case ZIP_SOURCE_TELL_WRITE:
        return sink->at;
    default:
        return 0;
    }
}

// The whole file, as something to be added.
static zip_source_t *member_source(int member) {
    int copy = dup(member);
    FILE *stream = copy >= 0 ? fdopen(copy, "rb") : NULL;
    zip_source_t *source = stream != NULL ? zip_source_filep_create(stream, 0, -1, NULL) : NULL;
    if (source == NULL && stream != NULL)
        fclose(stream); // read only: nothing can be lost
    else if (source == NULL && copy >= 0)
        close(copy);
    return source;
}

static bool add_member(zip_t *archive, int member, const char *tensor) {
    enum { FIRST_OF_JANUARY_1980 = 0x21 };
    struct mmul_text file = {0};
    zip_source_t *source = member_source(member);
    zip_int64_t index = -1;
    mmul_text_add(&file, "%s%s", tensor, ending);
    if (source != NULL && !file.failed)
        index = zip_file_add(archive, file.data, source, ZIP_FL_ENC_UTF_8);
    mmul_text_fini(&file);
    if (index < 0) {
        zip_source_free(source);
        return false;
    }
    return zip_set_file_compression(archive, (zip_uint64_t)index, ZIP_CM_STORE, 0) == 0 &&
           zip_file_set_dostime(archive, (zip_uint64_t)index, 0, FIRST_OF_JANUARY_1980, 0) == 0;
}

enum mmul_status mmul_npz_pack(const struct mmul_npz_member *members, int count, int to,
                               const char *name, struct mmul_error *err) {
    struct sink sink = {.fd = to};
    enum mmul_status status = MMUL_OK;
    zip_error_init(&sink.problem);
    zip_source_t *target = zip_source_function_create(sink_call, &sink, NULL);
    zip_t *archive =
        target != NULL ? zip_open_from_source(target, ZIP_CREATE | ZIP_TRUNCATE, NULL) : NULL;
    bool is_added = archive != NULL;
    for (int i = 0; is_added && i < count; i++)
        is_added = add_member(archive, members[i].fd, members[i].tensor);
    if (archive == NULL) {
        zip_source_free(target);
        status = mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate an archive for '%s'", name);
    } else if (!is_added || zip_close(archive) != 0) {
        status = mmul_fail(err, MMUL_ERR_IO, "cannot write '%s': %s", name, zip_strerror(archive));
        zip_discard(archive);
    }
    zip_error_fini(&sink.problem);
    return status;
}
