// SPDX-License-Identifier: MIT
// Locates the parts of a schedule's block, and derives the list of passes from them by arithmetic.
// Stores no list, so a schedule for thousands of ranks stays small.
#include "plan/lists/schedule.h"

#include "base/integer.h"
#include "base/memory.h"
#include "model/matrix.h"

void mmul_schedule_set_participation(struct mmul_schedule *schedule, int node, bool participates) {
    struct mmul_schedule_rank *ranks = (struct mmul_schedule_rank *)(schedule + 1);
    ((struct mmul_schedule_node *)(ranks + schedule->size))[node].participates = participates;
}

const struct mmul_schedule_rank *mmul_schedule_ranks(const struct mmul_schedule *schedule) {
    return (const struct mmul_schedule_rank *)(schedule + 1);
}

const struct mmul_schedule_node *mmul_schedule_nodes(const struct mmul_schedule *schedule) {
    return (const struct mmul_schedule_node *)(mmul_schedule_ranks(schedule) + schedule->size);
}

enum mmul_status mmul_schedule_create(int size, int node_count, struct mmul_schedule **schedule,
                                      struct mmul_error *err) {
    const int64_t bytes = (int64_t)sizeof **schedule +
                          size * (int64_t)sizeof(struct mmul_schedule_rank) +
                          node_count * (int64_t)sizeof(struct mmul_schedule_node);
    struct mmul_schedule *made = mmul_allocate(bytes, 1, "the schedule", err);
    if (made == NULL)
        return err->status;
    *made = (struct mmul_schedule){.size = size, .node_count = node_count, .bytes = bytes};
    *schedule = made;
    return MMUL_OK;
}

void mmul_schedule_free(struct mmul_schedule *schedule) {
    mmul_free(schedule);
}

// ------------------------------------------------------------------------------------------ passes

// Returns the units along the axis that is not split.
static int64_t other_units(const struct mmul_schedule *schedule) {
    return mmul_problem_result_width(&schedule->problem, schedule->axis);
}

static int64_t whole_matrices(const struct mmul_schedule *schedule) {
    return mmul_problem_whole_matrices(&schedule->problem, schedule->axis);
}

int64_t mmul_schedule_panels(const struct mmul_schedule *schedule) {
    return mmul_divide_up(whole_matrices(schedule), schedule->panel_matrices) *
           mmul_divide_up(other_units(schedule), schedule->panel_units);
}

int64_t mmul_schedule_passes(const struct mmul_schedule *schedule) {
    return schedule->rounds * mmul_schedule_panels(schedule);
}

struct mmul_pass mmul_schedule_pass(const struct mmul_schedule *schedule, int64_t index) {
    int64_t panels = mmul_schedule_panels(schedule);
    int64_t per_matrix = mmul_divide_up(other_units(schedule), schedule->panel_units);
    struct mmul_pass pass = {.index = index, .round = index / panels, .panel = index % panels};
    pass.matrix_begin = pass.panel / per_matrix * schedule->panel_matrices;
    pass.matrix_end =
        mmul_min(pass.matrix_begin + schedule->panel_matrices, whole_matrices(schedule));
    pass.begin = pass.panel % per_matrix * schedule->panel_units;
    pass.end = mmul_min(pass.begin + schedule->panel_units, other_units(schedule));
    return pass;
}

// Returns units * round / rounds without overflow of int64.
static int64_t units_before_round(int64_t units, int64_t round, int64_t rounds) {
    return units / rounds * round + units % rounds * round / rounds;
}

struct mmul_range mmul_schedule_part(const struct mmul_schedule *schedule, int rank,
                                     int64_t round) {
    const struct mmul_schedule_rank *r = &mmul_schedule_ranks(schedule)[rank];
    int64_t units = r->end - r->begin;
    return (struct mmul_range){r->begin + units_before_round(units, round, schedule->rounds),
                               r->begin + units_before_round(units, round + 1, schedule->rounds)};
}

// --------------------------------------------------------------------------------------- stretches

// Returns a range that contains all result matrices which use the matrices of the pass.
static struct mmul_range using_matrices(const struct mmul_schedule *schedule,
                                        struct mmul_pass pass) {
    struct mmul_shape whole = mmul_problem_whole_shape(&schedule->problem, schedule->axis);
    struct mmul_shape c = schedule->problem.c;
    if (whole.batch == c.batch && whole.depth == c.depth)
        return (struct mmul_range){pass.matrix_begin, pass.matrix_end};
    // One matrix of depth 1 serves its whole batch.
    if (whole.batch == c.batch)
        return (struct mmul_range){pass.matrix_begin * c.depth, pass.matrix_end * c.depth};
    return (struct mmul_range){0, schedule->problem.matrices};
}

struct mmul_stretch_walk mmul_schedule_walk(const struct mmul_schedule *schedule,
                                            struct mmul_range range, struct mmul_pass pass) {
    int64_t units = mmul_problem_units(&schedule->problem, schedule->axis);
    struct mmul_range matrices = using_matrices(schedule, pass);
    range.begin = mmul_max(range.begin, matrices.begin * units);
    range.end = mmul_max(range.begin, mmul_min(range.end, matrices.end * units));
    return (struct mmul_stretch_walk){
        .schedule = schedule,
        .range = range,
        .pass = pass,
        .count =
            mmul_matrix_range_count(&schedule->problem, schedule->axis, range.begin, range.end)};
}

bool mmul_schedule_next(struct mmul_stretch_walk *walk, struct mmul_matrix_range *stretch) {
    const struct mmul_schedule *schedule = walk->schedule;
    while (walk->index < walk->count) {
        *stretch = mmul_matrix_range_at(&schedule->problem, schedule->axis, walk->range.begin,
                                        walk->range.end, walk->index++);
        int64_t matrix =
            mmul_problem_whole_matrix(&schedule->problem, schedule->axis, stretch->matrix);
        if (matrix >= walk->pass.matrix_begin && matrix < walk->pass.matrix_end)
            return true;
    }
    return false;
}

static struct mmul_stretch_walk walk_rank(const struct mmul_schedule *schedule, int rank,
                                          struct mmul_pass pass) {
    return mmul_schedule_walk(schedule, mmul_schedule_part(schedule, rank, pass.round), pass);
}

static int64_t count_part(const struct mmul_schedule *schedule, int rank, int64_t round) {
    const struct mmul_range part = mmul_schedule_part(schedule, rank, round);
    return part.end - part.begin;
}

static bool rank_has_work(const struct mmul_schedule *schedule, int rank, struct mmul_pass pass) {
    struct mmul_matrix_range ignored;
    if (whole_matrices(schedule) == 1)
        return count_part(schedule, rank, pass.round) > 0;
    struct mmul_stretch_walk walk = walk_rank(schedule, rank, pass);
    return mmul_schedule_next(&walk, &ignored);
}

int64_t mmul_schedule_units(const struct mmul_schedule *schedule, int rank, struct mmul_pass pass) {
    struct mmul_matrix_range s;
    int64_t units = 0;
    if (whole_matrices(schedule) == 1)
        return count_part(schedule, rank, pass.round);
    struct mmul_stretch_walk walk = walk_rank(schedule, rank, pass);
    while (mmul_schedule_next(&walk, &s))
        units += s.end - s.begin;
    return units;
}

int64_t mmul_schedule_passes_of(const struct mmul_schedule *schedule, int rank) {
    const struct mmul_schedule_rank *r = &mmul_schedule_ranks(schedule)[rank];
    int64_t passes = mmul_schedule_passes(schedule), count = 0;
    if (whole_matrices(schedule) == 1)
        return mmul_min(r->end - r->begin, schedule->rounds) * mmul_schedule_panels(schedule);
    for (int64_t i = 0; i < passes; i++)
        count += rank_has_work(schedule, rank, mmul_schedule_pass(schedule, i));
    return count;
}

// ------------------------------------------------------------------------------------------- nodes

static bool node_has_work(const struct mmul_schedule *schedule, int node, struct mmul_pass pass) {
    for (int rank = 0; rank < schedule->size; rank++)
        if (mmul_schedule_ranks(schedule)[rank].node == node && rank_has_work(schedule, rank, pass))
            return true;
    return false;
}

bool mmul_schedule_loads(const struct mmul_schedule *schedule, int node, struct mmul_pass pass) {
    if (schedule->problem.alpha == 0 ||
        (mmul_schedule_nodes(schedule)[node].maps & mmul_maps_whole_operand(schedule->axis)) != 0 ||
        !node_has_work(schedule, node, pass))
        return false;
    if (!mmul_schedule_nodes(schedule)[node].whole_stays)
        return true;
    while (pass.round > 0) {
        pass.round--;
        if (node_has_work(schedule, node, pass))
            return false;
    }
    return true;
}

int64_t mmul_schedule_panel_bytes(const struct mmul_schedule *schedule, struct mmul_pass pass) {
    return (pass.matrix_end - pass.matrix_begin) * (pass.end - pass.begin) *
           mmul_problem_whole_unit_bytes(&schedule->problem, schedule->axis);
}

// ------------------------------------------------------------------------ rows of a spread operand

// Returns the rows of each matrix in the pass's panel: all of B, a stretch of A.
static struct mmul_range panel_rows(const struct mmul_schedule *schedule, struct mmul_pass pass) {
    int64_t rows = mmul_problem_whole_shape(&schedule->problem, schedule->axis).rows;
    return schedule->axis == MMUL_ROWS ? (struct mmul_range){0, rows}
                                       : (struct mmul_range){pass.begin, pass.end};
}

// Returns the rows of the panel before row `row`, counted over all matrices.
static int64_t panel_rows_before(const struct mmul_schedule *schedule, struct mmul_pass pass,
                                 int64_t row) {
    int64_t rows = mmul_problem_whole_shape(&schedule->problem, schedule->axis).rows;
    struct mmul_range in = panel_rows(schedule, pass);
    int64_t height = in.end - in.begin, matrix = row / rows;
    if (matrix < pass.matrix_begin)
        return 0;
    if (matrix >= pass.matrix_end)
        return (pass.matrix_end - pass.matrix_begin) * height;
    return (matrix - pass.matrix_begin) * height +
           mmul_min(mmul_max(row % rows - in.begin, 0), height);
}

struct mmul_range mmul_schedule_whole_rows(const struct mmul_schedule *schedule, int rank,
                                           struct mmul_pass pass) {
    const struct mmul_schedule_rank *r = &mmul_schedule_ranks(schedule)[rank];
    return (struct mmul_range){panel_rows_before(schedule, pass, r->whole_begin),
                               panel_rows_before(schedule, pass, r->whole_end)};
}

int64_t mmul_schedule_whole_row_bytes(const struct mmul_schedule *schedule, struct mmul_pass pass) {
    int64_t cols = schedule->axis == MMUL_ROWS ? pass.end - pass.begin : schedule->problem.k;
    return cols *
           (int64_t)mmul_dtype_bytes(mmul_problem_whole_dtype(&schedule->problem, schedule->axis));
}

// -------------------------------------------------------------------------------------- rectangles

struct mmul_region mmul_pass_panel(const struct mmul_schedule *schedule, struct mmul_pass pass,
                                   int64_t matrix) {
    const struct mmul_problem *problem = &schedule->problem;
    bool rows = schedule->axis == MMUL_ROWS;
    struct mmul_region region =
        mmul_region_whole(mmul_problem_whole_shape(problem, schedule->axis), matrix);
    bool along_rows = rows ? problem->transpose_b : !problem->transpose_a;
    *(along_rows ? &region.row_begin : &region.col_begin) = pass.begin;
    *(along_rows ? &region.row_end : &region.col_end) = pass.end;
    return region;
}

struct mmul_region mmul_pass_result(const struct mmul_schedule *schedule, struct mmul_pass pass,
                                    struct mmul_matrix_range stretch) {
    struct mmul_region region =
        mmul_matrix_range_result(&schedule->problem, schedule->axis, stretch);
    bool rows = schedule->axis == MMUL_ROWS;
    *(rows ? &region.col_begin : &region.row_begin) = pass.begin;
    *(rows ? &region.col_end : &region.row_end) = pass.end;
    return region;
}
