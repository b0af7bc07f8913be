// SPDX-License-Identifier: MIT
#pragma once

// Seconds on the monotonic clock.
double mmul_clock_now(void);

// Sleeps; returns early on a signal.
void mmul_clock_nap(double seconds);

// Charges every moment to one of the caller's sums, so that the sums add up to the time that has
// passed since the first of them was entered. Zeroed, it stands.
struct mmul_stopwatch {
    double *phase; // borrowed: seconds of what goes on now; NULL: it stands
    double since;
};

// What went on so far ends at `now`, `phase` begins; NULL stops the watch.
void mmul_stopwatch_enter_at(struct mmul_stopwatch *watch, double *phase, double now);
void mmul_stopwatch_enter(struct mmul_stopwatch *watch, double *phase);
