// SPDX-License-Identifier: MIT
//
// How a run fails while others wait for its traffic: the first error is kept, and from then on what
// moves means nothing, says so where it goes, and is neither made nor looked at. Nothing stops; the
// agreement comes when the traffic has ended.
#pragma once

#include <stdatomic.h>

#include "mpimatmul_local.h"

// One per run, for both of its threads. Zeroed: nothing has failed.
struct mmul_failure {
    struct mmul_error err; // of this rank, to be read when its threads have ended; MMUL_OK: none
    _Atomic int is_kept;   // err has its owner
    _Atomic int own;       // bytes mean nothing: a failure here, one of a peer's, or cancelled
    _Atomic int *shared;   // borrowed; NULL, or the node's word, which then counts instead of `own`
    void (*rouse)(
        void *context); // NULL, or what wakes those who sleep, when that word is set first
    void *context;
};

// The first error stays, and everything is void. MMUL_ERR_STOPPED is not one: somebody else's ended
// the work. `failure` NULL: nobody minds.
void mmul_failure_keep(struct mmul_failure *failure, const struct mmul_error *err);

// Without an error: a peer's, or the caller's wish.
void mmul_failure_void(struct mmul_failure *failure);
bool mmul_failure_is_void(const struct mmul_failure *failure);
