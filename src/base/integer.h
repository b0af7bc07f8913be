// SPDX-License-Identifier: MIT
// Small arithmetic on counts.
#pragma once

#include <stdint.h>

static inline int64_t mmul_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t mmul_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

// Returns the number of groups of at most `by` that hold `count` items; count >= 0, by > 0.
static inline int64_t mmul_divide_up(int64_t count, int64_t by) {
    return (count + by - 1) / by;
}

// Returns the greatest common divisor; of 0 and a count, the count.
static inline int64_t mmul_gcd(int64_t x, int64_t y) {
    while (y != 0) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}
