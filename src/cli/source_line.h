// SPDX-License-Identifier: MIT
// Prints the source line that a failure refers to, as Python does.
#pragma once

#include <stdio.h>

// Prints the line that `failure` names as "PATH:LINE:COLUMN: ...", with a caret below the column. A
// line wider than 120 columns is cut around the caret. Prints nothing if no line is named, or if
// the line is blank or unreadable: `path` may be a pipe.
void mmul_print_source_line(FILE *stream, const char *path, const char *failure);
