// SPDX-License-Identifier: MIT
// An event count: threads sleep on it until another thread notifies it. It may be in memory that
// processes share. A waiter reads the word, then tests its condition, and sleeps only if
// the word has not changed. A thread that changes the condition notifies afterwards. This order
// loses no wake-up.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

// Initial state: all zero, no sleeper.
struct mmul_eventcount {
    _Atomic uint32_t notifications;
    _Atomic int32_t sleepers;
};

// Wakes all sleepers. Without a sleeper this is one atomic addition and no system call.
void mmul_eventcount_notify(struct mmul_eventcount *eventcount);

static inline uint32_t mmul_eventcount_read(const struct mmul_eventcount *eventcount) {
    return atomic_load(&eventcount->notifications);
}

// Sleeps at most `seconds`. Returns at once if a notification came since mmul_eventcount_read
// returned `seen`. May return early.
void mmul_eventcount_wait(struct mmul_eventcount *eventcount, uint32_t seen, double seconds);
