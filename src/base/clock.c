// SPDX-License-Identifier: MIT
// Seconds of the monotonic clock, which no clock adjustment moves; short sleeps for polling loops;
// sums of seconds by phase. No dates, no timers.
#include "base/clock.h"

#include <time.h>

double mmul_clock_now(void) {
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now); // cannot fail for this clock and a valid address
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void mmul_clock_sleep(double seconds) {
    if (!(seconds > 0))
        return;
    struct timespec pause = {.tv_sec = (time_t)seconds};
    pause.tv_nsec = (long)((seconds - (double)pause.tv_sec) * 1e9);
    (void)nanosleep(&pause, NULL); // a signal may end the nap early, as the contract says
}

void mmul_stopwatch_enter_at(struct mmul_stopwatch *watch, double *phase, double now) {
    if (watch->phase != NULL)
        *watch->phase += now - watch->since;
    watch->phase = phase;
    watch->since = now;
}

void mmul_stopwatch_enter(struct mmul_stopwatch *watch, double *phase) {
    mmul_stopwatch_enter_at(watch, phase, mmul_clock_now());
}
