// SPDX-License-Identifier: MIT
//
// The steps of a run: one list, the same on all ranks, computed from the plan alone. The sender of
// a panel and its receiver walk the same list, so nothing about order is ever negotiated.
//
//     for each round            (a piece of every rank's part of the split range)
//       for each panel          (of the whole operand: a range of the other axis of one matrix, that
//                                is columns of B when rows are split; or several whole matrices)
//         one step: C[units of the rank's piece that use the panel's matrices, the panel's range]
//
// In core is one round; a small problem is one round of one panel.
#pragma once

#include "plan/lists/plan.h"

struct mmul_step {
    int64_t index; // in the list
    int64_t round;
    int64_t panel;                    // in the round, 0 .. mmul_schedule_panels - 1
    int64_t matrix_begin, matrix_end; // of the whole operand
    int64_t begin, end;               // units of the other axis, inside each matrix
};

// Panels per round, and steps in all.
int64_t mmul_schedule_panels(const struct mmul_plan *plan);
int64_t mmul_schedule_steps(const struct mmul_plan *plan);
struct mmul_step mmul_schedule_step(const struct mmul_plan *plan, int64_t index);

// Units of `rank` in `round`; their union over the rounds is its part, in order.
struct mmul_range {
    int64_t begin, end;
};
struct mmul_range mmul_schedule_part(const struct mmul_plan *plan, int rank, int64_t round);

// The stretches of `range` that use the step's matrices, in order:
//     for (walk = mmul_schedule_walk(plan, range, step); mmul_schedule_next(&walk, &stretch);)
struct mmul_walk {
    const struct mmul_plan *plan;
    struct mmul_range range;
    struct mmul_step step;
    int64_t index, count;
};
struct mmul_walk mmul_schedule_walk(const struct mmul_plan *plan, struct mmul_range range,
                                    struct mmul_step step);
bool mmul_schedule_next(struct mmul_walk *walk, struct mmul_stretch *stretch);

// Units that a rank computes in a step; so many units x (step.end - step.begin) elements of C.
int64_t mmul_schedule_units(const struct mmul_plan *plan, int rank, struct mmul_step step);

// Steps in which a rank has work: all of them, or, with several whole matrices, those of its own.
int64_t mmul_schedule_steps_of(const struct mmul_plan *plan, int rank);

// Whether the step's panel is put into the node's memory for this step: a rank of it has work in
// it, the operand is not mapped there, and the panel is not there since an earlier round.
bool mmul_schedule_loads(const struct mmul_plan *plan, int node, struct mmul_step step);

// Where the whole operand is spread: the rows of the step's panel, counted over its matrices, that a rank
// has; and the bytes of each.
struct mmul_range mmul_schedule_whole_rows(const struct mmul_plan *plan, int rank,
                                           struct mmul_step step);
int64_t mmul_schedule_whole_row_bytes(const struct mmul_plan *plan, struct mmul_step step);

// Bytes of the step's panel of the whole operand; not 0 where a node maps it.
int64_t mmul_schedule_panel_bytes(const struct mmul_plan *plan, struct mmul_step step);

// The step's rectangle of matrix `matrix` of the whole operand.
struct mmul_region mmul_step_panel(const struct mmul_plan *plan, struct mmul_step step,
                                   int64_t matrix);
// A stretch's rectangle of C in a step.
struct mmul_region mmul_step_result(const struct mmul_plan *plan, struct mmul_step step,
                                    struct mmul_stretch stretch);
