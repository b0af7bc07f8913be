// SPDX-License-Identifier: MIT
//
// What a rank computes, as a list: the same on all ranks, computed from the plan alone. In a step that is no product
// with a schedule that is one task, all that the rank has of the result, or some where others may claim. The
// tasks of a product are its passes; where panels of a matrix lie side by side (the whole operand and C are mapped),
// all passes of a round and matrix are one. A block that is one such pass alone is cut: a wide task first, then two
// shorter ones, of which others on the node may claim what nobody has begun (exec/memory/claims.h).
//
//     cut along the width of C           cut along the lines
//      _______________________            ____________________
//     |           |     |     |          |                    |  0
//     |     0     |  1  |  2  |  lines   |____________________|
//     |           |     |     |          |____________________|  1
//     |___________|_____|_____|          |____________________|  2
//
// Each part packs what it shares with the others anew. Where the device works in host memory and the sums
// are long, the block is one task, whose terms are added in slices instead: that costs nothing, and
// between two slices its owner can leave lines, with the terms that they still need, to others.
//
// Lines are a rank's units in a pass (columns of C when columns are split, else rows), counted over the matrices.
// A position counts the lines of one task after the other.
#pragma once

#include <stdio.h>

#include "plan/lists/blocks.h"

// Of a block that is cut, what others may claim where nobody has said how much: that costs its owner two calls more.
#define MMUL_CLAIM_SHARE 0.4

// Two positions have to fit into one word for lines to be claimed: no rank may have more then.
#define MMUL_POSITIONS_MOST ((int64_t)UINT32_MAX)

// The list of a rank.
struct mmul_tasks {
    const struct mmul_schedule *schedule;    // borrowed, of a product; NULL:
    const struct mmul_program_plan *program; // the same, of another step: its plan ...
    const struct mmul_program_step *step;    // ... and that
    int rank;
    bool joined;       // passes of a matrix are one
    bool by_lines;     // a block of one pass is cut along its lines, else along the width
    int64_t slice;     // lines of a task then, all alike; 0: a wide one first
    int64_t terms;     // of the inner range, of all tasks
    int64_t sums;      // slices of it, the same of all tasks; 1: it is not cut
    int64_t width;     // of the tasks of a step that is no product ...
    double share;      // ... and what others may claim of it
    int64_t count;     // of tasks
    int64_t positions; // of all tasks
};

struct mmul_task {
    struct mmul_pass pass;        // joined: from `begin` to `end` of all its passes
    int64_t line_begin, line_end; // of the rank's units in the pass; empty: nothing to do
    int64_t begin, end;           // of the width, beginning with the pass's
};

// slice: lines that are worth a task of their own whatever may be claimed, where there are twice as
// many; 0: none. in_order: finished lines are wanted before the others are.
struct mmul_tasks mmul_tasks_of(const struct mmul_schedule *schedule, int rank, int64_t slice,
                                bool in_order);
struct mmul_tasks mmul_tasks_of_step(const struct mmul_program_plan *program,
                                     const struct mmul_program_step *step, int rank);
struct mmul_task mmul_tasks_at(const struct mmul_tasks *tasks, int64_t index);

// The blocks of some lines of a task.
struct mmul_block_walk mmul_task_blocks(const struct mmul_tasks *tasks,
                                        const struct mmul_task *task, struct mmul_range lines);

// A task on the way through the list; zeroed, it stands before the first one.
struct mmul_task_cursor {
    int64_t index, position; // of the task, of its first line
    struct mmul_task task;
    bool is_there;
};

// Moves on to the task that holds a position, not before the one at hand and < tasks->positions.
void mmul_tasks_seek(const struct mmul_tasks *tasks, int64_t position,
                     struct mmul_task_cursor *cursor);

// Where slice `index` of the inner range ends.
int64_t mmul_tasks_terms(const struct mmul_tasks *tasks, int64_t index);

// Elements of C in positions [begin, end).
double mmul_tasks_elements(const struct mmul_tasks *tasks, int64_t begin, int64_t end);

// The tasks of all ranks as a table: lines of the rank's in the pass, the range of the width, what it
// waits for. Without slices, which only a run knows of.
void mmul_tasks_print(const struct mmul_schedule *schedule, FILE *stream);

// Part `index` of an extent that is cut: the first one is what is not `share`, the others are halves of
// it, or one is where halves would be less than `least`. False: there are not so many.
bool mmul_tasks_cut(int64_t extent, double share, int64_t least, int64_t index,
                    struct mmul_range *part);
