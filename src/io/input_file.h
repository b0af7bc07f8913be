// SPDX-License-Identifier: MIT
// Open input files. Matrices and lists of tensors share an open file by reference counts. All see
// the same version, even if another file takes its name meanwhile. Sets of them are in
// io/input_set.h.
#pragma once

#include <sys/stat.h>

#include "mpimatmul_local.h"

struct mmul_input_file {
    int references; // changed by __atomic builtins: any thread may release last
    int fd;         // owned
    char *path;     // owned, as it was opened
    char *real;     // owned, path without links; NULL: none, as for standard input
    struct stat opened;
    // True if the last write was so recent that `samples` must be compared, too. Accessed through
    // __atomic builtins.
    bool is_recent;
    uint64_t samples; // hash of samples of the content, if is_recent
};

// Opens the regular file at `path`, or takes over `fd` unless it is negative. `fd` is owned from
// then on, also if the call fails. `name` is for errors. The caller has the only reference. Fails
// with MMUL_ERR_NO_INPUT (missing, unreadable, not a regular file) and MMUL_ERR_SYSTEM.
enum mmul_status mmul_input_file_open(const char *path, int fd, const char *name,
                                      struct mmul_input_file **file, struct mmul_error *err);

// Adds a reference and returns `file`.
struct mmul_input_file *mmul_input_file_retain(struct mmul_input_file *file);

// Drops a reference. The last one closes the file. NULL is legal.
void mmul_input_file_release(struct mmul_input_file *file);

// Returns true if the content may have changed since the file was opened: size or time differ, or,
// if it was written just before, its samples (64 blocks of 4 KiB).
bool mmul_input_file_has_changed(struct mmul_input_file *file);
