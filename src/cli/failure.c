// SPDX-License-Identifier: MIT
// Formats failures. Commands include only the public headers, so they have their own versions of
// the library's internal functions.
#include "cli/failure.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>

enum mmul_status mmul_cli_fail(struct mmul_error *err, enum mmul_status status, const char *format,
                               ...) {
    va_list arguments;
    va_start(arguments, format);
    err->status = status;
    err->hint[0] = '\0';
    vsnprintf(err->text, sizeof err->text, format, arguments);
    va_end(arguments);
    mmul_make_printable(err->text);
    return status;
}

enum mmul_status mmul_cli_fail_write(struct mmul_error *err, const char *what, int errnum) {
    char allowed[32];
    struct rlimit limit;
    if (errnum == EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        return mmul_cli_fail(err, MMUL_ERR_SYSTEM,
                             "cannot write %s: the limit on file size (ulimit -f) is %s", what,
                             mmul_bytes_format((int64_t)limit.rlim_cur, allowed));
    return mmul_cli_fail(err, MMUL_ERR_IO, "cannot write %s: %s", what,
                         errnum != 0 ? strerror(errnum) : "an earlier write failed");
}

enum mmul_status mmul_cli_hint(struct mmul_error *err, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(err->hint, sizeof err->hint, format, arguments);
    va_end(arguments);
    mmul_make_printable(err->hint);
    return err->status;
}
