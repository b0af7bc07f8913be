// SPDX-License-Identifier: MIT
//
// Blocks of a list that stand in it several times, one behind the other: the layers of a model, the rounds of a loop.
#pragma once

#include <stdint.h>

// What begins at an entry: `times` blocks of `length` entries each that are alike; 1 and 1: an entry alone.
struct mmul_repeat {
    int length, times;
    int lines; // that the list takes from here on, with each of such blocks shown once under a line of its own
};

// Marks of `count` entries are equal where these are alike. Blocks that stand there less than three times, or of which
// little would be left out, are entries. Who goes through the list begins at entry 0 and goes on by length * times.
// Released with mmul_free; NULL: there is no memory. Local.
struct mmul_repeat *mmul_repeats_find(int count, uint64_t (*mark)(const void *list, int index),
                                      const void *list);

// repeats may be NULL: all entries are alone.
struct mmul_repeat mmul_repeats_at(const struct mmul_repeat *repeats, int index);
