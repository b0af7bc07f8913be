// SPDX-License-Identifier: MIT
// Blocks that occur several times in a list, one directly after the other: the layers of a model,
// the rounds of a loop.
#pragma once

#include <stdint.h>

// The repetition that begins at an entry: `times` equal blocks of `length` entries; 1 and 1: a
// single entry.
struct mmul_repeated_block {
    int length, times;
    // Lines that the list takes from here on, with each repeated block shown once under a line of
    // its own.
    int lines;
};

// Finds repetitions in a list of `count` entries; equal entries must have equal marks. Blocks with
// less than three repetitions, or that save few lines, are left as single entries. A reader starts
// at entry 0 and advances by length * times. Released with mmul_free; NULL: out of memory. Local.
struct mmul_repeated_block *mmul_find_repeated_blocks(int count,
                                                      uint64_t (*mark)(const void *list, int index),
                                                      const void *list);

// Returns the repetition at `index`. `repeats` may be NULL: all entries are single.
struct mmul_repeated_block mmul_repeated_block_at(const struct mmul_repeated_block *repeats,
                                                  int index);
