// SPDX-License-Identifier: MIT
//
// A word on which threads sleep until another one rings, in memory that may be shared by processes. Who waits
// for something looks at the bell first, then at what it waits for, and sleeps only if it has not rung since;
// who changes something rings behind that: so no change is missed.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

// Zeroed: nobody sleeps.
struct mmul_bell {
    _Atomic uint32_t rings;
    _Atomic int32_t sleepers;
};

// Wakes all who sleep. With nobody there, an addition: no call of the system.
void mmul_bell_ring(struct mmul_bell *bell);

static inline uint32_t mmul_bell_heard(const struct mmul_bell *bell) {
    return atomic_load(&bell->rings);
}

// Sleeps so long at most; not when it has rung since it was `heard`. May return early.
void mmul_bell_sleep(struct mmul_bell *bell, uint32_t heard, double seconds);
