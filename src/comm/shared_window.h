// SPDX-License-Identifier: MIT
// One segment of memory per node, mapped by every rank of it.
#pragma once

#include "comm/comm.h"

struct mmul_shared {
    char *data; // page-aligned, zeroed; NULL when bytes is 0
    int64_t bytes;
};

// Collective over node. The leader makes the segment (memfd, space allocated at once, so that a
// lack of memory is an error here and not a signal later), the others map it. `bytes` is the same
// on all ranks of the node; 0 is legal. When the leader fails, the others fail too.
// Not MPI_Win_allocate_shared: with too little /dev/shm one rank gets an error and the rest wait
// for ever. Fails with MMUL_ERR_SYSTEM; agree over world afterwards.
enum mmul_status mmul_shared_create(const struct mmul_comm *comm, int64_t bytes,
                                    struct mmul_shared *shared, struct mmul_error *err);

// Local.
void mmul_shared_destroy(struct mmul_shared *shared);
