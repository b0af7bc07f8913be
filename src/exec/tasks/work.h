// SPDX-License-Identifier: MIT
//
// Selects the next work of the compute thread: tasks of its own block from the front, then lines
// that it steals. If the plan allows stealing, a rank takes lines from the back of the block of the
// rank of its node that would end last. It computes them directly into their final place.
// A rank that adds its terms in slices keeps all lines of its block. Between two slices it releases
// lines that would make it end later than the others. Ranks communicate by these counters only.
// When no rank of root's node has work left to begin, its ranks borrow from other nodes
// (exec/tasks/node_steal.h).
#pragma once

#include "exec/memory/progress.h"
#include "exec/steps/block.h"
#include "plan/lists/tasks.h"

struct mmul_rank_resources;
struct mmul_stage;

// Lines of a task that are computed together.
struct mmul_work {
    int owner; // node rank that owns the block; -1: a rank of another node
    int rank;  // rank of the plan that owns the block
    struct mmul_task task;
    int64_t index;                   // index of the task in the rank's list
    int64_t line_begin, line_end;    // lines of the task
    int64_t begin, end;              // terms of the inner range; earlier terms are in C already
    struct mmul_stolen_rows brought; // rows that were moved here from another node
};

// State of one rank, used by its compute thread only. Other threads read the published progress.
struct mmul_works {
    struct mmul_tasks *tasks; // by node rank, owned
    bool is_shared;           // stealing is allowed, and more than one rank of the node has work
    // by node rank, then the borrowers; owned; as of the last estimate_paces
    struct mmul_pace *paces;
    // Paces as seen by the leader's main thread, owned; NULL: nothing is lent.
    struct mmul_pace *lender;
    struct mmul_task_cursor own;
    int64_t front; // first own position that is not begun, if stealing is not allowed
    // Terms in slices: own lines that are not released, index of the next slice.
    int64_t kept, slice;
    struct mmul_work current_work;
    bool is_under_way; // current_work is neither finished nor given up
    // current_work starts again: its device was given up, and C may hold some of its terms
    bool is_restarted;
    double begun; // clock: start of current_work
    // Recent average: elements computed, seconds taken.
    double elements, seconds;
    int64_t own_elements, elements_stolen, claims; // totals of what this rank has computed
};

// Local. Creates and destroys the task list that stages use in turn if no other rank reads it.
// Create before the first of these stages begins, destroy after the last has ended. Fails with
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_works_create_private(struct mmul_rank_resources *rank_resources,
                                           struct mmul_error *err);
void mmul_works_destroy_private(struct mmul_rank_resources *rank_resources);

// Creates the task lists and the published progress of this rank in a stage that other ranks read.
// Local; an agreement must follow before any rank computes. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_works_init(struct mmul_stage *stage, struct mmul_error *err);
void mmul_works_fini(struct mmul_stage *stage);

// Starts a stage on the compute thread, before its first task. All values that the stage reads are
// complete. Allows other ranks to steal from now on.
void mmul_works_start_stage(struct mmul_stage *stage);

// Sets current_work. Returns false if no work is left to begin, in its own block or in one that it
// may steal from. Also returns false if the run was cancelled. Waits while other ranks have work
// left, in case they fall behind; does not wait for ranks that have not entered this stage. Local.
bool mmul_works_select_next(struct mmul_stage *stage);

// Steals only: for a rank that has finished its own work and waits for the stage. Also waits for
// ranks that have not entered this stage.
bool mmul_works_steal(struct mmul_stage *stage);

// Publishes the start, and the end, of the current work. Local.
void mmul_works_begin_current(struct mmul_stage *stage);
void mmul_works_end_current(struct mmul_stage *stage);

// An idle rank of another node, and the rate of its node.
struct mmul_thief {
    double rate, node_rate; // elements of C per second, as in mmul_pace
    int64_t max_lines;      // capacity of its buffer
    double until;           // seconds until it is idle
    int rank;
};

// The leader's main thread: gives away lines of the block on this node that would end last. Counts
// them as finished, or (products of values) starts moving them. Returns false if no lines are worth
// moving.
// *seconds: estimated time until the work that is not begun yet on this node is over; 0: all work
// has begun. Local.
bool mmul_works_give_lines(struct mmul_stage *stage, const struct mmul_thief *borrower,
                           struct mmul_work *work, double *seconds);

// Counts lines of a rank's block as finished, no matter where they were computed.
void mmul_works_count_finished(struct mmul_stage *stage, int owner, int64_t lines);

// Lists what a pass needs: of a product pieces, panel, and a free slot for its block of C. Returns
// the number of needs. Local.
int mmul_works_list_needs(const struct mmul_stage *stage, struct mmul_pass pass,
                          struct mmul_need needs[static MMUL_NEEDS]);
