// SPDX-License-Identifier: MIT
//
// Records the finished regions of outputs in their journals, during a run, on a thread of root. The
// thread takes regions from the queues of exec/memory/completed.h and reads their bytes from the
// file, for the checksum. Nothing waits for it.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "exec/conduct/run.h"

struct mmul_recorder {
    struct mmul_run *run; // borrowed; NULL: nothing is recorded
    struct mmul_output *output;
    pthread_t thread;
    _Atomic bool has_ended;
    _Atomic bool was_stopped; // by a signal, after the work in flight
    // Owned: finished regions since the last entries, neighbours joined, and those that are being
    // recorded.
    struct mmul_region *pending, *batch;
    int64_t pending_count, batch_count;
    // Withdrawals in all queues when the regions were taken (exec/memory/completed.h).
    int64_t pending_withdrawn, batch_withdrawn;
};

// Starts the thread on root, if an output has a journal. A failure leaves the run without entries.
void mmul_recorder_begin(struct mmul_recorder *recorder, struct mmul_run *run);

// Ends the thread. After a failed run the rest is recorded first.
void mmul_recorder_end(struct mmul_recorder *recorder, bool has_failed);
