// SPDX-License-Identifier: MIT
//
// Open MPI's hostfile: `host slots=N max_slots=N`, one a line, `#` comments, `user@host`; a host that
// stands there twice has the slots of both lines.
#pragma once

#include "mpimatmul_local.h"

enum { MMUL_HOST_LENGTH = 256 };

struct mmul_host {
    char name[MMUL_HOST_LENGTH]; // "node1" or "user@node1": letters, digits and ._:-@ only, no
                                 // leading '-', so that no shell and no ssh sees more than a name
    int slots;                   // 0: not given, Open MPI takes one for each core
    int line;                    // where it stands first
};

// Reads a hostfile; `*hosts` is released with mmul_free. Fails with MMUL_ERR_NO_INPUT, or
// MMUL_ERR_DATA with the line that is wrong, also when no host is in it.
enum mmul_status mmul_hostfile_load(const char *path, struct mmul_host **hosts, int *count,
                                    struct mmul_error *err);
