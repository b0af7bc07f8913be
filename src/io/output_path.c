// SPDX-License-Identifier: MIT
// The file side of an output: its name, its temporary file, and its space. The lock is on the
// temporary file. A finished run renames that file away, so a lock counts only if the name still
// leads to the locked file. Ranks that map a file with a journal share its lock. output_file.c and
// output_write.c write the content.
#include "io/output_path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "io/file_stat.h"
#include "io/lock_holder.h"
#include "io/matrix_file.h"
#include "io/selection.h"
#include "io/standard_stream.h"
#include "io/unfinished_files.h"
#include "model/dtype.h"

static enum mmul_status fail_create(const struct mmul_output *output, int errnum,
                                    struct mmul_error *err) {
    return mmul_fail_errno(err, MMUL_ERR_CREATE, errnum, "cannot create '%s'", output->name);
}

// Follows a symbolic link, so that the link stays and its target is replaced.
static enum mmul_status resolve_link(const char *given, char **path, struct mmul_error *err) {
    struct stat found;
    if (*given == '\0')
        return mmul_fail(err, MMUL_ERR_CREATE, "cannot create '': no file name");
    if (lstat(given, &found) != 0 || !S_ISLNK(found.st_mode))
        return mmul_copy_text(given, path, err);
    char *target = realpath(given, NULL);
    if (target == NULL) {
        return mmul_fail_errno(err, MMUL_ERR_CREATE, errno,
                               "cannot create '%s': it is a symbolic link to a missing file",
                               given);
    }
    enum mmul_status status = mmul_copy_text(target, path, err);
    free(target);
    return status;
}

enum mmul_status mmul_output_choose_paths(struct mmul_output *output, size_t file_length,
                                          struct mmul_error *err) {
    struct stat found;
    struct mmul_text part = {0};
    char *file = NULL;
    if (mmul_path_descriptor(output->name) >= 0)
        return MMUL_OK;
    enum mmul_status status = mmul_copy_text(output->name, &file, err);
    if (status == MMUL_OK) {
        file[file_length] = '\0';
        status = resolve_link(file, &output->path, err);
    }
    mmul_free(file);
    if (status != MMUL_OK)
        return status;
    bool exists = stat(output->path, &found) == 0;
    if (!exists && errno != ENOENT) // a file may exist: its permissions are unknown
        return fail_create(output, errno, err);
    if (exists && !S_ISREG(found.st_mode)) {
        return mmul_fail(err, MMUL_ERR_CREATE, "cannot create '%s': it is %s", output->name,
                         S_ISDIR(found.st_mode) ? "a folder" : "not a regular file");
    }
    output->replaces = exists;
    output->replaced_mode = exists ? found.st_mode & 0777 : 0;
    mmul_text_add_sibling_path(&part, output->path, ".part");
    if (part.failed)
        return mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a file name");
    output->part = part.data; // ownership passes on
    return MMUL_OK;
}

static bool is_input(const struct stat *file, struct mmul_matrix *const *inputs, int input_count) {
    for (int i = 0; i < input_count; i++)
        if (mmul_matrix_is_file(inputs[i], file))
            return true;
    return false;
}

bool mmul_output_would_replace(const struct mmul_output *output, const struct mmul_matrix *matrix) {
    struct stat found;
    return output->path != NULL && stat(output->path, &found) == 0 &&
           mmul_matrix_is_file(matrix, &found);
}

static enum mmul_status fail_input(const struct mmul_output *output, struct mmul_error *err) {
    mmul_fail(err, MMUL_ERR_CREATE, "cannot create '%s': it is one of the inputs", output->name);
    mmul_hint(err, "give the output another name");
    return err->status;
}

bool mmul_output_try_lock(int fd) {
    return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

// Makes the lock of a file with a journal a shared one. Ranks that map the file hold it, too, and
// it lasts as long as any of them. Returns false if another run took the lock meanwhile.
static bool share_lock(const struct mmul_output *output, int fd) {
    return output->journal_path == NULL || flock(fd, LOCK_SH | LOCK_NB) == 0 ||
           errno != EWOULDBLOCK;
}

static enum mmul_status fail_locked(const struct mmul_output *output,
                                    const struct mmul_lock_holder *holder, struct mmul_error *err) {
    if (holder->pid == 0)
        mmul_fail(err, MMUL_ERR_CREATE,
                  "cannot create '%s': another run is writing it ('%s' is locked)", output->name,
                  output->part);
    else
        mmul_fail(err, MMUL_ERR_CREATE,
                  "cannot create '%s': process %lld on %s (%s) is writing it ('%s' is locked)",
                  output->name, (long long)holder->pid, holder->host, holder->program,
                  output->part);
    mmul_hint(err, "wait for the other run, or give another output name");
    return err->status;
}

// Returns true if the name still leads to this file: a run that finished meanwhile has renamed it.
static bool name_leads_to(const struct mmul_output *output, const struct stat *file) {
    struct stat named;
    return lstat(output->part, &named) == 0 && mmul_stat_is_same_file(&named, file);
}

// Checks that the file under the temporary name can be a leftover of a run of this user. Another
// user may have put it there to get write access to the result.
static enum mmul_status check_leftover(const struct mmul_output *output, const struct stat *left,
                                       struct mmul_error *err) {
    if (!S_ISREG(left->st_mode))
        mmul_fail(err, MMUL_ERR_CREATE, "cannot create '%s': '%s' is %s", output->name,
                  output->part, S_ISLNK(left->st_mode) ? "a symbolic link" : "not a regular file");
    else if (left->st_uid != geteuid())
        mmul_fail(err, MMUL_ERR_CREATE,
                  "cannot create '%s': '%s' belongs to user %lu, not to user %lu: not taken over",
                  output->name, output->part, (unsigned long)left->st_uid,
                  (unsigned long)geteuid());
    else if (left->st_nlink > 1)
        mmul_fail(err, MMUL_ERR_CREATE,
                  "cannot create '%s': '%s' has %lu names (hard links): not taken over",
                  output->name, output->part, (unsigned long)left->st_nlink);
    else
        return MMUL_OK;
    mmul_hint(err, "remove '%s', or give the output another name", output->part);
    return err->status;
}

// Removes the journal beside a leftover. It is of no use without the leftover.
static void remove_journal(const struct mmul_output *output) {
    struct mmul_text path = {0};
    mmul_text_add_sibling_path(&path, output->path, ".journal");
    if (!path.failed)
        (void)unlink(path.data);
    mmul_text_fini(&path);
}

// Removes the leftover of a killed run, which also frees its space, or takes it over as output->fd,
// if a journal continues it. Any other leftover is never written to: a process that has it open
// would have the result open. If it is gone, or now belongs to another run, the next try finds out.
// *is_held: a run that is active or about to end holds it. `holder` is that run's process.
static enum mmul_status remove_leftover(struct mmul_output *output,
                                        struct mmul_matrix *const *inputs, int input_count,
                                        bool *is_held, struct mmul_lock_holder *holder,
                                        struct mmul_error *err) {
    struct stat left;
    *is_held = false;
    if (lstat(output->part, &left) != 0)
        return errno == ENOENT ? MMUL_OK : fail_create(output, errno, err);
    if (is_input(&left, inputs, input_count))
        return fail_input(output, err); // x.part is an input
    enum mmul_status status = check_leftover(output, &left, err);
    if (status != MMUL_OK)
        return status;
    int fd = open(output->part, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? MMUL_OK : fail_create(output, errno, err);
    *is_held = !mmul_output_try_lock(fd);
    if (fstat(fd, &left) != 0)
        status = fail_create(output, errno, err);
    if (status == MMUL_OK && *is_held)
        mmul_lock_holder_find(&left, holder);
    if (status == MMUL_OK && !*is_held && name_leads_to(output, &left)) {
        status = check_leftover(output, &left, err);
        if (status == MMUL_OK && output->is_continued) {
            output->fd = fd;
            return MMUL_OK;
        }
        if (status == MMUL_OK && unlink(output->part) != 0 && errno != ENOENT)
            status = fail_create(output, errno, err);
        output->removed_leftover |= status == MMUL_OK && left.st_size > 0;
        if (status == MMUL_OK)
            remove_journal(output);
    }
    close(fd);
    return status;
}

// Tries once to create and lock a new file. *locked is -1 if a file exists, or if another run took
// this one for a leftover.
static enum mmul_status try_create_temporary(const struct mmul_output *output, int *locked,
                                             struct mmul_error *err) {
    struct stat made;
    enum mmul_status status = MMUL_OK;
    // The file that it replaces may be private, so the new one is private until then.
    int fd = open(output->part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  output->replaces ? 0600 : 0666);
    *locked = -1;
    if (fd < 0)
        return errno == EEXIST ? MMUL_OK : fail_create(output, errno, err);
    const bool is_ours = mmul_output_try_lock(fd);
    if (fstat(fd, &made) != 0) {
        status = fail_create(output, errno, err);
        if (is_ours)
            (void)unlink(output->part); // locked until now, so it is this run's
    }
    if (status == MMUL_OK && is_ours && name_leads_to(output, &made))
        *locked = fd;
    else
        close(fd);
    return status;
}

// Creates the temporary file, waiting for a holder. A run ends in a moment if its mpirun was
// killed, and in two seconds if interrupted. A file held by this very process never becomes free.
static enum mmul_status create_temporary(struct mmul_output *output,
                                         struct mmul_matrix *const *inputs, int input_count,
                                         int *fd, struct mmul_error *err) {
    enum { TRIES = 100 };
    const double deadline = mmul_clock_now() + MMUL_OUTPUT_WAIT_SECONDS;
    int tries = 0;
    while (tries < TRIES) {
        struct mmul_lock_holder holder;
        bool is_held = false;
        enum mmul_status status = try_create_temporary(output, fd, err);
        if (*fd >= 0)
            output->is_continued = false; // there is a journal, but not its file
        if (status == MMUL_OK && *fd < 0) {
            status = remove_leftover(output, inputs, input_count, &is_held, &holder, err);
            *fd = output->fd;
            output->fd = -1;
        }
        if (status != MMUL_OK || (*fd >= 0 && share_lock(output, *fd)))
            return status;
        if (*fd >= 0)
            close(*fd);
        if (is_held && (holder.pid == getpid() || mmul_clock_now() > deadline))
            return fail_locked(output, &holder, err);
        if (is_held)
            mmul_clock_sleep(0.01);
        else
            tries++;
    }
    return fail_create(output, EBUSY, err);
}

enum mmul_status mmul_output_create_temporary(struct mmul_output *output,
                                              struct mmul_matrix *const *inputs, int input_count,
                                              struct mmul_error *err) {
    struct stat found;
    int fd = -1;
    if (output->path == NULL)
        return mmul_unnamed_file_create(&output->fd, err);
    const bool exists = stat(output->path, &found) == 0;
    if (!exists && errno != ENOENT)
        return fail_create(output, errno, err);
    if (exists && is_input(&found, inputs, input_count))
        return fail_input(output, err);
    mmul_unfinished_begin_creation();
    enum mmul_status status = create_temporary(output, inputs, input_count, &fd, err);
    if (status == MMUL_OK) {
        output->fd = fd;
        output->has_temporary_file = true;
    }
    // A file with a journal outlives the process.
    if (status == MMUL_OK && output->journal_path == NULL)
        status = mmul_unfinished_add(output->part, &output->unfinished, err);
    mmul_unfinished_end_creation();
    return status;
}

static enum mmul_status fail_space(const struct mmul_output *output, int64_t bytes, int errnum,
                                   struct mmul_error *err) {
    struct statvfs space;
    char needed[32], free_text[32] = "an unknown number of bytes";
    // Free space explains no other error, such as a limit on file size.
    if (errnum != ENOSPC)
        return mmul_fail_errno(err, MMUL_ERR_IO, errnum,
                               "cannot write '%s': %lld bytes (%s) needed", output->name,
                               (long long)bytes, mmul_bytes_format(bytes, needed));
    if (fstatvfs(output->fd, &space) == 0)
        mmul_bytes_format((int64_t)(space.f_bavail * space.f_frsize), free_text);
    return mmul_fail_errno(err, MMUL_ERR_IO, errnum,
                           "cannot write '%s': %lld bytes (%s) needed, %s free", output->name,
                           (long long)bytes, mmul_bytes_format(bytes, needed), free_text);
}

// Checks for free space first: fallocate fills the disk before it fails.
static bool has_space(int fd, int64_t bytes) {
    struct statvfs space;
    if (fstatvfs(fd, &space) != 0 || space.f_blocks == 0 || space.f_frsize == 0)
        return true;
    return (uint64_t)bytes / space.f_frsize <= space.f_bfree;
}

enum mmul_status mmul_output_reserve(struct mmul_output *output, int64_t bytes,
                                     struct mmul_error *err) {
    int rc;
    if (!has_space(output->fd, bytes))
        return fail_space(output, bytes, ENOSPC, err);
    do {
        rc = fallocate(output->fd, 0, 0, bytes);
    } while (rc != 0 && errno == EINTR);
    output->is_reserved = rc == 0;
    if (rc == 0)
        return MMUL_OK;
    if (errno != EOPNOTSUPP && errno != ENOSYS)
        return fail_space(output, bytes, errno, err);
    if (ftruncate(output->fd, bytes) == 0)
        return MMUL_OK;
    return fail_space(output, bytes, errno, err);
}

bool mmul_output_needs_write_back(const struct mmul_output *output) {
    struct statfs found;
    if (output->fd < 0 || output->path == NULL || output->no_sync ||
        fstatfs(output->fd, &found) != 0)
        return false;
    return found.f_type != TMPFS_MAGIC && found.f_type != RAMFS_MAGIC;
}

void mmul_output_start_write_back(const struct mmul_output *output, int64_t begin, int64_t end) {
    int64_t each = (int64_t)mmul_dtype_bytes(output->dtype), first = 0;
    if (output->selection == NULL || mmul_selection_is_contiguous(output->selection, &first))
        (void)sync_file_range(output->fd, output->data_offset + (first + begin) * each,
                              (end - begin) * each, SYNC_FILE_RANGE_WRITE);
}

enum mmul_status mmul_output_sync_folder(const struct mmul_output *output, struct mmul_error *err) {
    char *folder = NULL;
    enum mmul_status status = mmul_copy_text(output->path, &folder, err);
    if (status != MMUL_OK)
        return status;
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[slash == folder ? 1 : 0] = '\0'; // "/x" lies in "/"
    int fd = open(slash != NULL ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // A folder may be writable but not readable. Durability of its entry is then up to the system.
    if (fd >= 0 && fsync(fd) != 0 && errno != EINVAL && errno != EROFS)
        status = mmul_fail_errno(err, MMUL_ERR_IO, errno, "cannot write '%s'", output->name);
    if (fd >= 0)
        close(fd);
    mmul_free(folder);
    return status;
}
