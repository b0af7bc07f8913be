// SPDX-License-Identifier: MIT
//
// For LD_PRELOAD: ranks that wait in MPI look again and again, and yield in between; of several jobs on few cores those
// that wait take the time of those that compute. With this they sleep between looks from a wait's third millisecond on.
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// A thread that has done so much since it yielded last waits for something else.
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
