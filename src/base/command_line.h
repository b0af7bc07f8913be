// SPDX-License-Identifier: MIT
//
// The words with which this process was started.
#pragma once

#include <stddef.h>

// "mpimatmul mul A.bin B.bin": without the folder of the program and without control characters; of a long one both
// ends. "": not known.
void mmul_command_line(char *command, size_t capacity);
