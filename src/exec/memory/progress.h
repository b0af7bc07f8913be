// SPDX-License-Identifier: MIT
// What the ranks of a node tell each other while they run: counters at the front of their shared
// segment, of the run and of each of its stages. Those of the traffic are written by one rank and only
// ever grow, but for rows_complete when a product is done again.
//
// Whoever waits for a counter looks for a short while and then sleeps, until the bell of who raises it rings: that of
// a rank for what is counted of its computing, by whichever rank, and one for the traffic. A leader's main thread has
// one, too: it naps for MPI, which rings no bells, and is woken for what a rank of its node has done. All of them ring
// when the run is cancelled.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/bell.h"
#include "exec/memory/claims.h"
#include "plan/lists/footprint.h"

// Of a product.
struct mmul_stage_progress_rank {
    _Atomic int64_t passes_done; // passes whose part of this rank's block is finished
    // Of its rows of C, where exec/tasks/write_back follows them: complete in the mapped file; by root,
    // handed over to the disk.
    _Atomic int64_t rows_complete, rows_handed_over;
    mmul_unbegun unbegun;          // positions of its tasks; exec/tasks/work.h
    _Atomic int64_t lines_left;    // positions that nobody has finished
    _Atomic int64_t elements_done; // of C that this rank has computed, of whichever block
    // What it computes at the moment: since when, nanoseconds (0: nothing), elements of C; and
    // elements per second of late (0: not known).
    _Atomic int64_t begun, elements, rate;
    _Atomic int64_t sums_given; // rounds of exec/steps/sums into which it has put what it has
    // Where it adds its terms in slices (plan/lists/tasks.h): how many it has not begun, after which nobody needs to
    // wait for lines; which terms those lines have got that nobody has begun.
    _Atomic int64_t slices_left, terms_there;
    _Atomic int64_t lines_lent;       // by the leader, to ranks of other nodes
    _Atomic int64_t sums_read;        // 1: of a move: it has compared what came with them
    _Atomic int64_t elements_planned; // of C that its own block has; 0: not known yet
    char padding[8];                  // cache lines of its own
};

struct mmul_stage_progress {
    // By the leader: rounds whose pieces, passes whose panels are there; passes whose blocks of C
    // have left their slots.
    _Atomic int64_t rounds_loaded, passes_loaded, results_stored;
    // By the leader: all that a product moves has left; of a move, so many panels from elsewhere are here.
    _Atomic int64_t has_left, has_arrived;
    _Atomic int64_t sums_made; // by the leader: rounds of exec/steps/sums that are added up
    // The same: how fast the node is that has borrowed lines, elements of C per second (0: none has), and when it
    // will be through with them, nanoseconds.
    _Atomic int64_t borrower_rate, borrowed_until;
    struct mmul_stage_progress_rank ranks[]; // of the node, by node rank
};

struct mmul_run_progress_rank {
    _Atomic int64_t stages_done; // this rank's part of them
    struct mmul_bell counted;    // rings when that, or what a stage counts of this rank, has grown
    struct mmul_bell attending;  // wakes its main thread
    char padding[40];
};

struct mmul_run_progress {
    _Atomic int cancelled; // by anyone: something failed, nothing needs to be computed any more
    int rank_count;
    struct mmul_bell moved; // rings when a counter of the traffic has grown
    // By the leader: who has done so many stages, or counts in the last of them, wakes its main thread.
    _Atomic int64_t news_from;
    char padding[40];
    struct mmul_run_progress_rank ranks[]; // of the node, by node rank
};

_Static_assert(sizeof(struct mmul_run_progress) == MMUL_RUN_COUNTERS, "as plans count them");
_Static_assert(sizeof(struct mmul_run_progress_rank) == MMUL_RUN_COUNTERS_EACH, "the same");
_Static_assert(sizeof(struct mmul_stage_progress) == MMUL_STAGE_COUNTERS, "the same");
_Static_assert(sizeof(struct mmul_stage_progress_rank) == MMUL_STAGE_COUNTERS_EACH, "the same");

static inline int64_t mmul_stage_progress_bytes(int ranks) {
    return (int64_t)sizeof(struct mmul_stage_progress) +
           ranks * (int64_t)sizeof(struct mmul_stage_progress_rank);
}

// ---------------------------------------------------------------------------------------- waiting

enum { MMUL_TRAFFIC = -1 }; // instead of a node rank: what the leader's main thread counts

// How a thread has waited: how often a counter was not there when it first looked, and how often it slept until then;
// and does it sleep now, until something has moved?
struct mmul_waits {
    int64_t count, sleeps;
    _Atomic bool for_traffic;
    // Of a run that one thread carries out: moves the traffic, and returns whether anything moved. NULL: another thread
    // does.
    bool (*meanwhile)(void *context);
    void *context;
};

// Until *counter, which is counted of a node rank or of the traffic, is `goal` at least; false: the run was cancelled.
bool mmul_progress_wait(struct mmul_run_progress *progress, int rank,
                        const _Atomic int64_t *counter, int64_t goal, struct mmul_waits *waits);

// Raises it, and wakes those who wait for it; nothing happens when it is there already. stages: of which the last one
// counts this; the leader's main thread is woken if it has asked for that.
void mmul_progress_raise(struct mmul_run_progress *progress, int rank, _Atomic int64_t *counter,
                         int64_t value, int64_t stages);

// All that sleep look again: the run was cancelled.
void mmul_progress_rouse(struct mmul_run_progress *progress);
