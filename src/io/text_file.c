// SPDX-License-Identifier: MIT
// Reads a small file after checking its kind and length, so that neither a FIFO nor a disk image
// blocks the program. Callers interpret the text.
#include "io/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "io/transfer.h"

static enum mmul_status read_text(int fd, const char *path, const char *what, char **text,
                                  struct mmul_error *err) {
    struct stat found;
    size_t got = 0;
    char *bytes = NULL;
    if (fstat(fd, &found) != 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "cannot read '%s'", path);
    if (!S_ISREG(found.st_mode))
        return mmul_fail(err, MMUL_ERR_NO_INPUT, "cannot read '%s': not a regular file", path);
    if (found.st_size > MMUL_TEXT_FILE_BYTES_MAX)
        return mmul_fail(err, MMUL_ERR_DATA, "'%s' is no %s: %lld bytes, at most %d", path, what,
                         (long long)found.st_size, MMUL_TEXT_FILE_BYTES_MAX);
    enum mmul_status status = MMUL_ALLOCATE(bytes, found.st_size + 1, what, err);
    if (status != MMUL_OK)
        return status;
    int errnum = mmul_pread_all(fd, bytes, (size_t)found.st_size, 0, &got);
    if (errnum == 0) {
        *text = bytes;
        return MMUL_OK;
    }
    mmul_free(bytes);
    return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errnum, "cannot read '%s'", path);
}

enum mmul_status mmul_text_file_load(const char *path, const char *what, char **text,
                                     struct mmul_error *err) {
    // O_NONBLOCK: do not wait for a FIFO's writer
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return mmul_fail_errno(err, MMUL_ERR_NO_INPUT, errno, "cannot open '%s'", path);
    enum mmul_status status = read_text(fd, path, what, text, err);
    close(fd); // read only: nothing can be lost
    return status;
}
