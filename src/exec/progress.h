// SPDX-License-Identifier: MIT
// What the ranks of a node tell each other while they run: counters at the front of their shared
// segment, of the run and of each of its stages. Those of the traffic are written by one rank and only
// ever grow, but for rows_complete when a product is done again.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "exec/claims.h"
#include "plan/rooms.h"

// Lines of other nodes for a rank of root's (exec/lending.h): it asks, root's main thread answers.
enum mmul_loan_state { MMUL_LOAN_NONE, MMUL_LOAN_WANTED, MMUL_LOAN_GIVEN, MMUL_LOAN_REFUSED };

struct mmul_loan {
    _Atomic int state;
    int rank;                           // answer: whose, of the plan
    int64_t task, line_begin, line_end; // the same: which of its tasks, lines of that
    int64_t lines_most;                 // question: that there is room for
};

// Of a product.
struct mmul_stage_progress_rank {
    _Atomic int64_t steps_done; // steps whose part of this rank's block is finished
    // Of its rows of C, where exec/write_back follows them: complete in the mapped file; by root,
    // handed over to the disk.
    _Atomic int64_t rows_complete, rows_handed_over;
    mmul_unbegun unbegun;          // positions of its tasks; exec/work.h
    _Atomic int64_t lines_left;    // positions that nobody has finished
    _Atomic int64_t elements_done; // of C that this rank has computed, of whichever block
    // What it computes at the moment: since when, nanoseconds (0: nothing), elements of C; and
    // elements per second of late (0: not known).
    _Atomic int64_t begun, elements, rate;
    _Atomic int64_t sums_given; // rounds of exec/sums into which it has put what it has
    // Where it adds its terms in slices (plan/tasks.h): how many it has not begun, after which nobody needs to
    // wait for lines; which terms those lines have got that nobody has begun.
    _Atomic int64_t slices_left, terms_there;
    struct mmul_loan loan;
    char padding[56]; // cache lines of its own
};

struct mmul_stage_progress {
    // By the leader: rounds whose pieces, steps whose panels are there; steps whose blocks of C
    // have left their slots.
    _Atomic int64_t rounds_loaded, steps_loaded, results_stored;
    // By the leader: its lanes and slots are free; of a move, so many panels from other nodes are here.
    _Atomic int64_t is_open, has_arrived;
    _Atomic int64_t sums_made; // by the leader: rounds of exec/sums that are added up
    // The same: how fast the node is that has borrowed lines, elements of C per second (0: none has), and when it
    // will be through with them, nanoseconds.
    _Atomic int64_t borrower_rate, borrowed_until;
    struct mmul_stage_progress_rank ranks[]; // of the node, by node rank
};

struct mmul_run_progress_rank {
    _Atomic int64_t stages_done; // this rank's part of them
    char padding[56];
};

struct mmul_run_progress {
    _Atomic int cancelled; // by anyone: something failed, nothing needs to be computed any more
    char padding[60];
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
