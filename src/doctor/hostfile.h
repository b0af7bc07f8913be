// SPDX-License-Identifier: MIT
// Open MPI's hostfile: `host slots=N max_slots=N`, one per line, `#` comments, `user@host`. A host
// may have several lines. Lines that can be read but that mpirun refuses are marked, and judged in
// findings_hostfile.c.
#pragma once

#include "mpimatmul_local.h"

enum { MMUL_HOST_LENGTH = 256, MMUL_KEY_LENGTH = 16 };

// One line.
struct mmul_host {
    // Name of the host: "node1" or "user@node1". Only letters, digits and ._:-@, no leading '-', so
    // that a shell or ssh sees a plain name.
    char name[MMUL_HOST_LENGTH];
    int slots; // 0: not given, Open MPI uses one per core
    int line;
    // Key of a maximum below the slots before it; "": none.
    char maximum_below_slots[MMUL_KEY_LENGTH];
    // Set by mmul_survey_run:
    int machine; // index in the visit
    bool is_own; // the host is this machine
    // True if mpirun takes it for its machine, though only the first label is that of the first
    // line.
    bool is_merged_by_mpirun;
};

struct mmul_hostfile {
    struct mmul_host *hosts; // owned
    int count;
    int carriage_return_line;      // first line with a carriage return outside its comment; 0: none
    int unterminated_comment_line; // last line, if it has a comment but no line end; 0: none
    bool has_mark;                 // starts with the byte order mark of UTF-8
};

// Reads a hostfile, released with mmul_hostfile_fini. Fails with MMUL_ERR_NO_INPUT, and with
// MMUL_ERR_DATA naming the wrong line, or if the file has no host.
enum mmul_status mmul_hostfile_load(const char *path, struct mmul_hostfile *hostfile,
                                    struct mmul_error *err);
void mmul_hostfile_fini(struct mmul_hostfile *hostfile);

// Parses the value of mpirun's --host: "node1,node2:4,node3:*". As in mpirun, a host without a
// number has one slot; '*' leaves the slots at 0. Released with mmul_hostfile_fini. Fails with
// MMUL_ERR_DATA.
enum mmul_status mmul_host_list_parse(const char *list, struct mmul_hostfile *hosts,
                                      struct mmul_error *err);

// Makes the name that mpirun uses for a host: without its domain, unless domains are kept or the
// name is an address. Returns `called`.
char *mmul_host_mpirun_name(const struct mmul_host *host, bool keeps_domains,
                            char called[static MMUL_HOST_LENGTH]);

// Returns the name without its "user@".
const char *mmul_host_without_user(const char *name);
