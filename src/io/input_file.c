// SPDX-License-Identifier: MIT
// Input files that are open, counted, and sets of them. The content is matrix_file.c's business.
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

// The kernel's times of files advance in steps of up to 10 ms (CONFIG_HZ=100): a write that follows another one within
// a step leaves no trace in them. Git calls such files racily clean.
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

static enum mmul_status take_samples(const struct mmul_input_file *file, uint64_t *samples,
                                     struct mmul_error *err) {
    struct mmul_fingerprint fingerprint;
    const struct mmul_file_part all = {0, file->opened.st_size};
    enum mmul_status status =
        mmul_fingerprint_take(file->fd, file->path, all, 1, &fingerprint, err);
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
    // O_NONBLOCK: a FIFO must not make us wait for a writer. Regular files do not know it.
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
        status = take_samples(made, &made->samples, err);
    }
    if (status == MMUL_OK && fd < 0)
        made->real = realpath(path, NULL);
    if (status == MMUL_OK)
        *file = made;
    else
        mmul_input_file_release(made);
    return status;
}

struct mmul_input_file *mmul_input_file_share(struct mmul_input_file *file) {
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

// A file that is still the same one step of its times after the last write needs no samples any more: a later write
// would have left a later time.
bool mmul_input_file_was_written(struct mmul_input_file *file) {
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
    if (take_samples(file, &samples, &ignored) != MMUL_OK || samples != file->samples)
        return true;
    if (was_step_ago)
        __atomic_store_n(&file->is_recent, false, __ATOMIC_RELAXED);
    return false;
}

// -------------------------------------------------------------------------------------------- sets

struct mmul_inputs {
    struct mmul_input_file **files; // owned, references
    int count, capacity;
    bool missing_is_nan;
};

enum mmul_status mmul_inputs_create(struct mmul_inputs **inputs, struct mmul_error *err) {
    return MMUL_ALLOCATE(*inputs, 1, "a set of files", err);
}

void mmul_inputs_destroy(struct mmul_inputs *inputs) {
    if (inputs == NULL)
        return;
    for (int i = 0; i < inputs->count; i++)
        mmul_input_file_release(inputs->files[i]);
    mmul_free(inputs->files);
    mmul_free(inputs);
}

void mmul_inputs_set_missing(struct mmul_inputs *inputs, bool is_nan) {
    inputs->missing_is_nan = is_nan;
}

bool mmul_inputs_missing_is_nan(const struct mmul_inputs *inputs) {
    return inputs != NULL && inputs->missing_is_nan;
}

struct mmul_input_file *mmul_inputs_find(const struct mmul_inputs *inputs, const char *path) {
    struct mmul_input_file *found = NULL;
    for (int i = 0; inputs != NULL && found == NULL && i < inputs->count; i++)
        if (strcmp(inputs->files[i]->path, path) == 0)
            found = inputs->files[i];
    if (inputs == NULL || found != NULL)
        return found;
    char *real = realpath(path, NULL);
    for (int i = 0; real != NULL && found == NULL && i < inputs->count; i++)
        if (inputs->files[i]->real != NULL && strcmp(inputs->files[i]->real, real) == 0)
            found = inputs->files[i];
    free(real);
    return found;
}

enum mmul_status mmul_inputs_open_file(struct mmul_inputs *inputs, const char *path, int *fd,
                                       struct mmul_error *err) {
    struct mmul_input_file *file = mmul_inputs_find(inputs, path), *opened = NULL;
    enum mmul_status status = MMUL_OK;
    if (file == NULL) {
        status = mmul_input_file_open(path, -1, path, &opened, err);
        if (status == MMUL_OK)
            status = mmul_inputs_add(inputs, file = opened, err);
    }
    if (status == MMUL_OK && file->opened.st_size == 0)
        status = mmul_fail(err, MMUL_ERR_NO_INPUT, "cannot read '%s': it is empty", path);
    if (status == MMUL_OK)
        *fd = file->fd;
    mmul_input_file_release(opened); // the set has it
    return status;
}

enum mmul_status mmul_inputs_check_file(const struct mmul_inputs *inputs, const char *path,
                                        struct mmul_error *err) {
    struct mmul_input_file *file = mmul_inputs_find(inputs, path);
    if (file == NULL || !mmul_input_file_was_written(file))
        return MMUL_OK;
    mmul_fail(err, MMUL_ERR_DATA, "'%s' was written to after it was opened", path);
    mmul_hint(err, "leave inputs alone until the job has ended");
    return err->status;
}

enum mmul_status mmul_inputs_add(struct mmul_inputs *inputs, struct mmul_input_file *file,
                                 struct mmul_error *err) {
    if (inputs == NULL)
        return MMUL_OK;
    if (inputs->count == inputs->capacity) {
        struct mmul_input_file **grown = NULL;
        const int capacity = inputs->capacity > 0 ? 2 * inputs->capacity : 8;
        if (MMUL_ALLOCATE(grown, capacity, "a set of files", err) != MMUL_OK)
            return err->status;
        if (inputs->count > 0)
            memcpy(grown, inputs->files, (size_t)inputs->count * sizeof *grown);
        mmul_free(inputs->files);
        inputs->files = grown;
        inputs->capacity = capacity;
    }
    inputs->files[inputs->count++] = mmul_input_file_share(file);
    return MMUL_OK;
}
