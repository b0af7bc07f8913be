// SPDX-License-Identifier: MIT
// Finds the process that holds the lock of a file, for an error that names it.
#pragma once

#include <stdint.h>
#include <sys/stat.h>

struct mmul_lock_holder {
    int64_t pid; // 0: not known, e.g. a process on another host
    char program[96], host[65];
};

// Finds the holder of the flock() on `file`, among the processes of this host that the caller may
// inspect.
void mmul_lock_holder_find(const struct stat *file, struct mmul_lock_holder *holder);
