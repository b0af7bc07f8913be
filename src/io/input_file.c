// SPDX-License-Identifier: MIT
// Open input files with reference counts and detection of later writes. matrix_file.c interprets
// the content.
#include "io/input_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "io/fingerprint.h"

// A second write within one step of the kernel's file times, at most 10 ms, leaves the time
// unchanged (src/NOTES.md, "Files and disks").
enum { STEP_NS = 20 * 1000 * 1000 };

static enum mmul_status fail_open(int errnum, const char *name, struct mmul_error *err) {
    bool exhausted = errnum == EMFILE || errnum == ENFILE || errnum == ENOMEM;
    return mmul_fail_errno(err, exhausted ? MMUL_ERR_SYSTEM : MMUL_ERR_NO_INPUT, errnum,
                           "cannot open '%s'", name);
}

static enum mmul_status check_kind(mode_t mode, const char *name, struct mmul_error *err) {
    if (S_ISREG(mode))
        return MMUL_OK;
    const char *kind = S_ISDIR(mode)    ? "a folder"
                       : S_ISFIFO(mode) ? "a FIFO"
                                        : "not a regular file";
    return mmul_fail(err, MMUL_ERR_NO_INPUT, "cannot read '%s': it is %s", name, kind);
}

static bool is_recent(const struct stat *file) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return true;
    const int64_t age = (now.tv_sec - file->st_mtim.tv_sec) * INT64_C(1000000000) +
                        (now.tv_nsec - file->st_mtim.tv_nsec);
    return age < STEP_NS;
}

static enum mmul_status hash_samples(const struct mmul_input_file *file, uint64_t *samples,
                                     struct mmul_error *err) {
    struct mmul_fingerprint fingerprint;
    const struct mmul_file_range all = {0, file->opened.st_size};
    enum mmul_status status =
        mmul_fingerprint_compute(file->fd, file->path, all, 1, &fingerprint, err);
    if (status == MMUL_OK)
        *samples = fingerprint.hash;
    return status;
}

enum mmul_status mmul_input_file_open(const char *path, int fd, const char *name,
                                      struct mmul_input_file **file, struct mmul_error *err) {
    struct mmul_input_file *made = NULL;
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "a file", err);
    if (status != MMUL_OK) {
        if (fd >= 0)
            close(fd);
        return status;
    }
    // O_NONBLOCK keeps a FIFO from waiting for a writer. Regular files ignore it.
    made->fd = fd >= 0 ? fd : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    made->references = 1;
    if (made->fd < 0 || fstat(made->fd, &made->opened) != 0)
        status = fail_open(errno, name, err);
    if (status == MMUL_OK)
        status = check_kind(made->opened.st_mode, name, err);
    if (status == MMUL_OK)
        status = mmul_copy_text(path, &made->path, err);
    if (status == MMUL_OK && is_recent(&made->opened)) {
        made->is_recent = true;
        status = hash_samples(made, &made->samples, err);
    }
    if (status == MMUL_OK && fd < 0)
        made->real = realpath(path, NULL);
    if (status == MMUL_OK)
        *file = made;
    else
        mmul_input_file_release(made);
    return status;
}

struct mmul_input_file *mmul_input_file_retain(struct mmul_input_file *file) {
    __atomic_fetch_add(&file->references, 1, __ATOMIC_RELAXED);
    return file;
}

void mmul_input_file_release(struct mmul_input_file *file) {
    if (file == NULL || __atomic_fetch_sub(&file->references, 1, __ATOMIC_ACQ_REL) > 1)
        return;
    if (file->fd >= 0)
        close(file->fd); // read only: nothing can be lost
    free(file->real);
    mmul_free(file->path);
    mmul_free(file);
}

// Samples are compared only until one time step after the last write: a later write would have left
// a later time.
bool mmul_input_file_has_changed(struct mmul_input_file *file) {
    struct stat now;
    struct mmul_error ignored;
    uint64_t samples = 0;
    if (fstat(file->fd, &now) != 0)
        return false;
    if (now.st_size != file->opened.st_size || now.st_mtim.tv_sec != file->opened.st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != file->opened.st_mtim.tv_nsec)
        return true;
    if (!__atomic_load_n(&file->is_recent, __ATOMIC_RELAXED))
        return false;
    const bool was_step_ago = !is_recent(&file->opened);
    if (hash_samples(file, &samples, &ignored) != MMUL_OK || samples != file->samples)
        return true;
    if (was_step_ago)
        __atomic_store_n(&file->is_recent, false, __ATOMIC_RELAXED);
    return false;
}
