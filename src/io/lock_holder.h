// SPDX-License-Identifier: MIT
// The process that holds the lock of a file, for a line that names it.
#pragma once

#include <stdint.h>
#include <sys/stat.h>

struct mmul_lock_holder {
    int64_t pid; // 0: not known, as of a process on another host
    char program[96], host[65];
};

// Of the flock() on `file`, among the processes of this host that the caller may look at.
void mmul_lock_holder_find(const struct stat *file, struct mmul_lock_holder *holder);
