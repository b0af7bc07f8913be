// SPDX-License-Identifier: MIT
//
// The list of tasks that a rank computes, the same on all ranks, derived from the plan alone.
//
// - A step without a schedule is one task, the rank's whole part of the result. It is several if
//   other ranks may steal.
// - A product's tasks are its passes. If the panels of a matrix lie side by side (the whole operand
//   and C are mapped), all passes of a round and matrix are one task.
// - A block that is a single pass is cut: a wide task first, then two shorter ones. Other ranks of
//   the node may steal lines of these that are not begun (exec/memory/stealing.h).
//
//     cut along the width of C           cut along the lines
//      _______________________            ____________________
//     |           |     |     |          |                    |  0
//     |     0     |  1  |  2  |  lines   |____________________|
//     |           |     |     |          |____________________|  1
//     |___________|_____|_____|          |____________________|  2
//
// Each part packs the shared operand anew. If the device works in host memory and sums are long,
// the block stays one task and its terms are added in slices, which costs nothing. Between two
// slices the owner can leave lines, with the terms that they still need, to other ranks.
// Without slices six products with a rank slowed down at 40 % take 1.16 times as long
// (bench/ledger.md).
//
// Lines are a rank's units in a pass (columns of C if columns are split, else rows), counted over
// the matrices. A position counts the lines of one task after the other.
#pragma once

#include <stdio.h>

#include "plan/lists/blocks.h"

// Default share of a cut block that others may steal. Stealing costs the owner two more calls
// (measured: src/NOTES.md, "Planning and cost").
#define MMUL_CLAIM_SHARE 0.4

// Two positions must fit into one word for work stealing, so no rank may have more.
#define MMUL_POSITIONS_MOST ((int64_t)UINT32_MAX)

struct mmul_task {
    struct mmul_pass pass;        // joined: from `begin` to `end` of all its passes
    int64_t line_begin, line_end; // lines among the rank's units in the pass; empty: no work
    int64_t begin, end;           // range of the width, counted like the pass's
};

struct mmul_tasks_kind; // plan/lists/tasks.c

// The task list of a rank.
struct mmul_tasks {
    const struct mmul_tasks_kind *kind;
    union {
        const struct mmul_schedule *schedule; // borrowed, of a product
        const struct mmul_program_step *step; // borrowed: any other step
    };
    const struct mmul_program_plan *program; // borrowed: plan of that step
    int rank;
    uint8_t sums;      // slices of the inner range of every task; 1: not cut
    bool joined;       // all passes of a matrix are one task
    bool is_single;    // one pass with one task, which may be cut
    bool by_lines;     // the cut is along its lines, else along the width
    double share;      // share of that task that is cut off for stealing
    int64_t least;     // least lines, or width, of a part that is cut off
    int64_t slice;     // lines of every part if all are alike; 0: a wide task first
    int64_t terms;     // inner range of all tasks
    int64_t width;     // width of the tasks of a step without a schedule
    int64_t count;     // number of tasks
    int64_t positions; // lines of all tasks
};

// Returns the tasks of a rank. slice: lines that deserve a task of their own in any case, if the
// rank has twice as many; 0: none. in_order: finished lines are wanted before the others are done.
struct mmul_tasks mmul_tasks_of_schedule(const struct mmul_schedule *schedule, int rank,
                                         int64_t slice, bool in_order);
struct mmul_tasks mmul_tasks_of_step(const struct mmul_program_plan *program,
                                     const struct mmul_program_step *step, int rank);
struct mmul_task mmul_tasks_at(const struct mmul_tasks *tasks, int64_t index);

// Returns a walk over the blocks of `lines` of a task.
struct mmul_block_walk mmul_task_blocks(const struct mmul_tasks *tasks,
                                        const struct mmul_task *task, struct mmul_range lines);

// A cursor in the task list. A zeroed cursor stands before the first task.
struct mmul_task_cursor {
    int64_t index, position; // the task's index; the position of its first line
    struct mmul_task task;
    bool is_there;
};

// Advances to the task that holds `position`. `position` is not before the current task, and <
// tasks->positions.
void mmul_tasks_seek(const struct mmul_tasks *tasks, int64_t position,
                     struct mmul_task_cursor *cursor);

// Returns the end of slice `index` of the inner range.
int64_t mmul_tasks_terms_end(const struct mmul_tasks *tasks, int64_t index);

// Returns the elements of C in positions [begin, end).
double mmul_tasks_elements(const struct mmul_tasks *tasks, int64_t begin, int64_t end);

// Prints the tasks of all ranks as a table: lines in the pass, range of the width, counters that a
// task waits for. Slices are missing: only a run knows them.
void mmul_tasks_print(const struct mmul_schedule *schedule, FILE *stream);

// Writes part `index` of an extent that is cut. The first part is all but `share`. The others are
// halves of `share`, or one part if halves would be less than `least`. Returns false if there is no
// such part.
bool mmul_tasks_cut_extent(int64_t extent, double share, int64_t least, int64_t index,
                           struct mmul_range *part);
