// SPDX-License-Identifier: MIT
// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014), addressed
// by position: the n-th number of a seed costs the same as the first.
#pragma once

#include <stdint.h>

// Returns the number at `position` (from 0) of the sequence of `seed`.
static inline uint64_t mmul_random_at(uint64_t seed, uint64_t position) {
    uint64_t z = seed + (position + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

// Returns a seed from the system, different at each call.
uint64_t mmul_random_seed(void);

// Returns the seed of a check: `given`, or for 0 one from the system. Seeds from the system are
// nonzero and have at most 32 bits, so that a number in a report and a command line can hold them.
uint64_t mmul_random_resolve_seed(uint64_t given);
