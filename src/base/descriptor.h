// SPDX-License-Identifier: MIT
// Paths that name open file descriptors of this process.
#pragma once

// Returns the descriptor named by "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/N" or
// "/proc/self/fd/N". Returns -1 for any other path and for a closed descriptor. Callers write
// through a copy of the descriptor: a second open would start at the beginning of the file and
// truncate it.
int mmul_descriptor_find(const char *path);
