// SPDX-License-Identifier: MIT
#pragma once

// Returns seconds on the monotonic clock.
double mmul_clock_now(void);

// Sleeps for `seconds`; returns early on a signal.
void mmul_clock_sleep(double seconds);

// Charges every moment to one of the caller's sums. The sums add up to the time since the first
// phase was entered. Initial state: all zero, stopped.
struct mmul_stopwatch {
    double *phase; // borrowed: the sum of the current phase; NULL: stopped
    double since;
};

// Ends the current phase at `now` and begins `phase`. NULL stops the watch.
void mmul_stopwatch_enter_at(struct mmul_stopwatch *watch, double *phase, double now);
void mmul_stopwatch_enter(struct mmul_stopwatch *watch, double *phase);
