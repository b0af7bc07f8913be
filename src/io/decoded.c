// SPDX-License-Identifier: MIT
// The file of decoded elements, written sequentially through a buffer, or mapped. The formats'
// files decode; here bytes have no meaning.
#include "io/decoded.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cache.h"
#include "base/memory.h"
#include "base/status.h"
#include "io/matrix_file.h"
#include "io/standard_stream.h"
#include "io/transfer.h"

enum { BUFFER_BYTES = 1 << 20 };

static enum mmul_status fail_storing(const struct mmul_decoded *decoded, int errnum,
                                     struct mmul_error *err) {
    mmul_fail_errno(err, MMUL_ERR_IO, errnum, "cannot store the elements of '%s' in '%s'",
                    decoded->name, mmul_temporary_folder());
    mmul_hint(err, "set TMPDIR to store them in another folder");
    return err->status;
}

enum mmul_status mmul_decoded_init(struct mmul_decoded *decoded, const char *name,
                                   struct mmul_error *err) {
    *decoded = (struct mmul_decoded){.name = name, .fd = -1};
    enum mmul_status status = mmul_unnamed_file_create(&decoded->fd, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE_RAW(decoded->buffer, BUFFER_BYTES, "a copy buffer", err);
    return status;
}

static enum mmul_status flush_buffer(struct mmul_decoded *decoded, struct mmul_error *err) {
    int errnum = mmul_pwrite_all(decoded->fd, decoded->buffer, decoded->filled,
                                 decoded->bytes - (int64_t)decoded->filled);
    decoded->filled = 0;
    return errnum == 0 ? MMUL_OK : fail_storing(decoded, errnum, err);
}

enum mmul_status mmul_decoded_append(struct mmul_decoded *decoded, const void *bytes, size_t count,
                                     struct mmul_error *err) {
    for (size_t done = 0, now; done < count; done += now) {
        const size_t room = BUFFER_BYTES - decoded->filled;
        now = count - done < room ? count - done : room;
        memcpy(decoded->buffer + decoded->filled, (const char *)bytes + done, now);
        decoded->filled += now;
        decoded->bytes += (int64_t)now;
        if (decoded->filled == BUFFER_BYTES && flush_buffer(decoded, err) != MMUL_OK)
            return err->status;
    }
    return MMUL_OK;
}

// Returns true if the file system has room. Checking first avoids filling the disk before failing.
static bool has_space(int fd, int64_t bytes) {
    struct statvfs space;
    return fstatvfs(fd, &space) != 0 || space.f_frsize == 0 ||
           (uint64_t)bytes / space.f_frsize <= space.f_bavail;
}

enum mmul_status mmul_decoded_map(struct mmul_decoded *decoded, int64_t bytes, void **memory,
                                  struct mmul_error *err) {
    int errnum = has_space(decoded->fd, bytes) ? 0 : ENOSPC;
    if (errnum == 0)
        do {
            errnum = posix_fallocate(decoded->fd, 0, bytes);
        } while (errnum == EINTR);
    if (errnum != 0)
        return fail_storing(decoded, errnum, err);
    void *mapped = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, decoded->fd, 0);
    if (mapped == MAP_FAILED)
        return mmul_fail_errno(err, MMUL_ERR_SYSTEM, errno, "cannot map the elements of '%s'",
                               decoded->name);
    decoded->mapped = *memory = mapped;
    decoded->bytes = bytes;
    return MMUL_OK;
}

enum mmul_status mmul_decoded_attach(struct mmul_decoded *decoded, struct mmul_matrix *matrix,
                                     struct mmul_error *err) {
    struct stat found;
    enum mmul_status status = flush_buffer(decoded, err);
    if (status != MMUL_OK)
        return status;
    if (fstat(decoded->fd, &found) != 0)
        return fail_storing(decoded, errno, err);
    if (mmul_matrix_was_written(matrix))
        return mmul_matrix_fail_changed(matrix->name, err);
    matrix->fd = decoded->fd; // the file descriptor now belongs to the matrix
    decoded->fd = -1;
    matrix->stored = found.st_mtim;
    matrix->info.file_bytes = decoded->bytes;
    matrix->data_offset = 0;
    return MMUL_OK;
}

void mmul_decoded_fini(struct mmul_decoded *decoded) {
    if (decoded->mapped != NULL)
        munmap(decoded->mapped, (size_t)decoded->bytes);
    if (decoded->fd >= 0)
        close(decoded->fd); // contents are discarded
    mmul_free(decoded->buffer);
}
