// SPDX-License-Identifier: MIT
//
// What the compute thread does next: tasks of its own block, from the front; then, where the plan lets
// blocks be claimed, lines at the back of the block of whoever on the node would end last, computed
// straight to where its owner would have put them. Who adds its terms in slices keeps all lines of its block,
// and lets go, between two slices, of what makes it end later than the others. Ranks tell each other by
// these counters alone. When nobody on root's node has anything left to begin, its ranks borrow from other
// nodes (exec/tasks/lending.h).
#pragma once

#include "exec/memory/progress.h"
#include "exec/steps/block.h"
#include "plan/lists/tasks.h"

struct mmul_site;
struct mmul_stage;

// Lines of a task that are computed together.
struct mmul_work {
    int owner; // node rank: whose block; -1: another node's ...
    int rank;  // ... this rank of the plan
    struct mmul_task task;
    int64_t index;                // of the task among the rank's
    int64_t line_begin, line_end; // of the task's
    int64_t begin, end;           // terms of the inner range; those before are in C already
    struct mmul_brought brought;  // another node's rows that were brought here
};

// Of one rank. The compute thread's, but for what others read of its progress.
struct mmul_works {
    struct mmul_tasks *tasks; // by node rank, owned
    int64_t passes;           // of the list
    int64_t lines_most;       // of a task, at most: what the verifier has room for
    bool is_shared;           // blocks may be claimed, and more than one rank of the node has work
    struct mmul_pace *paces;  // by node rank, and of who borrows, owned: as of the last look
    struct mmul_pace *lender; // the same of the leader's main thread, owned; NULL: nothing is lent
    struct mmul_task_cursor own;
    int64_t front;       // of its own positions, where nobody may claim any
    int64_t kept, slice; // with terms in slices: its lines, the next slice
    struct mmul_work at_hand;
    bool is_under_way;        // at_hand is neither finished nor given up
    bool is_again;            // at_hand: its device was given up, and C may hold some of its terms
    double begun;             // when at_hand was
    double elements, seconds; // of late
    int64_t own_elements, claimed_elements, claims; // what it has computed
};

// Local. Of a run: for stages whose lists concern nobody else, in turn; before the first of them begins, after the last
// has ended. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_works_create_turns(struct mmul_site *site, struct mmul_error *err);
void mmul_works_destroy_turns(struct mmul_site *site);

// Lists and progress of this rank in a stage, where others look at them. Local; an agreement must follow before anybody
// computes. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_works_init(struct mmul_stage *stage, struct mmul_error *err);
void mmul_works_fini(struct mmul_stage *stage);

// The compute thread, before its first task: what it reads of values is complete, and others may claim.
void mmul_works_enter(struct mmul_stage *stage);

// Sets at_hand; false: nothing is left to begin of its own block, nor of any that it may claim of, or the
// run was cancelled. Waits while others have something, in case they fall behind; not for who has not come to this
// stage yet. Local.
bool mmul_works_next(struct mmul_stage *stage);

// The same when all of its own is done and the stage is waited for: of what others have not begun, or may begin yet.
bool mmul_works_help(struct mmul_stage *stage);

// Begins, has finished what is at hand. Local.
void mmul_works_begin(struct mmul_stage *stage);
void mmul_works_end(struct mmul_stage *stage);

// A rank of another node with nothing left to do, and how fast its node is.
struct mmul_borrower {
    double rate, node_rate; // elements of C per second, as in mmul_pace
    int64_t lines_most;     // that it has room for
    double until;           // seconds until it is idle
    int rank;               // which
};

// The leader's main thread: gives lines away, of the block of whoever on this node would end last, and counts
// them as finished, or (values) has them moved. False: none that would be worth it. *seconds: until what nobody on
// this node has begun is over, by what is known now; 0: nothing is left to begin. Local.
bool mmul_works_lend(struct mmul_stage *stage, const struct mmul_borrower *borrower,
                     struct mmul_work *work, double *seconds);

// The same: lines of a rank's block are there, wherever they were computed.
void mmul_works_finish(struct mmul_stage *stage, int owner, int64_t lines);

// What a pass of a product waits for before it is computed: pieces, panel, and a free slot for its block of C. How
// many needs there are; any other has none. Local.
enum { MMUL_NEEDS = 3, MMUL_NEEDS_SLOT = 2 };
struct mmul_need {
    const _Atomic int64_t *counter; // of the progress
    int64_t goal;                   // reached: it need not wait
};
int mmul_works_needs(const struct mmul_stage *stage, struct mmul_pass pass,
                     struct mmul_need needs[static MMUL_NEEDS]);
