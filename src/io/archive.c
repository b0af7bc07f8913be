// SPDX-License-Identifier: MIT
// Reads and writes members of zip archives with libzip. libzip gets callbacks on open files instead
// of names: reads go by position, so archives can share a descriptor, and a written file keeps its
// lock. Does not look at what members hold.
#include "io/archive.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <zip.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/transfer.h"

struct mmul_archive {
    zip_t *zip;
};

struct mmul_archive_stream {
    zip_file_t *file;
    const char *name; // borrowed
};

// A file that libzip reads by position, so that several archives and lists can share one
// descriptor.
struct span {
    int fd; // borrowed
    int64_t bytes, at;
    zip_error_t problem;
};

static zip_int64_t span_read(struct span *span, void *data, zip_uint64_t length) {
    size_t got = 0;
    const int64_t left = span->bytes - span->at;
    const size_t count = length < (zip_uint64_t)left ? (size_t)length : (size_t)left;
    int errnum = mmul_pread_all(span->fd, data, count, span->at, &got);
    if (errnum != 0) {
        zip_error_set(&span->problem, ZIP_ER_READ, errnum);
        return -1;
    }
    span->at += (int64_t)got;
    return (zip_int64_t)got;
}

static zip_int64_t span_call(void *context, void *data, zip_uint64_t length,
                             zip_source_cmd_t command) {
    struct span *span = context;
    zip_int64_t offset;
    switch (command) {
    case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE,
                                              ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR, ZIP_SOURCE_SEEK,
                                              ZIP_SOURCE_TELL, ZIP_SOURCE_FREE, -1);
    case ZIP_SOURCE_OPEN:
        span->at = 0;
        return 0;
    case ZIP_SOURCE_READ:
        return span_read(span, data, length);
    case ZIP_SOURCE_STAT:
        zip_stat_init(data);
        ((zip_stat_t *)data)->valid = ZIP_STAT_SIZE;
        ((zip_stat_t *)data)->size = (zip_uint64_t)span->bytes;
        return sizeof(zip_stat_t);
    case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&span->problem, data, length);
    case ZIP_SOURCE_SEEK:
        offset = zip_source_seek_compute_offset((zip_uint64_t)span->at, (zip_uint64_t)span->bytes,
                                                data, length, &span->problem);
        if (offset >= 0)
            span->at = offset;
        return offset < 0 ? -1 : 0;
    case ZIP_SOURCE_TELL:
        return span->at;
    case ZIP_SOURCE_FREE:
        zip_error_fini(&span->problem);
        mmul_free(span);
        return 0;
    default:
        return 0;
    }
}

static enum mmul_status fail_memory(const char *name, struct mmul_error *err) {
    return mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate an archive for '%s'", name);
}

// Makes a source for the whole file. Fails with MMUL_ERR_SYSTEM.
static enum mmul_status create_span_source(int fd, const char *name, zip_source_t **source,
                                           struct mmul_error *err) {
    struct stat found;
    struct span *span = NULL;
    if (fstat(fd, &found) != 0)
        return mmul_fail_errno(err, MMUL_ERR_SYSTEM, errno, "cannot get the size of '%s'", name);
    if (MMUL_ALLOCATE(span, 1, "a file", err) != MMUL_OK)
        return err->status;
    *span = (struct span){.fd = fd, .bytes = found.st_size};
    zip_error_init(&span->problem);
    zip_source_t *made = zip_source_function_create(span_call, span, NULL);
    if (made == NULL) {
        mmul_free(span);
        return fail_memory(name, err);
    }
    *source = made;
    return MMUL_OK;
}

// Reports a failed read. A failure of memory or of the disk is no fault of the file's.
static enum mmul_status fail_read(zip_error_t *problem, const char *name, struct mmul_error *err) {
    if (zip_error_code_zip(problem) == ZIP_ER_MEMORY)
        return fail_memory(name, err);
    const bool is_of_disk =
        zip_error_system_type(problem) == ZIP_ET_SYS && zip_error_code_system(problem) != 0;
    const enum mmul_status status = is_of_disk ? MMUL_ERR_NO_INPUT : MMUL_ERR_DATA;
    return mmul_fail(err, status, "cannot read '%s': %s", name, zip_error_strerror(problem));
}

enum mmul_status mmul_archive_open(int fd, const char *name, const char *kind,
                                   struct mmul_archive **archive, struct mmul_error *err) {
    struct mmul_archive *made = NULL;
    zip_error_t problem;
    zip_source_t *source = NULL;
    if (create_span_source(fd, name, &source, err) != MMUL_OK)
        return err->status;
    zip_error_init(&problem);
    zip_t *opened = zip_open_from_source(source, ZIP_RDONLY, &problem);
    if (opened == NULL) {
        zip_source_free(source);
        if (fail_read(&problem, name, err) == MMUL_ERR_DATA)
            mmul_fail(err, MMUL_ERR_DATA, "'%s' is not %s: %s", name, kind,
                      zip_error_strerror(&problem));
        zip_error_fini(&problem);
        return err->status;
    }
    if (MMUL_ALLOCATE(made, 1, "an archive", err) != MMUL_OK) {
        zip_discard(opened);
        return err->status;
    }
    made->zip = opened;
    *archive = made;
    return MMUL_OK;
}

void mmul_archive_close(struct mmul_archive *archive) {
    if (archive == NULL)
        return;
    zip_discard(archive->zip);
    mmul_free(archive);
}

int64_t mmul_archive_count(const struct mmul_archive *archive) {
    return zip_get_num_entries(archive->zip, 0);
}

const char *mmul_archive_member_name(struct mmul_archive *archive, int64_t member, int64_t *bytes) {
    zip_stat_t found;
    const zip_uint64_t needed = ZIP_STAT_NAME | ZIP_STAT_SIZE;
    if (zip_stat_index(archive->zip, (zip_uint64_t)member, 0, &found) != 0 ||
        (found.valid & needed) != needed || found.size > INT64_MAX)
        return NULL;
    *bytes = (int64_t)found.size;
    return found.name;
}

int64_t mmul_archive_find(struct mmul_archive *archive, const char *name) {
    return zip_name_locate(archive->zip, name, 0);
}

bool mmul_archive_refuses(struct mmul_archive *archive, int64_t member,
                          char method[static MMUL_ARCHIVE_METHOD_BYTES]) {
    zip_stat_t found;
    if (zip_stat_index(archive->zip, (zip_uint64_t)member, 0, &found) != 0 ||
        (found.valid & ZIP_STAT_COMP_METHOD) == 0)
        return false;
    const bool is_lzma = found.comp_method == ZIP_CM_LZMA;
    if (is_lzma)
        snprintf(method, MMUL_ARCHIVE_METHOD_BYTES, "LZMA");
    else
        snprintf(method, MMUL_ARCHIVE_METHOD_BYTES, "zip method %d", found.comp_method);
    return is_lzma || zip_compression_method_supported(found.comp_method, 0) == 0;
}

enum mmul_status mmul_archive_open_member(struct mmul_archive *archive, int64_t member,
                                          const char *name, struct mmul_archive_stream **stream,
                                          struct mmul_error *err) {
    struct mmul_archive_stream *made = NULL;
    char method[MMUL_ARCHIVE_METHOD_BYTES];
    if (mmul_archive_refuses(archive, member, method)) {
        mmul_fail(err, MMUL_ERR_DATA, "cannot read '%s': it is compressed with %s", name, method);
        mmul_hint(err, "unpack the archive and pack it again: zip -r");
        return err->status;
    }
    zip_file_t *file = zip_fopen_index(archive->zip, (zip_uint64_t)member, 0);
    if (file == NULL)
        return fail_read(zip_get_error(archive->zip), name, err);
    if (MMUL_ALLOCATE(made, 1, "a member of an archive", err) != MMUL_OK) {
        zip_fclose(file);
        return err->status;
    }
    *made = (struct mmul_archive_stream){.file = file, .name = name};
    *stream = made;
    return MMUL_OK;
}

void mmul_archive_close_member(struct mmul_archive_stream *stream) {
    if (stream == NULL)
        return;
    zip_fclose(stream->file);
    mmul_free(stream);
}

enum mmul_status mmul_archive_read(struct mmul_archive_stream *stream, void *dst, int64_t count,
                                   int64_t *got, struct mmul_error *err) {
    int64_t done = 0;
    while (done < count) {
        zip_int64_t now = zip_fread(stream->file, (char *)dst + done, (zip_uint64_t)(count - done));
        if (now < 0)
            return fail_read(zip_file_get_error(stream->file), stream->name, err);
        if (now == 0)
            break;
        done += now;
    }
    *got = done;
    return MMUL_OK;
}

bool mmul_archive_member_begins_with(struct mmul_archive *archive, int64_t member,
                                     const unsigned char *bytes, int count) {
    enum { MOST = 16 };
    unsigned char start[MOST];
    struct mmul_archive_stream *stream = NULL;
    struct mmul_error ignored;
    int64_t got = 0;
    const bool is_read =
        count <= MOST &&
        mmul_archive_open_member(archive, member, "", &stream, &ignored) == MMUL_OK &&
        mmul_archive_read(stream, start, count, &got, &ignored) == MMUL_OK;
    mmul_archive_close_member(stream);
    return is_read && got == count && memcmp(start, bytes, (size_t)count) == 0;
}

// ----------------------------------------------------------------------------------------- packing

// The file that libzip writes an archive to. libzip itself opens files by name, which would lose
// the lock on this one.
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

// Serves libzip's calls on an archive that starts empty, so no read is ever requested.
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

static enum mmul_status fail_write(zip_t *archive, const char *name, struct mmul_error *err) {
    zip_error_t *problem = zip_get_error(archive);
    const int code = zip_error_code_zip(problem);
    if (code == ZIP_ER_MEMORY || code == ZIP_ER_OK) // some functions of libzip record no failure
        return fail_memory(name, err);
    if (zip_error_system_type(problem) == ZIP_ET_SYS && zip_error_code_system(problem) != 0)
        return mmul_fail_errno(err, MMUL_ERR_IO, zip_error_code_system(problem),
                               "cannot write '%s'", name);
    return mmul_fail(err, MMUL_ERR_IO, "cannot write '%s': %s", name, zip_error_strerror(problem));
}

static enum mmul_status add_member(zip_t *archive, const struct mmul_archive_part *part,
                                   const char *ending, const char *name, struct mmul_error *err) {
    enum { FIRST_OF_JANUARY_1980 = 0x21 };
    const zip_uint32_t owners_file = (zip_uint32_t)0100600 << 16; // mode as numpy sets it
    struct mmul_text file = {0};
    zip_source_t *source = NULL;
    zip_int64_t index = -1;
    mmul_text_add(&file, "%s%s", part->name, ending);
    enum mmul_status status =
        file.failed ? fail_memory(name, err) : create_span_source(part->fd, name, &source, err);
    if (status == MMUL_OK) {
        index = zip_file_add(archive, file.data, source, ZIP_FL_ENC_UTF_8);
        if (index < 0)
            zip_source_free(source);
        if (index < 0 ||
            zip_set_file_compression(archive, (zip_uint64_t)index, ZIP_CM_STORE, 0) != 0 ||
            zip_file_set_external_attributes(archive, (zip_uint64_t)index, 0, ZIP_OPSYS_UNIX,
                                             owners_file) != 0 ||
            zip_file_set_dostime(archive, (zip_uint64_t)index, 0, FIRST_OF_JANUARY_1980, 0) != 0)
            status = fail_write(archive, name, err);
    }
    mmul_text_fini(&file);
    return status;
}

enum mmul_status mmul_archive_write(const struct mmul_archive_content *content, int to,
                                    const char *name, struct mmul_error *err) {
    struct sink sink = {.fd = to};
    enum mmul_status status = MMUL_OK;
    zip_error_init(&sink.problem);
    zip_source_t *target = zip_source_function_create(sink_call, &sink, NULL);
    zip_t *archive =
        target != NULL ? zip_open_from_source(target, ZIP_CREATE | ZIP_TRUNCATE, NULL) : NULL;
    if (archive == NULL) {
        zip_source_free(target);
        status = fail_memory(name, err);
    }
    for (int i = 0; status == MMUL_OK && i < content->count; i++)
        status = add_member(archive, &content->parts[i], content->ending, name, err);
    if (status == MMUL_OK && zip_close(archive) != 0)
        status = fail_write(archive, name, err);
    if (status != MMUL_OK && archive != NULL)
        zip_discard(archive);
    zip_error_fini(&sink.problem);
    return status;
}
