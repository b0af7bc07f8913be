// SPDX-License-Identifier: MIT
//
// Regions of C that are complete in its file: a queue from every rank of root's node, and one from
// root's main thread, to the thread that records them (exec/conduct/recorder.h). They lie in a
// shared segment. A writer never waits: a region that finds its queue full is not recorded, and
// would be computed again. The recording thread empties the queues every 10 ms and between two
// checksums.
#pragma once

#include <stdatomic.h>

#include "comm/comm.h"
#include "comm/shared_memory.h"
#include "mpimatmul_local.h"

enum { MMUL_COMPLETED_MOST = 1024 };

struct mmul_completed {
    _Atomic int64_t added, taken, withdrawn; // counts; each has one writer
    struct mmul_region regions[MMUL_COMPLETED_MOST];
};

// Adds a region, counted in the output's shape, that is written and checked. One thread at a time.
void mmul_completed_add(struct mmul_completed *queue, struct mmul_region region);

// Takes the oldest region. Returns false if there is none.
bool mmul_completed_take(struct mmul_completed *queue, struct mmul_region *region);

// Announces that regions added so far may be written again, as after the loss of a device. They are
// then not recorded, unless they were before. Call it on the thread that adds, before it writes.
void mmul_completed_withdraw(struct mmul_completed *queue);
