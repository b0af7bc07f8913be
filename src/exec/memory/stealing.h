// SPDX-License-Identifier: MIT
//
// Work stealing within a node: which rank begins which lines of a block, and how many. Each rank
// has one atomic word in its progress with the positions of its tasks (plan/lists/tasks.h) that
// have not begun. The owner takes positions from the front. An idle rank of the node claims some
// from the back, and ranks of another node get some from the front (exec/tasks/node_steal.h). The
// word is all they exchange; while no rank is idle only the owner accesses it.
// Without work stealing six products with a rank slowed down at 40 % take 2.2 times as long
// (bench/ledger.md).
//
//     |--- computed or begun ---|------ not begun -------|--- claimed by others ---|
//     0                       front                     back               tasks.positions
//
// Pure but for the atomic word; no MPI, no waiting.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "plan/lists/tasks.h"

typedef _Atomic uint64_t mmul_unstarted; // a range of positions; at most MMUL_POSITIONS_MOST

// Sets the range. Owner only, while no other rank reads it or while it is empty.
void mmul_unstarted_set(mmul_unstarted *unstarted, struct mmul_range left);

struct mmul_range mmul_unstarted_get(const mmul_unstarted *unstarted);

// Begin the first (take_front) or the last (steal_back) `count` positions. `seen` is the range read
// before. False: the range has changed since then; nothing was taken.
bool mmul_unstarted_take_front(mmul_unstarted *unstarted, struct mmul_range seen, int64_t count);
bool mmul_unstarted_steal_back(mmul_unstarted *unstarted, struct mmul_range seen, int64_t count);

// ---------------------------------------------------------------------------------- number of rows

// Progress of a rank, in elements of C. Elements of other steps or ranks cost the same, because k
// is the same.
struct mmul_pace {
    double until; // seconds until its current work is over; 0: none
    double left;  // elements of its block that have not begun
    double rate;  // recent elements per second, > 0
};

// Returns the seconds until all would finish if the remaining work were dealt out so that they
// finish together. A rank that is busy for longer gets none of it.
double mmul_pace_common_finish(const struct mmul_pace *paces, int count);

// Remaining part of a task: `lines` of `width` elements each. `full`: number of lines the task
// began with.
struct mmul_remaining_lines {
    int64_t lines, full;
    double width;
};

// Returns how many lines of its task the owner should begin at once. All, unless others would then
// wait more than `worth` seconds. Otherwise as many as end together with the others' work, at least
// an eighth of the full lines. rate: the owner's.
int64_t mmul_pace_lines_to_begin(double level, double worth, double rate,
                                 struct mmul_remaining_lines rest);

// Returns how many lines the owner should keep if it adds their terms in slices. All, unless others
// would then wait more than `worth` seconds. Otherwise as many as end together with the others'
// work, if at least an eighth of the full lines is left to be claimed. rest.width counts the terms
// still to be added.
int64_t mmul_pace_lines_to_keep(double level, double worth, double rate,
                                struct mmul_remaining_lines rest);

// Returns how many lines of the last task of `owner` an idle rank of this rate should claim. None
// if that saves at most `worth` seconds, or if the owner would finish earlier. Otherwise at least
// an eighth of the full lines, because a smaller product costs more in overhead than it computes.
int64_t mmul_pace_lines_to_steal(double level, double worth, double rate,
                                 const struct mmul_pace *owner, struct mmul_remaining_lines rest);
