// SPDX-License-Identifier: MIT
// Two threads: one computes, the calling one (the only one that may call MPI) keeps the traffic
// moving. Where results are worth storing early a third one does that; others help the computing one
// through a pass of the check. The only file of the library with threads of its own that last.
#pragma once

#include "base/bell.h"
#include "base/parallel.h"
#include "mpimatmul_local.h"

enum mmul_attention {
    MMUL_ATTEND_NOTHING,
    MMUL_ATTEND_UNDER_WAY, // nothing that has come, so far, and who computes does not wait for it
    MMUL_ATTEND_AWAITED,   // the same, and the core has nothing else to do
    MMUL_ATTEND_MOVED,
    MMUL_ATTEND_ABANDONED, // the compute thread is stuck for good: compute is called on a new one
    MMUL_ATTEND_FINISHED
};

struct mmul_pipeline {
    void (*cancel)(void *context);  // instead of compute, when the thread cannot be started
    void (*compute)(void *context); // on its own thread; again after MMUL_ATTEND_ABANDONED
    enum mmul_attention (*attend)(void *context); // on the calling thread, until finished
    void (*store)(void *context); // NULL; or on a third thread, which may be missing; returns soon
                                  // after compute
    // compute on the calling thread, and attend then: it is over sooner than a thread has begun. Where it waits it
    // attends by itself.
    bool at_once;
    bool is_alone; // the same, and nobody helps: to start a thread takes longer than it would bring
    struct mmul_bell *bell; // NULL; or borrowed: who rings it wants attend to be called at once
    void *context;
};

// Returns when compute has returned and attend has said that it is finished. attend is called
// again at once when it moved something, compute returns, or the bell rings, else after a nap that
// grows: MPI makes progress only inside its calls, and a call costs the core that computes.
// Fails with MMUL_ERR_SYSTEM when the thread cannot be started; attend has finished all the same,
// because other ranks wait for this one's traffic.
enum mmul_status mmul_pipeline_run(const struct mmul_pipeline *pipeline, struct mmul_error *err);

// The `run` of struct mmul_parallel: part 0 on the calling thread, the others on threads that stay until
// `compute` returns, where it is that one's thread, and as long as their part elsewhere. A part whose
// thread cannot be started is done by the caller.
void mmul_pipeline_share(int parts, mmul_work *work, void *context);
