// SPDX-License-Identifier: MIT
//
// Open MPI's hostfile: `host slots=N max_slots=N`, one a line, `#` comments, `user@host`. A host may
// be in several lines. Lines that mpirun refuses although they can be read are marked, and judged in
// judge_hostfile.c.
#pragma once

#include "mpimatmul_local.h"

enum { MMUL_HOST_LENGTH = 256, MMUL_KEY_LENGTH = 16 };

// One line.
struct mmul_host {
    char name[MMUL_HOST_LENGTH]; // "node1" or "user@node1": letters, digits and ._:-@ only, no
                                 // leading '-', so that no shell and no ssh sees more than a name
    int slots;                   // 0: not given, Open MPI takes one for each core
    int line;
    char low_maximum
        [MMUL_KEY_LENGTH]; // the key of a maximum that is below the slots before it; "": none
    // Set by mmul_visit_make:
    int machine;      // of the visit
    bool is_own;      // it is this machine
    bool is_mistaken; // has only the first label in common with the first line of its machine
};

struct mmul_hostfile {
    struct mmul_host *hosts; // owned
    int count;
    int carriage_line; // the first line with a carriage return outside of its comment; 0: none
    int open_comment;  // the last line, when it has a comment and no line end; 0: none
    bool has_mark;     // begins with the byte-order mark of UTF-8
};

// Reads a hostfile; mmul_hostfile_fini releases it. Fails with MMUL_ERR_NO_INPUT, or MMUL_ERR_DATA
// with the line that is wrong, also when no host is in it.
enum mmul_status mmul_hostfile_load(const char *path, struct mmul_hostfile *hostfile,
                                    struct mmul_error *err);
void mmul_hostfile_fini(struct mmul_hostfile *hostfile);

// The name by which mpirun calls a host: without its domain, unless that is to be kept or the name
// is an address. Returns `called`.
char *mmul_host_called(const struct mmul_host *host, bool keeps_domains,
                       char called[static MMUL_HOST_LENGTH]);

// A name without its "user@".
const char *mmul_host_without_user(const char *name);
