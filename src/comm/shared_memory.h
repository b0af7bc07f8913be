// SPDX-License-Identifier: MIT
// Memory that every rank of a node maps: a segment of its own, or a file in place.
#pragma once

#include "comm/comm.h"

struct mmul_shared {
    char *data; // start of the requested range; NULL if bytes is 0
    int64_t bytes;
    void *mapping; // pages around it; NULL: borrowed memory, or nothing
    int64_t mapped_bytes;
    int fd; // descriptor of the mapping, open as long as it exists; undefined without one
};

// Collective over node. The leader creates the segment (memfd), the other ranks map it. Its space
// is allocated at once, so that a lack of memory is an error here and not a signal later. `bytes`
// is the same on all ranks of the node; 0 is legal. The memory is page-aligned and zeroed. If the
// leader fails, all ranks of the node fail.
// Does not use MPI_Win_allocate_shared: if /dev/shm is too small, one rank gets an error and the
// others wait forever. Fails with MMUL_ERR_SYSTEM; agree over world afterwards.
enum mmul_status mmul_shared_create(const struct mmul_comm *comm, int64_t bytes,
                                    struct mmul_shared *shared, struct mmul_error *err);

// The leader's file or memory. Other ranks set the name only.
struct mmul_shared_source {
    const char *name;      // for errors: "'A.bin'"
    void *memory;          // the leader's own, for a node of one rank; NULL: the file is used
    int fd;                // open, borrowed until the call returns; -1: the leader has none
    int64_t offset, bytes; // any offset; bytes > 0, all of it inside the file
    bool writable;         // fd may be open for writing only: every rank opens the file again
    bool has_shared_lock; // the leader holds the file with flock(): so does every rank that maps it
};

// Collective over node. Maps a part of the leader's file into every rank, shared. A leader that is
// alone lends its memory instead. A file that becomes shorter later raises SIGBUS: see
// base/guard.h. If the leader fails, all ranks of the node fail. Fails with MMUL_ERR_SYSTEM; agree
// over world afterwards.
enum mmul_status mmul_shared_map(const struct mmul_comm *comm,
                                 const struct mmul_shared_source *source,
                                 struct mmul_shared *shared, struct mmul_error *err);

// Local.
void mmul_shared_destroy(struct mmul_shared *shared);
