// SPDX-License-Identifier: MIT
//
// Formats one value like a replacement field of a Python f-string: [[fill]align][sign][0][width][,]
// [.precision][type]. See https://docs.python.org/3/library/string.html#formatspec
#pragma once

#include "tensor/object.h"

// Limit on a width and on a precision.
enum { MMUL_FORMAT_WIDTH_MOST = 999 };

// Appends a number or a string to `text`, never beyond its capacity. spec "": as str(). Returns
// NULL, or the reason why the format is invalid or does not fit the value; `text` is then
// unchanged.
const char *mmul_format_write(const char *spec, const struct mmul_object *x, char *text,
                              size_t capacity);
