// SPDX-License-Identifier: MIT
// Writes failures into struct mmul_error. The text is formatted in a separate buffer first, so that
// a caller may quote the text of the error it overwrites. Control characters (a file name may hold
// any byte) become '?', so that a failure stays one line. Prints nothing: only the program prints.
#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>

static void set_text(struct mmul_error *err, enum mmul_status status, const char *text) {
    size_t length = strlen(text);
    if (length >= sizeof err->text)
        length = sizeof err->text - 1;
    memcpy(err->text, text, length);
    err->text[length] = '\0';
    mmul_make_printable(err->text);
    err->hint[0] = '\0';
    err->status = status;
}

enum mmul_status mmul_fail(struct mmul_error *err, enum mmul_status status, const char *format,
                           ...) {
    char text[sizeof err->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    set_text(err, status, text);
    return status;
}

// Applies to shared memory as well, because that is a file.
static bool is_file_size_limit(int errnum, int64_t *bytes) {
    struct rlimit limit;
    if (errnum != EFBIG || getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return false;
    *bytes = limit.rlim_cur < INT64_MAX ? (int64_t)limit.rlim_cur : INT64_MAX;
    return true;
}

enum mmul_status mmul_fail_errno(struct mmul_error *err, enum mmul_status status, int errnum,
                                 const char *format, ...) {
    char text[sizeof err->text], allowed[32];
    int64_t limit;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    size_t length = strlen(text);
    if (is_file_size_limit(errnum, &limit)) {
        snprintf(text + length, sizeof text - length, ": the limit on file size (ulimit -f) is %s",
                 mmul_bytes_format(limit, allowed));
        status = MMUL_ERR_SYSTEM;
    } else {
        snprintf(text + length, sizeof text - length, ": %s", strerror(errnum));
        status = errnum == ENOMEM ? MMUL_ERR_SYSTEM : status;
    }
    set_text(err, status, text);
    struct rlimit files;
    if (errnum == EMFILE && getrlimit(RLIMIT_NOFILE, &files) == 0)
        mmul_hint(err,
                  "a process may open %llu files here: raise the limit (ulimit -n, limits.conf)",
                  (unsigned long long)files.rlim_cur);
    return status;
}

void mmul_hint(struct mmul_error *err, const char *format, ...) {
    char hint[sizeof err->hint];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(hint, sizeof hint, format, arguments);
    va_end(arguments);
    memcpy(err->hint, hint, sizeof hint);
    mmul_make_printable(err->hint);
}
