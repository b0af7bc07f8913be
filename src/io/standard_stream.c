// SPDX-License-Identifier: MIT
// Copies between the standard streams and unnamed files. Does not interpret the bytes: callers that
// open matrices and outputs do.
#include "io/standard_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cache.h"
#include "base/descriptor.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"

enum { BUFFER_BYTES = 1 << 20 };

bool mmul_path_is_stdin(const char *path) {
    return strcmp(path, "-") == 0 || strcmp(path, "/dev/stdin") == 0;
}

bool mmul_path_is_stdout(const char *path) {
    return mmul_path_descriptor(path) == STDOUT_FILENO;
}

int mmul_path_descriptor(const char *path) {
    return strcmp(path, "-") == 0 ? STDOUT_FILENO : mmul_descriptor_find(path);
}

enum mmul_status mmul_unnamed_file_create(int *fd, struct mmul_error *err) {
    struct mmul_text path = {0};
    enum mmul_status status = MMUL_OK;
    mmul_text_add(&path, "%s/mpimatmul.XXXXXX", mmul_temporary_folder());
    if (path.failed)
        return mmul_fail(err, MMUL_ERR_SYSTEM, "cannot allocate a file name");
    int opened = mkostemp(path.data, O_CLOEXEC);
    if (opened >= 0 && unlink(path.data) == 0) {
        *fd = opened;
    } else {
        status = mmul_fail_errno(err, MMUL_ERR_IO, errno, "cannot create a temporary file in '%s'",
                                 mmul_temporary_folder());
        if (opened >= 0)
            close(opened);
    }
    mmul_text_fini(&path);
    return status;
}

// A copy of `from` to its end. The caller reports errors, since it knows what is copied.
struct copying {
    int from, to;
    int read_errno, write_errno; // 0: success
};

static void copy_all(struct copying *copying, char *buffer) {
    for (;;) {
        ssize_t got = read(copying->from, buffer, BUFFER_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            copying->read_errno = got < 0 ? errno : 0;
            return;
        }
        for (ssize_t done = 0; done < got;) {
            ssize_t put = write(copying->to, buffer + done, (size_t)(got - done));
            if (put < 0 && errno != EINTR) {
                copying->write_errno = errno;
                return;
            }
            done += put > 0 ? put : 0;
        }
    }
}

static enum mmul_status copy_stream(struct copying *copying, struct mmul_error *err) {
    char *buffer = mmul_allocate_raw(BUFFER_BYTES, 1, "a copy buffer", err);
    if (buffer == NULL)
        return err->status;
    copy_all(copying, buffer);
    mmul_free(buffer);
    return MMUL_OK;
}

static enum mmul_status copy_stdin(int fd, struct mmul_error *err) {
    struct copying copying = {.from = STDIN_FILENO, .to = fd};
    enum mmul_status status = copy_stream(&copying, err);
    if (copying.read_errno != 0)
        status = mmul_fail_errno(err, MMUL_ERR_NO_INPUT, copying.read_errno,
                                 "cannot read standard input");
    if (copying.write_errno != 0) {
        status = mmul_fail_errno(err, MMUL_ERR_IO, copying.write_errno,
                                 "cannot store standard input in '%s'", mmul_temporary_folder());
        mmul_hint(err, "set TMPDIR to store it in another folder");
    }
    return status;
}

enum mmul_status mmul_stdin_open(int *fd, struct mmul_error *err) {
    struct stat found;
    int opened = -1;
    if (fstat(STDIN_FILENO, &found) != 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "cannot read standard input");
    if (isatty(STDIN_FILENO)) {
        mmul_fail(err, MMUL_ERR_NO_INPUT, "cannot read standard input: it is a terminal");
        mmul_hint(err, "'-' stands for a pipe or a redirected file");
        return err->status;
    }
    if (S_ISREG(found.st_mode) && lseek(STDIN_FILENO, 0, SEEK_CUR) == 0) {
        *fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        return *fd >= 0
                   ? MMUL_OK
                   : mmul_fail_errno(err, MMUL_ERR_SYSTEM, errno, "cannot read standard input");
    }
    enum mmul_status status = mmul_unnamed_file_create(&opened, err);
    if (status == MMUL_OK)
        status = copy_stdin(opened, err);
    // The pipe is empty now. The copy takes its place, for later opens of standard input.
    if (status == MMUL_OK &&
        (lseek(opened, 0, SEEK_SET) != 0 || dup2(opened, STDIN_FILENO) != STDIN_FILENO))
        status = mmul_fail_errno(err, MMUL_ERR_SYSTEM, errno, "cannot read standard input");
    if (status == MMUL_OK)
        *fd = opened;
    else if (opened >= 0)
        close(opened);
    return status;
}

enum mmul_status mmul_stream_copy_file(int fd, int to, struct mmul_error *err) {
    struct copying copying = {.from = fd, .to = to};
    if (lseek(fd, 0, SEEK_SET) != 0)
        return mmul_fail_errno(err, MMUL_ERR_IO, errno, "cannot read a temporary file");
    enum mmul_status status = copy_stream(&copying, err);
    if (copying.read_errno != 0)
        status =
            mmul_fail_errno(err, MMUL_ERR_IO, copying.read_errno, "cannot read a temporary file");
    if (copying.write_errno != 0)
        status = mmul_fail_errno(err, MMUL_ERR_IO, copying.write_errno, "cannot write to %s",
                                 to == STDOUT_FILENO   ? "standard output"
                                 : to == STDERR_FILENO ? "standard error"
                                                       : "the descriptor");
    return status;
}
