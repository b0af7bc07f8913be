// SPDX-License-Identifier: MIT
// Paths that name open descriptors of this process.
#pragma once

// The descriptor that "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/N" or "/proc/self/fd/N" names; -1: the path
// names none, or it is not open. What such a path leads to is written through a copy of the descriptor: a second open
// would begin at the start of a file, and truncate it.
int mmul_descriptor_find(const char *path);
