// SPDX-License-Identifier: MIT
// Futexes, which work between processes where their word is mapped shared. Counts who sleeps, so that ringing
// is cheap when nobody does. Knows nothing of what is waited for.
#include "base/bell.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void call(struct mmul_bell *bell, int operation, uint32_t value,
                 const struct timespec *until) {
    (void)syscall(SYS_futex, &bell->rings, operation, value, until, NULL, 0);
}

// Either the sleeper has been counted when this looks, or the word has changed before the sleeper's call
// compares it: all four accesses are of one order.
void mmul_bell_ring(struct mmul_bell *bell) {
    atomic_fetch_add(&bell->rings, 1);
    if (atomic_load(&bell->sleepers) > 0)
        call(bell, FUTEX_WAKE, INT_MAX, NULL);
}

void mmul_bell_sleep(struct mmul_bell *bell, uint32_t heard, double seconds) {
    struct timespec most = {.tv_sec = (time_t)seconds};
    most.tv_nsec = (long)((seconds - (double)most.tv_sec) * 1e9);
    atomic_fetch_add(&bell->sleepers, 1);
    call(bell, FUTEX_WAIT, heard, &most); // returns at once when the word is another one
    atomic_fetch_sub(&bell->sleepers, 1);
}
