// SPDX-License-Identifier: MIT
// A futex with a counter of sleepers. The futex works between processes if its word lies in a
// shared mapping. Ringing makes no system call while no thread sleeps. This file does not know the
// condition that its callers wait for.
#include "base/eventcount.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void call_futex(struct mmul_eventcount *eventcount, int operation, uint32_t value,
                       const struct timespec *until) {
    (void)syscall(SYS_futex, &eventcount->notifications, operation, value, until, NULL, 0);
}

// Sequentially consistent order makes the wake-up safe: either this load sees the sleeper counted,
// or the sleeper's futex call sees the changed word and returns. All four accesses need that order.
void mmul_eventcount_notify(struct mmul_eventcount *eventcount) {
    atomic_fetch_add(&eventcount->notifications, 1);
    if (atomic_load(&eventcount->sleepers) > 0)
        call_futex(eventcount, FUTEX_WAKE, INT_MAX, NULL);
}

void mmul_eventcount_wait(struct mmul_eventcount *eventcount, uint32_t seen, double seconds) {
    struct timespec most = {.tv_sec = (time_t)seconds};
    most.tv_nsec = (long)((seconds - (double)most.tv_sec) * 1e9);
    atomic_fetch_add(&eventcount->sleepers, 1);
    call_futex(eventcount, FUTEX_WAIT, seen, &most); // returns at once if the word has changed
    atomic_fetch_sub(&eventcount->sleepers, 1);
}
