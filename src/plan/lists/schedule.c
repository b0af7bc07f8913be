// SPDX-License-Identifier: MIT
// Walks the list of steps. Everything is arithmetic on the plan; nothing is stored, so a plan for
// thousands of ranks stays small.
#include "plan/lists/schedule.h"

#include "base/integer.h"
#include "model/matrix.h"

// Units along the axis that is not split, and the matrices of the whole operand.
static int64_t other_units(const struct mmul_plan *plan) {
    return mmul_problem_result_width(&plan->problem, plan->axis);
}

static int64_t whole_matrices(const struct mmul_plan *plan) {
    return mmul_shape_matrices(mmul_problem_whole_shape(&plan->problem, plan->axis));
}

int64_t mmul_schedule_panels(const struct mmul_plan *plan) {
    return mmul_divide_up(whole_matrices(plan), plan->panel_matrices) *
           mmul_divide_up(other_units(plan), plan->panel_units);
}

int64_t mmul_schedule_steps(const struct mmul_plan *plan) {
    return plan->rounds * mmul_schedule_panels(plan);
}

struct mmul_step mmul_schedule_step(const struct mmul_plan *plan, int64_t index) {
    int64_t panels = mmul_schedule_panels(plan);
    int64_t per_matrix = mmul_divide_up(other_units(plan), plan->panel_units);
    struct mmul_step step = {.index = index, .round = index / panels, .panel = index % panels};
    step.matrix_begin = step.panel / per_matrix * plan->panel_matrices;
    step.matrix_end = mmul_smaller(step.matrix_begin + plan->panel_matrices, whole_matrices(plan));
    step.begin = step.panel % per_matrix * plan->panel_units;
    step.end = mmul_smaller(step.begin + plan->panel_units, other_units(plan));
    return step;
}

// units * round / rounds without leaving int64.
static int64_t share_before(int64_t units, int64_t round, int64_t rounds) {
    return units / rounds * round + units % rounds * round / rounds;
}

struct mmul_range mmul_schedule_part(const struct mmul_plan *plan, int rank, int64_t round) {
    const struct mmul_plan_rank *r = &mmul_plan_ranks(plan)[rank];
    int64_t units = r->end - r->begin;
    return (struct mmul_range){r->begin + share_before(units, round, plan->rounds),
                               r->begin + share_before(units, round + 1, plan->rounds)};
}

// ------------------------------------------------------------------------------------- stretches

// The result matrices that may use the step's matrices: a range of t that holds all of them.
static struct mmul_range using_matrices(const struct mmul_plan *plan, struct mmul_step step) {
    struct mmul_shape whole = mmul_problem_whole_shape(&plan->problem, plan->axis);
    struct mmul_shape c = plan->problem.c;
    if (whole.batch == c.batch && whole.depth == c.depth)
        return (struct mmul_range){step.matrix_begin, step.matrix_end};
    if (whole.batch == c.batch) // one of depth 1 serves all of its batch
        return (struct mmul_range){step.matrix_begin * c.depth, step.matrix_end * c.depth};
    return (struct mmul_range){0, plan->problem.matrices};
}

struct mmul_walk mmul_schedule_walk(const struct mmul_plan *plan, struct mmul_range range,
                                    struct mmul_step step) {
    int64_t units = mmul_problem_units(&plan->problem, plan->axis);
    struct mmul_range matrices = using_matrices(plan, step);
    range.begin = mmul_larger(range.begin, matrices.begin * units);
    range.end = mmul_larger(range.begin, mmul_smaller(range.end, matrices.end * units));
    return (struct mmul_walk){
        .plan = plan,
        .range = range,
        .step = step,
        .count = mmul_stretch_count(&plan->problem, plan->axis, range.begin, range.end)};
}

bool mmul_schedule_next(struct mmul_walk *walk, struct mmul_stretch *stretch) {
    const struct mmul_plan *plan = walk->plan;
    while (walk->index < walk->count) {
        *stretch = mmul_stretch_at(&plan->problem, plan->axis, walk->range.begin, walk->range.end,
                                   walk->index++);
        int64_t matrix = mmul_problem_whole_matrix(&plan->problem, plan->axis, stretch->matrix);
        if (matrix >= walk->step.matrix_begin && matrix < walk->step.matrix_end)
            return true;
    }
    return false;
}

int64_t mmul_schedule_units(const struct mmul_plan *plan, int rank, struct mmul_step step) {
    struct mmul_stretch s;
    int64_t units = 0;
    struct mmul_walk walk =
        mmul_schedule_walk(plan, mmul_schedule_part(plan, rank, step.round), step);
    while (mmul_schedule_next(&walk, &s))
        units += s.end - s.begin;
    return units;
}

int64_t mmul_schedule_steps_of(const struct mmul_plan *plan, int rank) {
    const struct mmul_plan_rank *r = &mmul_plan_ranks(plan)[rank];
    int64_t steps = mmul_schedule_steps(plan), count = 0;
    if (whole_matrices(plan) == 1)
        return mmul_smaller(r->end - r->begin, plan->rounds) * mmul_schedule_panels(plan);
    for (int64_t i = 0; i < steps; i++) {
        struct mmul_step step = mmul_schedule_step(plan, i);
        struct mmul_stretch s;
        struct mmul_walk walk =
            mmul_schedule_walk(plan, mmul_schedule_part(plan, rank, step.round), step);
        count += mmul_schedule_next(&walk, &s);
    }
    return count;
}

// ---------------------------------------------------------------------------------------- nodes

static bool node_works(const struct mmul_plan *plan, int node, struct mmul_step step) {
    for (int rank = 0; rank < plan->size; rank++) {
        struct mmul_stretch s;
        if (mmul_plan_ranks(plan)[rank].node != node)
            continue;
        struct mmul_walk walk =
            mmul_schedule_walk(plan, mmul_schedule_part(plan, rank, step.round), step);
        if (mmul_schedule_next(&walk, &s))
            return true;
    }
    return false;
}

static bool maps_whole(const struct mmul_plan *plan, int node) {
    return mmul_plan_nodes(plan)[node].maps & mmul_maps_whole(plan->axis);
}

bool mmul_schedule_loads(const struct mmul_plan *plan, int node, struct mmul_step step) {
    if (plan->problem.alpha == 0 || maps_whole(plan, node) || !node_works(plan, node, step))
        return false;
    if (!mmul_plan_nodes(plan)[node].whole_stays)
        return true;
    while (step.round > 0) {
        step.round--;
        if (node_works(plan, node, step))
            return false;
    }
    return true;
}

int64_t mmul_schedule_panel_bytes(const struct mmul_plan *plan, struct mmul_step step) {
    if (plan->problem.alpha == 0)
        return 0;
    return (step.matrix_end - step.matrix_begin) * (step.end - step.begin) * plan->problem.k *
           (int64_t)mmul_dtype_bytes(mmul_problem_whole_dtype(&plan->problem, plan->axis));
}

// ------------------------------------------------------------------------- rows of a spread operand

// The rows of each matrix that are in the step's panel: all of B, a stretch of A.
static struct mmul_range panel_rows(const struct mmul_plan *plan, struct mmul_step step) {
    int64_t rows = mmul_problem_whole_shape(&plan->problem, plan->axis).rows;
    return plan->axis == MMUL_ROWS ? (struct mmul_range){0, rows}
                                   : (struct mmul_range){step.begin, step.end};
}

// Rows of the panel before a row of all matrices.
static int64_t panel_rows_before(const struct mmul_plan *plan, struct mmul_step step, int64_t row) {
    int64_t rows = mmul_problem_whole_shape(&plan->problem, plan->axis).rows;
    struct mmul_range in = panel_rows(plan, step);
    int64_t height = in.end - in.begin, matrix = row / rows;
    if (matrix < step.matrix_begin)
        return 0;
    if (matrix >= step.matrix_end)
        return (step.matrix_end - step.matrix_begin) * height;
    return (matrix - step.matrix_begin) * height +
           mmul_smaller(mmul_larger(row % rows - in.begin, 0), height);
}

struct mmul_range mmul_schedule_whole_rows(const struct mmul_plan *plan, int rank,
                                           struct mmul_step step) {
    const struct mmul_plan_rank *r = &mmul_plan_ranks(plan)[rank];
    return (struct mmul_range){panel_rows_before(plan, step, r->whole_begin),
                               panel_rows_before(plan, step, r->whole_end)};
}

int64_t mmul_schedule_whole_row_bytes(const struct mmul_plan *plan, struct mmul_step step) {
    int64_t cols = plan->axis == MMUL_ROWS ? step.end - step.begin : plan->problem.k;
    return cols * (int64_t)mmul_dtype_bytes(mmul_problem_whole_dtype(&plan->problem, plan->axis));
}

// ------------------------------------------------------------------------------------- rectangles

struct mmul_region mmul_step_panel(const struct mmul_plan *plan, struct mmul_step step,
                                   int64_t matrix) {
    const struct mmul_problem *problem = &plan->problem;
    bool rows = plan->axis == MMUL_ROWS;
    struct mmul_region region =
        mmul_region_whole(mmul_problem_whole_shape(problem, plan->axis), matrix);
    bool along_rows = rows ? problem->transpose_b : !problem->transpose_a;
    *(along_rows ? &region.row_begin : &region.col_begin) = step.begin;
    *(along_rows ? &region.row_end : &region.col_end) = step.end;
    return region;
}

struct mmul_region mmul_step_result(const struct mmul_plan *plan, struct mmul_step step,
                                    struct mmul_stretch stretch) {
    struct mmul_region region = mmul_stretch_result(&plan->problem, plan->axis, stretch);
    bool rows = plan->axis == MMUL_ROWS;
    *(rows ? &region.col_begin : &region.row_begin) = step.begin;
    *(rows ? &region.col_end : &region.row_end) = step.end;
    return region;
}
