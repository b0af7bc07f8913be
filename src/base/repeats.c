// SPDX-License-Identifier: MIT
// Finds repeated blocks by comparing the list with itself, shifted by each length. Prints nothing.
#include "base/repeats.h"

#include "base/memory.h"

enum { LENGTH_MOST = 1024, TIMES_LEAST = 3, SAVED_LEAST = 4 };

static int saved_lines(const struct mmul_repeated_block *r) {
    return r->length * (r->times - 1);
}

// Records blocks of this length at each entry where they save more lines than those found before.
static void find_blocks(const uint64_t *marks, int count, int length,
                        struct mmul_repeated_block *repeats) {
    int alike = 0; // consecutive entries from i on that equal the entry `length` later
    for (int i = count - length - 1; i >= 0; i--) {
        alike = marks[i] == marks[i + length] ? alike + 1 : 0;
        const struct mmul_repeated_block found = {.length = length, .times = alike / length + 1};
        if (found.times >= TIMES_LEAST && saved_lines(&found) >= SAVED_LEAST &&
            saved_lines(&found) > saved_lines(&repeats[i]))
            repeats[i] = found;
    }
}

// Chooses nearly the fewest lines. Rejects a block if one that begins later saves more.
static void choose_repeats(int count, struct mmul_repeated_block *repeats) {
    for (int i = count - 1; i >= 0; i--) {
        struct mmul_repeated_block *r = &repeats[i];
        const int alone = 1 + r[1].lines, together = 1 + r->length + r[r->length * r->times].lines;
        if (r->times == 1 || together > alone)
            *r = (struct mmul_repeated_block){.length = 1, .times = 1, .lines = alone};
        else
            r->lines = together;
    }
}

struct mmul_repeated_block *mmul_find_repeated_blocks(int count,
                                                      uint64_t (*mark)(const void *list, int index),
                                                      const void *list) {
    struct mmul_repeated_block *repeats = NULL;
    uint64_t *marks = NULL;
    struct mmul_error ignored;
    if (MMUL_ALLOCATE(marks, count, "a table", &ignored) != MMUL_OK ||
        MMUL_ALLOCATE(repeats, count + 1, "a table", &ignored) != MMUL_OK) {
        mmul_free(marks);
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        marks[i] = mark(list, i);
        repeats[i] = (struct mmul_repeated_block){.length = 1, .times = 1};
    }
    for (int length = 1; length <= LENGTH_MOST && length * TIMES_LEAST <= count; length++)
        find_blocks(marks, count, length, repeats);
    choose_repeats(count, repeats);
    mmul_free(marks);
    return repeats;
}

struct mmul_repeated_block mmul_repeated_block_at(const struct mmul_repeated_block *repeats,
                                                  int index) {
    return repeats != NULL ? repeats[index] : (struct mmul_repeated_block){.length = 1, .times = 1};
}
