// SPDX-License-Identifier: MIT
// The node's segment. The leader's memfd is opened by the others through /proc/<pid>/fd: no name
// that a crash could leave behind, no size limit of /dev/shm.
#include "comm/shared_window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

// What the leader tells the others: plain bytes inside one machine.
struct announcement {
    int64_t pid;
    int fd; // -1: the leader failed
    uint64_t inode;
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

static enum mmul_status open_segment(const struct announcement *from, int *fd,
                                     struct mmul_error *err) {
    char path[64];
    struct stat found;
    if (from->fd < 0)
        return mmul_fail(err, MMUL_ERR_SYSTEM, "node leader has no shared memory");
    snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)from->pid, from->fd);
    *fd = open(path, O_RDWR | O_CLOEXEC);
    if (*fd < 0)
        return mmul_fail_errno(err, MMUL_ERR_SYSTEM, errno, "cannot open shared memory '%s'", path);
    if (fstat(*fd, &found) == 0 && (uint64_t)found.st_ino == from->inode)
        return MMUL_OK;
    close(*fd);
    *fd = -1;
    return mmul_fail(err, MMUL_ERR_SYSTEM, "shared memory '%s' is not the leader's", path);
}

static enum mmul_status map_segment(int fd, int64_t bytes, struct mmul_shared *shared,
                                    struct mmul_error *err) {
    char text[32];
    void *data = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED)
        return mmul_fail_errno(err, MMUL_ERR_SYSTEM, errno, "cannot map %s of shared memory",
                               mmul_bytes_format(bytes, text));
    *shared = (struct mmul_shared){.data = data, .bytes = bytes};
    return MMUL_OK;
}

enum mmul_status mmul_shared_create(const struct mmul_comm *comm, int64_t bytes,
                                    struct mmul_shared *shared, struct mmul_error *err) {
    struct announcement from = {.pid = getpid(), .fd = -1};
    enum mmul_status status = MMUL_OK, waited;
    int fd = -1;
    *shared = (struct mmul_shared){0};
    if (bytes == 0)
        return MMUL_OK;
    if (comm->node_rank == 0) {
        struct stat made = {0};
        status = make_segment(bytes, &fd, err);
        if (status == MMUL_OK)
            fstat(fd, &made);
        from.fd = fd;
        from.inode = made.st_ino;
    }
    int code = MPI_Bcast(&from, (int)sizeof from, MPI_BYTE, 0, comm->node);
    if (code != MPI_SUCCESS)
        status = mmul_comm_check(code, "broadcast", err);
    if (status == MMUL_OK && comm->node_rank != 0)
        status = open_segment(&from, &fd, err);
    if (status == MMUL_OK)
        status = map_segment(fd, bytes, shared, err);
    struct mmul_error ignored;
    waited = mmul_comm_node_barrier(comm, status == MMUL_OK ? err : &ignored); // all have opened it
    if (fd >= 0)
        close(fd);
    if (status == MMUL_OK)
        status = waited;
    return status;
}

void mmul_shared_destroy(struct mmul_shared *shared) {
    if (shared->data != NULL)
        munmap(shared->data, (size_t)shared->bytes);
    *shared = (struct mmul_shared){0};
}
