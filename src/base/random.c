// SPDX-License-Identifier: MIT
// Seeds from the system. The sequence itself is an inline function of the header.
#include "base/random.h"

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

uint64_t mmul_random_seed(void) {
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed)
        return seed;
    // Fallback without a system source: time and process id differ between calls and processes. The
    // contract promises no more.
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    seed = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
    return mmul_random_at(seed, (uint64_t)getpid());
}

uint64_t mmul_random_resolve_seed(uint64_t given) {
    return given != 0 ? given : mmul_random_seed() >> 32 | 1;
}
