// SPDX-License-Identifier: MIT
//
// Who begins which lines of a block, and how many. Each rank of a node has one word of its progress that
// says which positions of its tasks (plan/lists/tasks.h) nobody has begun: it takes them from the front, and
// whoever has nothing left claims them from the back, straight from there. That is all that passes
// between the two; where nobody is idle the word is the owner's alone. Ranks of another node take from the front,
// too (exec/tasks/lending.h).
//
//     |--- computed or begun ---|------- nobody's -------|--- claimed by others ---|
//     0                       front                     back               tasks.positions
//
// Pure but for the atomic word; no MPI, no waiting.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "plan/lists/tasks.h"

typedef _Atomic uint64_t mmul_unbegun; // positions; at most MMUL_POSITIONS_MOST

// By the owner: while nobody else looks, or while it is empty.
void mmul_unbegun_set(mmul_unbegun *unbegun, struct mmul_range left);

struct mmul_range mmul_unbegun_get(const mmul_unbegun *unbegun);

// Somebody begins the first, or the last, `count` of the positions that were `seen`. False, and nothing has
// changed: they are no longer so.
bool mmul_unbegun_take(mmul_unbegun *unbegun, struct mmul_range seen, int64_t count);
bool mmul_unbegun_claim(mmul_unbegun *unbegun, struct mmul_range seen, int64_t count);

// ------------------------------------------------------------------------------------ how many

// How far a rank is, in elements of C. Elements of other steps or ranks cost the same: k is one.
struct mmul_pace {
    double until; // seconds until what it computes now is over; 0: nothing
    double left;  // elements of its block that nobody has begun
    double rate;  // elements per second of late, > 0
};

// Seconds until all would be over if what is left were dealt out such that all end together; a rank
// that is busy for longer than that gets none of it.
double mmul_pace_level(const struct mmul_pace *paces, int count);

// What is left of a task: lines of so many elements each, `full` of which there were.
struct mmul_rest {
    int64_t lines, full;
    double width;
};

// How many lines of its task the owner, of this rate, should begin at once: all, unless others would
// wait for it for more than `worth` seconds; then what ends with theirs, and an eighth of the full
// lines at least.
int64_t mmul_pace_take(double level, double worth, double rate, struct mmul_rest rest);

// How many lines, whose terms are added in slices, their owner should keep from here on: all, unless others
// would wait for it for more than `worth` seconds, and what ends with theirs where that leaves an eighth of
// the full lines at least to be claimed. width: what the terms to come are worth.
int64_t mmul_pace_keep(double level, double worth, double rate, struct mmul_rest rest);

// How many lines of the last task of a rank of pace `owner` an idle one of this rate should claim: none
// where that saves no more than `worth` seconds, or the owner would be done before. An eighth of the
// full lines at least, else the call costs more than it computes.
int64_t mmul_pace_claim(double level, double worth, double rate, const struct mmul_pace *owner,
                        struct mmul_rest rest);
