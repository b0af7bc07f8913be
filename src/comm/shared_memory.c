// SPDX-License-Identifier: MIT
// Segments and files of a node. Every rank opens the leader's file descriptor through
// /proc/<pid>/fd. A memfd then needs no name that a crash could leave behind, and has no size limit
// of /dev/shm. A file is not looked up by its path again.
#include "comm/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "comm/refusal.h"

// The leader's message to its node, as plain bytes within one machine.
struct announcement {
    int64_t pid;
    int fd; // -1: the leader failed
    bool writable, has_shared_lock;
    uint64_t device, inode;
    int64_t offset, bytes;
};

static int allocate_space(int fd, int64_t bytes) {
    if (ftruncate(fd, bytes) != 0)
        return errno;
    int code;
    do
        code = posix_fallocate(fd, 0, bytes);
    while (code == EINTR);
    return code;
}

static enum mmul_status make_segment(int64_t bytes, int *fd, struct mmul_error *err) {
    char text[32];
    *fd = memfd_create("mpimatmul", MFD_CLOEXEC);
    int code = *fd < 0 ? errno : allocate_space(*fd, bytes);
    if (code == 0)
        return MMUL_OK;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return mmul_fail_errno(err, MMUL_ERR_SYSTEM, code, "cannot allocate %s of shared memory",
                           mmul_bytes_format(bytes, text));
}

static struct announcement announce(int fd, const struct mmul_shared_source *source) {
    struct stat found;
    if (fd < 0 || fstat(fd, &found) != 0)
        return (struct announcement){.pid = getpid(), .fd = -1};
    return (struct announcement){.pid = getpid(),
                                 .fd = fd,
                                 .writable = source->writable,
                                 .has_shared_lock = source->has_shared_lock,
                                 .device = found.st_dev,
                                 .inode = found.st_ino,
                                 .offset = source->offset,
                                 .bytes = source->bytes};
}

static bool is_announced(const struct announcement *from, const struct stat *found) {
    return found->st_dev == from->device && found->st_ino == from->inode;
}

// Shares the leader's lock. Returns false if the leader has lost it, e.g. because it was killed: a
// later job may use the file then. A file system without locks is used without.
static bool share_lock(const struct announcement *from, const char *path, int fd) {
    struct stat found;
    return (flock(fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) && stat(path, &found) == 0 &&
           is_announced(from, &found);
}

static enum mmul_status open_announced(const struct announcement *from, const char *name, int *fd,
                                       struct mmul_error *err) {
    char path[64];
    struct stat found;
    if (from->fd < 0)
        return mmul_fail(err, MMUL_ERR_SYSTEM, "the leader of this node could not open %s", name);
    snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)from->pid, from->fd);
    *fd = open(path, (from->writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (*fd < 0)
        return mmul_fail_errno(err, MMUL_ERR_SYSTEM, errno, "cannot open %s as '%s'", name, path);
    if (fstat(*fd, &found) == 0 && is_announced(from, &found) &&
        (!from->has_shared_lock || share_lock(from, path, *fd)))
        return MMUL_OK;
    close(*fd);
    *fd = -1;
    return mmul_fail(err, MMUL_ERR_SYSTEM, "'%s' is not %s of the node leader", path, name);
}

// Maps the pages around the requested range, which may begin anywhere in a page. On success the
// mapping owns fd.
static enum mmul_status map_pages(int fd, const struct announcement *from, const char *name,
                                  struct mmul_shared *shared, struct mmul_error *err) {
    char text[32];
    int64_t before = from->offset % sysconf(_SC_PAGESIZE), bytes = before + from->bytes;
    void *pages = mmap(NULL, (size_t)bytes, from->writable ? PROT_READ | PROT_WRITE : PROT_READ,
                       MAP_SHARED, fd, from->offset - before);
    if (pages == MAP_FAILED)
        return mmul_fail_errno(err, MMUL_ERR_SYSTEM, errno, "cannot map %s of %s",
                               mmul_bytes_format(from->bytes, text), name);
    *shared = (struct mmul_shared){.data = (char *)pages + before,
                                   .bytes = from->bytes,
                                   .mapping = pages,
                                   .mapped_bytes = bytes,
                                   .fd = fd};
    return MMUL_OK;
}

void mmul_shared_destroy(struct mmul_shared *shared) {
    if (shared->mapping != NULL) {
        munmap(shared->mapping, (size_t)shared->mapped_bytes);
        close(shared->fd);
    }
    *shared = (struct mmul_shared){0};
}

// Collective over node. Maps the leader's file into every rank. `status` and *err: the leader's so
// far.
static enum mmul_status map_for_node(const struct mmul_comm *comm, struct announcement from,
                                     const char *name, enum mmul_status status,
                                     struct mmul_shared *shared, struct mmul_error *err) {
    struct mmul_error later;
    MPI_Request request;
    if (mmul_refusal_get(err))
        return err->status;
    int fd = -1, code = MPI_Ibcast(&from, (int)sizeof from, MPI_BYTE, 0, comm->node, &request);
    code = mmul_comm_finish(code, &request);
    const enum mmul_status came =
        mmul_refusal_check(comm->world, code, "broadcast", status == MMUL_OK ? err : &later);
    status = status == MMUL_OK ? came : status;
    if (status == MMUL_OK)
        status = open_announced(&from, name, &fd, err);
    if (status == MMUL_OK)
        status = map_pages(fd, &from, name, shared, err);
    if (fd >= 0 && status != MMUL_OK)
        close(fd);
    // The leader may close its descriptor after all ranks have opened it.
    enum mmul_status waited = mmul_comm_node_barrier(comm, status == MMUL_OK ? err : &later);
    status = status == MMUL_OK ? waited : status;
    if (status != MMUL_OK)
        mmul_shared_destroy(shared);
    return status;
}

enum mmul_status mmul_shared_create(const struct mmul_comm *comm, int64_t bytes,
                                    struct mmul_shared *shared, struct mmul_error *err) {
    const struct mmul_shared_source source = {.bytes = bytes, .writable = true};
    enum mmul_status status = MMUL_OK;
    int fd = -1;
    *shared = (struct mmul_shared){0};
    if (bytes == 0)
        return MMUL_OK;
    if (comm->node_rank == 0)
        status = make_segment(bytes, &fd, err);
    status = map_for_node(comm, announce(fd, &source), "shared memory", status, shared, err);
    if (fd >= 0)
        close(fd);
    return status;
}

enum mmul_status mmul_shared_map(const struct mmul_comm *comm,
                                 const struct mmul_shared_source *source,
                                 struct mmul_shared *shared, struct mmul_error *err) {
    *shared = (struct mmul_shared){0};
    if (comm->node_size == 1 && source->memory != NULL) {
        *shared = (struct mmul_shared){.data = source->memory, .bytes = source->bytes};
        return MMUL_OK;
    }
    int fd = comm->node_rank == 0 ? source->fd : -1;
    return map_for_node(comm, announce(fd, source), source->name, MMUL_OK, shared, err);
}
