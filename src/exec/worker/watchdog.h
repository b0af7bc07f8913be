// SPDX-License-Identifier: MIT
//
// Detects a hanging device by a product that takes many times its predicted time. The main thread
// checks the clock, gives the device up, and starts its successor (exec/setup/fallback). The thread
// that computed stays behind in the call. A CPU is never given up: it is only slow.
#pragma once

#include <stdatomic.h>

#include "exec/setup/context.h"

struct mmul_watchdog {
    struct mmul_context *context; // borrowed
    double timeout_seconds;       // 0: a multiple of the prediction
    bool no_fallback;
    _Atomic int64_t deadline_ns; // deadline of the current product in ns; 0: no product
    _Atomic int64_t flops;       // size of the current product
    int replacements_before;     // replacements of the context's device before the run
    _Atomic int replacements;    // main thread: replacements when deadline_ns was set
    bool has_abandoned;          // true if an abandoned device may still read its operands
};

void mmul_watchdog_init(struct mmul_watchdog *deadline, struct mmul_context *context,
                        double timeout_seconds, bool no_fallback);

// The compute thread: starts and ends the deadline, around every product and its check.
void mmul_watchdog_begin(struct mmul_watchdog *deadline, double flops);
void mmul_watchdog_end(struct mmul_watchdog *deadline);

// The main thread; never waits. Returns true if the deadline has passed: the device is given up,
// and its thread will not return. *status is then MMUL_OK if there is a successor, else
// MMUL_ERR_UNAVAILABLE with the reason in err.
bool mmul_watchdog_poll(struct mmul_watchdog *deadline, enum mmul_status *status,
                        struct mmul_error *err);

// Returns true while a product is past its deadline, as one on a slow CPU may be. Main thread.
bool mmul_watchdog_is_late(const struct mmul_watchdog *deadline);
