// SPDX-License-Identifier: MIT
//
// For LD_PRELOAD: makes MPI waits sleep. Ranks poll and yield while they wait in MPI, so with
// several jobs on few cores waiting ranks take time from computing ones. Here a wait sleeps between
// polls from its third millisecond on.
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// A thread that computed this long since its last yield waits for something else.
static const double WORK_SECONDS = 50e-6;
static const double PATIENCE_SECONDS = 2e-3;
static const struct timespec nap = {.tv_nsec = 300000};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int sched_yield(void) {
    static _Thread_local double begun, left;
    const double entered = now();
    int code = 0;
    if (entered - left > WORK_SECONDS)
        begun = entered;
    if (entered - begun < PATIENCE_SECONDS)
        code = (int)syscall(SYS_sched_yield);
    else
        nanosleep(&nap, NULL);
    left = now();
    return code;
}
