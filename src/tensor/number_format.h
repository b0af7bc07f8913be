// SPDX-License-Identifier: MIT
//
// Formats of one value, as Python's f-strings have them behind a colon: [[fill]align][sign][0][width][,][.precision]
// [type]. https://docs.python.org/3/library/string.html#formatspec
#pragma once

#include "tensor/object.h"

enum { MMUL_FORMAT_WIDTH_MOST = 999 }; // of a width, and of a precision

// Appends a number or a string to `text`, at most to its capacity. spec "": as str(). Returns NULL, or the reason why
// there is no such format, or none for this value; then `text` is as it was.
const char *mmul_format_write(const char *spec, const struct mmul_object *x, char *text,
                              size_t capacity);
