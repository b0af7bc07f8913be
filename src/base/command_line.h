// SPDX-License-Identifier: MIT
// The command line of this process.
#pragma once

#include <stddef.h>

// Writes the command line, as in "mpimatmul mul A.bin B.bin": without the folder of the program and
// without control characters. Shortens a long line in the middle. Writes "" if it is unknown.
void mmul_command_line(char *command, size_t capacity);
