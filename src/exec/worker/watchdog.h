// SPDX-License-Identifier: MIT
//
// A product that takes many times as long as it should is one whose device hangs: the main thread
// looks at the clock, gives the device up and lets its successor take over (exec/setup/fallback), while the
// thread that computed stays behind in the call. A CPU is never given up: it is slow.
#pragma once

#include <stdatomic.h>

#include "exec/setup/context.h"

struct mmul_watchdog {
    struct mmul_context *context; // borrowed
    double timeout_seconds;       // 0: many times what was predicted
    bool no_fallback;
    _Atomic int64_t until_ns; // of the product under way; 0: none is
    _Atomic int64_t flops;    // ... how much it is
    int replacements_before;  // of the context's device, when the run began
    _Atomic int replacements; // main thread: of the device that until_ns is for
    bool has_abandoned;       // a device that may still read what it was given
};

void mmul_watchdog_init(struct mmul_watchdog *deadline, struct mmul_context *context,
                        double timeout_seconds, bool no_fallback);

// The compute thread: around every product and its check.
void mmul_watchdog_begin(struct mmul_watchdog *deadline, double flops);
void mmul_watchdog_end(struct mmul_watchdog *deadline);

// The main thread, never waits. True: it is too late, the device was given up, and its thread will
// not come back. *status then says whether a successor is there; MMUL_ERR_UNAVAILABLE: none, err says
// why.
bool mmul_watchdog_give_up(struct mmul_watchdog *deadline, enum mmul_status *status,
                           struct mmul_error *err);
