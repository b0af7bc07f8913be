// SPDX-License-Identifier: MIT
//
// Input files that are open. Matrices and lists of tensors share an open file by counted references, so that all of
// them are of one version of it, even when another file takes its name meanwhile. Sets of them are io/inputs.h's.
#pragma once

#include <sys/stat.h>

#include "mpimatmul_local.h"

struct mmul_input_file {
    int references; // changed through __atomic builtins: the last owner may be any thread
    int fd;         // owned
    char *path;     // owned, as it was opened
    char *real;     // owned, without links; NULL: it has none, such as standard input
    struct stat opened;
    bool
        is_recent; // the last write was too short a time before: `samples` count as well. Through __atomic builtins
    uint64_t samples; // then: hash of samples of the content
};

// Opens the regular file at `path`, or takes `fd` unless it is negative; the file owns it from then on, also where this
// fails. `name` is for errors. The caller has the one reference. Fails with MMUL_ERR_NO_INPUT (missing, unreadable,
// not a regular file) and MMUL_ERR_SYSTEM.
enum mmul_status mmul_input_file_open(const char *path, int fd, const char *name,
                                      struct mmul_input_file **file, struct mmul_error *err);

// One reference more; returns `file`.
struct mmul_input_file *mmul_input_file_share(struct mmul_input_file *file);

// One reference less; the last one closes the file. NULL is legal.
void mmul_input_file_release(struct mmul_input_file *file);

// True if the content may have changed since the file was opened: size or time differ, or, of a file that was written
// to immediately before, samples do (64 blocks of 4 KiB).
bool mmul_input_file_was_written(struct mmul_input_file *file);
