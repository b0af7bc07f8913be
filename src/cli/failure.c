// SPDX-License-Identifier: MIT
// Text of failures. The program sees the library's public header only, so it has its own pair.
#include "cli/failure.h"

#include <stdarg.h>

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

enum mmul_status mmul_cli_hint(struct mmul_error *err, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(err->hint, sizeof err->hint, format, arguments);
    va_end(arguments);
    mmul_make_printable(err->hint);
    return err->status;
}
