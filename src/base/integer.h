// SPDX-License-Identifier: MIT
// The smaller and the larger of two counts.
#pragma once

#include <stdint.h>

static inline int64_t mmul_smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t mmul_larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}
