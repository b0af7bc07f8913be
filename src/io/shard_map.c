// SPDX-License-Identifier: MIT
// Maps shards into memory. The readers of their formats check header and length. io/shard_set.h
// decides which shard belongs to which set.
#include "io/shard_map.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/guard.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/status.h"
#include "io/file_mapping.h"
#include "io/file_stat.h"
#include "io/matrix_file.h"
#include "model/matrix.h"

int64_t mmul_shard_changed_ns(int fd) {
    struct stat now;
    return fd >= 0 && fstat(fd, &now) == 0 ? mmul_stat_nanoseconds(now.st_ctim) : 0;
}

// Opens the file again, without following a link. Device and inode prove that it is the file that
// the header was read from.
static enum mmul_status reopen_file(const struct mmul_matrix *matrix, bool writable, int *fd,
                                    struct mmul_error *err) {
    struct stat found;
    const int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    *fd = open(matrix->path, (writable ? O_RDWR : O_RDONLY) | flags);
    if (*fd < 0 || fstat(*fd, &found) != 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "cannot open shard '%s'",
                               matrix->path);
    if (found.st_uid != geteuid())
        return mmul_fail(err, MMUL_ERR_NO_INPUT,
                         "shard '%s' belongs to user %lu, not to user %lu: not used", matrix->path,
                         (unsigned long)found.st_uid, (unsigned long)geteuid());
    if (!mmul_matrix_is_file(matrix, &found))
        return mmul_fail(err, MMUL_ERR_NO_INPUT, "shard '%s' was replaced while it was opened",
                         matrix->path);
    return MMUL_OK;
}

static enum mmul_status check_header(const struct mmul_matrix *matrix, struct mmul_shape shape,
                                     enum mmul_dtype dtype, struct mmul_error *err) {
    const struct mmul_matrix_info info = mmul_matrix_info(matrix);
    char found[96], expected[96];
    const bool is_plain = !info.fortran_order && !info.big_endian;
    if (mmul_shape_equal(info.shape, shape) && info.stored == dtype && is_plain)
        return MMUL_OK;
    return mmul_fail(err, MMUL_ERR_DATA, "shard '%s' is %s %s, but its set says %s %s",
                     matrix->name, mmul_shape_format(info.shape, found),
                     mmul_dtype_name(info.stored), mmul_shape_format(shape, expected),
                     mmul_dtype_name(dtype));
}

static enum mmul_status map_file(const struct mmul_matrix *matrix, bool writable,
                                 struct mmul_shard_map *map, struct mmul_error *err) {
    const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    enum mmul_status status = reopen_file(matrix, writable, &map->fd, err);
    if (status != MMUL_OK)
        return status;
    map->mapped_bytes = matrix->info.file_bytes;
    map->mapping = mmap(NULL, (size_t)map->mapped_bytes, protection, MAP_SHARED, map->fd, 0);
    if (map->mapping == MAP_FAILED) {
        map->mapping = NULL;
        return mmul_fail_errno(err, MMUL_ERR_SYSTEM, errno, "cannot map shard '%s'", matrix->path);
    }
    map->elements = (char *)map->mapping + matrix->data_offset;
    map->changed_ns = mmul_shard_changed_ns(map->fd);
    status = mmul_copy_text(matrix->path, &map->name, err);
    if (status == MMUL_OK && !writable)
        status = mmul_guard_create(map->mapping, map->mapped_bytes, &map->guard, err);
    return status;
}

enum mmul_status mmul_shard_map_open(const char *path, struct mmul_shape shape,
                                     enum mmul_dtype dtype, bool writable,
                                     struct mmul_shard_map *map, struct mmul_error *err) {
    struct mmul_shard_map opened = {.fd = -1};
    struct mmul_matrix *matrix = NULL;
    enum mmul_status status = mmul_matrix_open_shard(path, &matrix, err);
    if (status == MMUL_OK)
        status = check_header(matrix, shape, dtype, err);
    if (status == MMUL_OK)
        status = map_file(matrix, writable, &opened, err);
    mmul_matrix_close(matrix);
    if (status == MMUL_OK)
        *map = opened;
    else
        mmul_shard_map_close(&opened);
    return status;
}

void mmul_shard_map_close(struct mmul_shard_map *map) {
    mmul_guard_destroy(map->guard);
    if (map->mapping != NULL)
        munmap(map->mapping, (size_t)map->mapped_bytes);
    if (map->fd > 0) // never standard input
        close(map->fd);
    mmul_free(map->name);
    *map = (struct mmul_shard_map){.fd = -1};
}

uint64_t mmul_shard_map_hash(const struct mmul_shard_map *map) {
    return mmul_hash(map->mapping, (size_t)map->mapped_bytes);
}

enum mmul_status mmul_shard_map_check(const struct mmul_shard_map *map, struct mmul_error *err) {
    if (!mmul_guard_has_failed(map->guard) && mmul_shard_changed_ns(map->fd) == map->changed_ns)
        return MMUL_OK;
    // A file that lost its name is still the same file: a later job may keep a new set under the
    // name.
    struct stat now;
    if (!mmul_guard_has_failed(map->guard) && fstat(map->fd, &now) == 0 && now.st_nlink == 0)
        return MMUL_OK;
    mmul_fail(err, MMUL_ERR_DATA, "shard '%s' was changed while it was used", map->name);
    mmul_hint(err, "do not change kept sets while the job runs");
    return MMUL_ERR_DATA;
}
