// SPDX-License-Identifier: MIT
// Walks the parts of the result, or of the inner range, matrix by matrix.
#include "plan/lists/blocks.h"

#include "base/integer.h"
#include "model/matrix.h"

bool mmul_step_makes_summands(const struct mmul_program_plan *plan,
                              const struct mmul_program_step *step) {
    const struct mmul_operation *o = mmul_step_operation(plan, step);
    const bool has_inner =
        o->kind == MMUL_MATMUL || mmul_operation_row(o->kind)->class == MMUL_CLASS_REDUCE;
    return has_inner && plan->places[step->made].placement.kind == MMUL_PLACE_PARTIAL &&
           plan->places[step->operands[0]].placement.kind != MMUL_PLACE_PARTIAL;
}

// Returns the placement of the split matrix: the first operand along the inner range, or the
// result. A rank's part of a whole result counts as rows.
static struct mmul_placement split_placement(const struct mmul_block_walk *w,
                                             struct mmul_shape *shape, int *rank) {
    int place = mmul_step_makes_summands(w->plan, w->step) ? w->step->operands[0] : w->step->made;
    struct mmul_placement placement = w->plan->places[place].placement;
    *shape = mmul_place_value(w->plan, place)->shape;
    *rank = w->rank;
    if (placement.kind != MMUL_PLACE_REPLICATE)
        return placement;
    *rank = 0;
    return (struct mmul_placement){
        .kind = MMUL_PLACE_ROWS, .row_parts = 1, .col_parts = 1, .row_offsets = w->units};
}

// Computes the rank's part of `total` units among the ranks of its node.
static void share_node_units(const struct mmul_program_costs *c, int rank, int64_t total,
                             int64_t units[2]) {
    double before = 0, all = 0;
    int ranks = 0, index = 0;
    const bool *in = c->holders != NULL ? c->holders->ranks : NULL;
    if (in != NULL && !in[rank]) {
        units[0] = units[1] = 0;
        return;
    }
    for (int r = 0; r < c->size; r++) {
        if (c->rank_node[r] != c->rank_node[rank] || (in != NULL && !in[r]))
            continue;
        before += r < rank ? c->shares[r] : 0;
        all += c->shares[r];
        index += r < rank;
        ranks++;
    }
    double mine = c->shares[rank];
    // A node without shares still has a whole copy: its ranks share equally.
    if (all <= 0) {
        before = index;
        all = ranks;
        mine = 1;
    }
    units[0] = (int64_t)((double)total * (before / all));
    units[1] = index + 1 == ranks ? total : (int64_t)((double)total * ((before + mine) / all));
}

struct mmul_block_walk mmul_step_blocks(const struct mmul_program_plan *plan,
                                        const struct mmul_program_step *step, int rank) {
    struct mmul_block_walk w = {.plan = plan,
                                .step = step,
                                .rank = rank,
                                .by_cols =
                                    plan->places[step->made].placement.kind == MMUL_PLACE_COLS,
                                .lines = {0, INT64_MAX}};
    struct mmul_shape shape = mmul_place_value(plan, step->made)->shape;
    const bool may_be_whole = plan->places[step->made].placement.kind == MMUL_PLACE_REPLICATE ||
                              mmul_step_makes_summands(plan, step);
    if (may_be_whole)
        share_node_units(mmul_program_step_costs(plan, step), rank,
                         mmul_shape_matrices(shape) * shape.rows, w.units);
    const struct mmul_placement split = split_placement(&w, &shape, &rank);
    struct mmul_part_range part = mmul_placement_part(&split, shape, rank);
    w.matrix = part.matrix_begin;
    w.end = part.matrix_end;
    return w;
}

struct mmul_block_walk mmul_product_blocks(const struct mmul_schedule *schedule,
                                           struct mmul_pass pass, int rank) {
    return (struct mmul_block_walk){
        .rank = rank,
        .by_cols = schedule->axis == MMUL_COLS,
        .stretches =
            mmul_schedule_walk(schedule, mmul_schedule_part(schedule, rank, pass.round), pass),
        .lines = {0, INT64_MAX}};
}

// ------------------------------------------------------------------------------------ whole blocks

static int64_t count_lines(const struct mmul_block_walk *w, struct mmul_region block) {
    return w->by_cols ? block.col_end - block.col_begin : block.row_end - block.row_begin;
}

static bool next_block_of_step(struct mmul_block_walk *w, struct mmul_block *block) {
    struct mmul_shape shape;
    int64_t ignored;
    int rank;
    if (w->matrix >= w->end)
        return false;
    const struct mmul_placement split = split_placement(w, &shape, &rank);
    struct mmul_region region = mmul_placement_region(&split, shape, rank, w->matrix, &ignored);
    *block = (struct mmul_block){.at = region, .line = w->line};
    const struct mmul_operation *o = mmul_step_operation(w->plan, w->step);
    const bool down = mmul_operation_row(o->kind)->class == MMUL_CLASS_REDUCE && o->with.axis == -2;
    if (mmul_step_makes_summands(w->plan, w->step)) {
        block->at = mmul_region_whole(mmul_place_value(w->plan, w->step->made)->shape, w->matrix);
        block->inner_begin = down ? region.row_begin : region.col_begin;
        block->inner_end = down ? region.row_end : region.col_end;
    } else if (w->step->operands[0] >= 0) {
        const struct mmul_shape first = mmul_place_value(w->plan, w->step->operands[0])->shape;
        block->inner_end = down ? first.rows : first.cols;
    }
    w->line += count_lines(w, block->at);
    w->matrix++;
    return true;
}

static bool next_block_of_product(struct mmul_block_walk *w, struct mmul_block *block) {
    const struct mmul_schedule *schedule = w->stretches.schedule;
    struct mmul_matrix_range stretch;
    if (!mmul_schedule_next(&w->stretches, &stretch))
        return false;
    *block = (struct mmul_block){.at = mmul_pass_result(schedule, w->stretches.pass, stretch),
                                 .inner_end = schedule->problem.k,
                                 .line = w->line};
    w->line += count_lines(w, block->at);
    return true;
}

bool mmul_blocks_next(struct mmul_block_walk *walk, struct mmul_block *block) {
    struct mmul_block_walk *w = walk;
    while (w->line < w->lines.end &&
           (w->plan != NULL ? next_block_of_step(w, block) : next_block_of_product(w, block))) {
        const int64_t before = mmul_max(0, w->lines.begin - block->line),
                      behind = mmul_max(0, w->line - w->lines.end);
        *(w->by_cols ? &block->at.col_begin : &block->at.row_begin) += before;
        *(w->by_cols ? &block->at.col_end : &block->at.row_end) -= behind;
        block->line += before;
        if (w->line > w->lines.begin || w->lines.begin == 0)
            return true;
    }
    return false;
}

// ------------------------------------------------------------------------------------ equal blocks

static bool is_equal_block(const struct mmul_block *x, const struct mmul_block *y) {
    return x->at.row_begin == y->at.row_begin && x->at.row_end == y->at.row_end &&
           x->at.col_begin == y->at.col_begin && x->at.col_end == y->at.col_end &&
           x->inner_begin == y->inner_begin && x->inner_end == y->inner_end;
}

// A rank has the same part of every matrix between its first and its last: all of it along the
// split.
int64_t mmul_blocks_skip_alike(struct mmul_block_walk *walk, const struct mmul_block *block) {
    struct mmul_block_walk ahead = *walk;
    struct mmul_block next;
    int64_t count = 0;
    const int64_t lines = count_lines(walk, block->at);
    while (mmul_blocks_next(&ahead, &next) && is_equal_block(block, &next)) {
        count++;
        const int64_t fit = lines > 0 ? (ahead.lines.end - ahead.line) / lines : INT64_MAX,
                      left = mmul_min(ahead.end - 1 - ahead.matrix, fit);
        if (left > 0) {
            count += left;
            ahead.matrix += left;
            ahead.line += left * lines;
        }
        *walk = ahead;
    }
    return count;
}
