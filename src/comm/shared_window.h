// SPDX-License-Identifier: MIT
// Memory of a node, mapped by every rank of it: a segment of its own, or a file where it lies.
#pragma once

#include "comm/comm.h"

struct mmul_shared {
    char *data; // what was asked for; NULL when bytes is 0
    int64_t bytes;
    void *mapping; // the pages around it; NULL: borrowed memory, or nothing
    int64_t mapped_bytes;
    int fd; // of what is mapped, open as long as the mapping; of no meaning without one
};

// Collective over node. The leader makes the segment (memfd, space allocated at once, so that a
// lack of memory is an error here and not a signal later), the others map it. `bytes` is the same
// on all ranks of the node; 0 is legal. It is page-aligned and zeroed. When the leader fails, the
// others fail too.
// Not MPI_Win_allocate_shared: with too little /dev/shm one rank gets an error and the rest wait
// for ever. Fails with MMUL_ERR_SYSTEM; agree over world afterwards.
enum mmul_status mmul_shared_create(const struct mmul_comm *comm, int64_t bytes,
                                    struct mmul_shared *shared, struct mmul_error *err);

// What the leader has for its node. Other ranks give the name alone.
struct mmul_shared_source {
    const char *name;      // for errors: "'A.bin'"
    void *memory;          // the leader's own, for a node of one rank; NULL: the file
    int fd;                // open, borrowed until the call returns; -1: the leader has nothing
    int64_t offset, bytes; // any offset; bytes > 0, all of it inside the file
    bool writable;         // then fd may be open for writing alone: every rank opens it anew
};

// Collective over node. Maps a part of the leader's file into every rank, shared; or lends the
// memory of a leader that is alone. A file that becomes shorter later raises SIGBUS: see
// base/guard.h. When the leader fails, the others fail too.
// Fails with MMUL_ERR_SYSTEM; agree over world afterwards.
enum mmul_status mmul_shared_map(const struct mmul_comm *comm,
                                 const struct mmul_shared_source *source,
                                 struct mmul_shared *shared, struct mmul_error *err);

// Local.
void mmul_shared_destroy(struct mmul_shared *shared);
