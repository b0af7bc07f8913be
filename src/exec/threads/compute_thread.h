// SPDX-License-Identifier: MIT
// Threads of a rank. One computes. The calling one keeps the traffic moving, and is the only one
// that may call MPI. A third one stores results early if that pays. Others help the compute thread
// in a pass of the check. No other file of the library has long-lived threads.
#pragma once

#include "base/eventcount.h"
#include "base/parallel.h"
#include "mpimatmul_local.h"

enum mmul_poll_result {
    MMUL_POLL_IDLE,
    MMUL_POLL_IN_FLIGHT, // in flight, nothing arrived; computing does not wait for it
    MMUL_POLL_AWAITED,   // in flight, and the core has nothing else to do
    MMUL_POLL_PROGRESSED,
    MMUL_POLL_ABANDONED, // the compute thread is stuck for good: call compute on a new one
    MMUL_POLL_FINISHED
};

struct mmul_compute_thread {
    void (*cancel)(void *context);  // called instead of compute if the thread cannot be started
    void (*compute)(void *context); // on its own thread; again after MMUL_POLL_ABANDONED
    enum mmul_poll_result (*attend)(void *context); // on the calling thread, until finished
    // NULL, or runs on a third thread, which may be missing; returns soon after compute
    void (*store)(void *context);
    // Call compute on the calling thread, and attend afterwards, for work shorter than a thread's
    // start. compute then makes progress itself where it waits.
    bool at_once;
    bool is_alone; // no helper threads: starting one takes longer than it would save
    struct mmul_eventcount
        *eventcount; // borrowed: notify it to have attend called at once; or NULL
    void *context;
};

// Runs `pipeline`. Returns when compute has returned and attend has reported its end. attend is
// called again at once if it moved something, compute returns, or the eventcount is notified.
// Otherwise it is called after a nap of growing length: MPI makes progress only inside its calls,
// and a call takes time of the core that computes.
// Fails with MMUL_ERR_SYSTEM if the thread cannot be started. attend has finished even so, because
// other ranks wait for this rank's traffic.
enum mmul_status mmul_compute_thread_run(const struct mmul_compute_thread *pipeline,
                                         struct mmul_error *err);

// Implements `run` of struct mmul_parallel. Part 0 runs on the calling thread, the others on helper
// threads. Helpers of a compute thread stay until `compute` returns. Helpers of any other thread
// end after their part. The caller does the parts of threads that cannot be started.
void mmul_helper_threads_run(int parts, mmul_work *work, void *context);
