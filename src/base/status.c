// SPDX-License-Identifier: MIT
// Writes failures down. The text is formatted aside first, so that a caller may quote the text of
// the very error it overwrites, and control characters (a file name may hold any byte) become '?',
// so that one failure stays one line. It prints nothing: only the program does.
#include "base/status.h"

#include <stdarg.h>
#include <string.h>

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

enum mmul_status mmul_fail_errno(struct mmul_error *err, enum mmul_status status, int errnum,
                                 const char *format, ...) {
    char text[sizeof err->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    size_t length = strlen(text);
    snprintf(text + length, sizeof text - length, ": %s", strerror(errnum));
    set_text(err, status, text);
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
