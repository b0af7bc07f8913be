// SPDX-License-Identifier: MIT
// The line of a program that a failure is about, as Python shows it.
#pragma once

#include <stdio.h>

// Prints the line that `failure` names, as "PATH:LINE:COLUMN: ...", and a caret below its column; of a line of more
// than 120 columns what is around that one. Prints nothing where it names none, or the line is blank or cannot be read:
// `path` may be a pipe.
void mmul_print_source_line(FILE *stream, const char *path, const char *failure);
