// SPDX-License-Identifier: MIT
// Copies of rows in memory: `row_bytes` each, with the starts of consecutive rows `step` bytes
// apart.
#pragma once

#include <stdint.h>
#include <string.h>

// Copies adjacent rows as one. Neither side may be NULL, and the sides must not overlap.
static inline void mmul_copy_rows(const void *from, int64_t from_step, void *to, int64_t to_step,
                                  int64_t rows, int64_t row_bytes) {
    if (from_step == row_bytes && to_step == row_bytes) {
        row_bytes *= rows;
        rows = 1;
    }
    for (int64_t i = 0; i < rows; i++)
        memcpy((char *)to + i * to_step, (const char *)from + i * from_step, (size_t)row_bytes);
}
