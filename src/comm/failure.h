// SPDX-License-Identifier: MIT
//
// Failure of a run while other ranks wait for its traffic. The first error is kept. From then on
// all traffic is void: it is sent with a flag that says so, and is neither produced nor read.
// Nothing stops; the agreement on the error comes when the traffic has ended.
#pragma once

#include <stdatomic.h>

#include "mpimatmul_local.h"

// State of one run, for both of its threads. Zeroed: nothing has failed.
struct mmul_failure {
    struct mmul_error err; // error of this rank, valid after its threads have ended; MMUL_OK: none
    _Atomic int is_kept;   // err is taken by the first failure
    _Atomic int own;       // traffic is void: a failure here or at a peer, or the run was cancelled
    // Borrowed; the flag shared by the node, used instead of `own`; NULL: none.
    _Atomic int *shared;
    // Called when the flag is first set, to wake sleeping threads; NULL: none.
    void (*wake_waiting_threads)(void *context);
    void *context;
};

// Keeps the first error, and makes all traffic void. MMUL_ERR_STOPPED is not kept: another rank's
// error ended the work. `failure` NULL: ignored.
void mmul_failure_keep(struct mmul_failure *failure, const struct mmul_error *err);

// Makes all traffic void without an error: after a failure at a peer, or on request of the caller.
void mmul_failure_void_traffic(struct mmul_failure *failure);
bool mmul_failure_is_void(const struct mmul_failure *failure);
