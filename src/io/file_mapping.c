// SPDX-License-Identifier: MIT
// Decides which matrices can be used in place, and finds the cause of a failed use. Nothing stays
// mapped here: one page is mapped for a moment to test the file system.
#include "io/file_mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"
#include "io/file_stat.h"
#include "io/matrix_file.h"
#include "io/output_file.h"
#include "io/selection.h"
#include "model/dtype.h"
#include "model/matrix.h"

// A write-only descriptor cannot be mapped, so the file is opened again.
bool mmul_file_can_map(int fd, bool writable) {
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (again < 0)
        return false;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    void *mapped = mmap(NULL, page, protection, MAP_SHARED, again, 0);
    if (mapped != MAP_FAILED)
        munmap(mapped, page);
    close(again);
    return mapped != MAP_FAILED;
}

// Narrows the extent of the whole stack to the selection. Returns false if the selection lies apart
// in it.
static bool narrow_extent(struct mmul_extent *extent, const struct mmul_selection *selection,
                          enum mmul_dtype dtype) {
    int64_t first;
    if (selection == NULL)
        return true;
    if (!mmul_selection_is_contiguous(selection, &first))
        return false;
    first *= (int64_t)mmul_dtype_bytes(dtype);
    extent->offset += first;
    if (extent->memory != NULL)
        extent->memory = (char *)extent->memory + first;
    return true;
}

// Mappings begin on a page, so the offset decides for a file, the pointer for memory.
static bool is_aligned(const struct mmul_extent *extent, enum mmul_dtype dtype) {
    uint64_t address =
        extent->memory != NULL ? (uintptr_t)extent->memory : (uint64_t)extent->offset;
    return address % mmul_dtype_bytes(dtype) == 0;
}

bool mmul_matrix_extent(const struct mmul_matrix *matrix, enum mmul_dtype dtype,
                        struct mmul_extent *extent) {
    const struct mmul_matrix_info *info = &matrix->info;
    struct mmul_error ignored;
    struct mmul_extent found = {.memory = (void *)matrix->memory,
                                .fd = matrix->fd,
                                .path = matrix->path,
                                .offset = matrix->data_offset,
                                .modified_ns = mmul_stat_nanoseconds(matrix->stored)};
    if (info->stored != dtype || info->fortran_order || info->big_endian ||
        !narrow_extent(&found, matrix->selection, info->stored))
        return false;
    if (mmul_shape_bytes(info->shape, info->stored, &found.bytes, &ignored) != MMUL_OK)
        return false;
    if (!is_aligned(&found, info->stored) ||
        (found.memory == NULL && !mmul_file_can_map(found.fd, false)))
        return false;
    *extent = found;
    return true;
}

bool mmul_output_extent(const struct mmul_output *output, enum mmul_dtype dtype,
                        struct mmul_extent *extent) {
    struct mmul_error ignored;
    struct mmul_extent found = {.memory = output->memory,
                                .fd = output->fd,
                                .offset = output->data_offset,
                                .has_shared_lock = output->journal_path != NULL};
    if (output->dtype != dtype || (found.memory == NULL && !output->is_reserved))
        return false; // also for an expected output
    if (!narrow_extent(&found, output->selection, output->dtype))
        return false;
    if (mmul_shape_bytes(output->shape, output->dtype, &found.bytes, &ignored) != MMUL_OK)
        return false;
    if (!is_aligned(&found, output->dtype) ||
        (found.memory == NULL && !mmul_file_can_map(found.fd, true)))
        return false;
    *extent = found;
    return true;
}

// -------------------------------------------------------------------------------- checks after use

static enum mmul_status fail_mapped(const struct mmul_mapped_file *file, int errnum,
                                    struct mmul_error *err) {
    if (file->is_output)
        return mmul_fail_errno(err, MMUL_ERR_IO, errnum, "cannot write '%s'", file->name);
    return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errnum, "cannot read '%s'", file->name);
}

static enum mmul_status fail_truncated(const struct mmul_mapped_file *file, int64_t end,
                                       struct mmul_error *err) {
    if (!file->is_output)
        return mmul_matrix_fail_truncated(file->name, end, file->end, err);
    return mmul_fail(err, MMUL_ERR_IO,
                     "cannot write '%s': its temporary file has become shorter: %lld bytes, "
                     "expected %lld",
                     file->name, (long long)end, (long long)file->end);
}

int64_t mmul_file_modified_ns(int fd) {
    struct stat now;
    if (fd < 0 || fstat(fd, &now) != 0)
        return 0;
    return mmul_stat_nanoseconds(now.st_mtim);
}

enum mmul_status mmul_mapped_check_same(const struct mmul_mapped_file *file,
                                        struct mmul_error *err) {
    if (file->is_output || file->fd < 0 || mmul_file_modified_ns(file->fd) == file->modified_ns)
        return MMUL_OK;
    mmul_fail(err, MMUL_ERR_DATA, "'%s' was written to while it was used", file->name);
    mmul_hint(err, "do not change inputs while the job runs");
    return MMUL_ERR_DATA;
}

enum mmul_status mmul_mapped_check(const struct mmul_mapped_file *file, bool has_failed,
                                   struct mmul_error *err) {
    struct stat now;
    if (file->fd >= 0 && fstat(file->fd, &now) != 0)
        return fail_mapped(file, errno, err);
    if (file->fd >= 0 && now.st_size < file->end)
        return fail_truncated(file, now.st_size, err);
    if (!has_failed)
        return MMUL_OK;
    enum mmul_status status = mmul_mapped_check_same(file, err); // e.g. shorter for a while
    return status == MMUL_OK ? fail_mapped(file, EIO, err) : status;
}
