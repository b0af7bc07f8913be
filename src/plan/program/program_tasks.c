// SPDX-License-Identifier: MIT
// Parts of the result, or of the inner range, matrix by matrix.
#include "plan/program/program_tasks.h"

#include "model/matrix.h"

static struct mmul_shape shape_of(const struct mmul_program_plan *plan, int place) {
    return plan->program->values[plan->places[place].value].shape;
}

bool mmul_program_makes_summands(const struct mmul_program_plan *plan,
                                 const struct mmul_program_step *step) {
    const struct mmul_operation *o = &plan->program->operations[step->operation];
    const bool has_inner =
        o->kind == MMUL_MATMUL || mmul_operation_row(o->kind)->class == MMUL_CLASS_REDUCE;
    return has_inner && plan->places[step->made].placement.kind == MMUL_PLACE_PARTIAL &&
           plan->places[step->operands[0]].placement.kind != MMUL_PLACE_PARTIAL;
}

// Of what is split: the first operand along the inner range, or the result; a rank's part of a whole
// one counts as rows.
static struct mmul_placement split_of(const struct mmul_program_walk *w, struct mmul_shape *shape,
                                      int *rank) {
    int place =
        mmul_program_makes_summands(w->plan, w->step) ? w->step->operands[0] : w->step->made;
    struct mmul_placement placement = w->plan->places[place].placement;
    *shape = shape_of(w->plan, place);
    *rank = w->rank;
    if (placement.kind != MMUL_PLACE_REPLICATE)
        return placement;
    *rank = 0;
    return (struct mmul_placement){MMUL_PLACE_ROWS, 1, 1, w->units, NULL};
}

// The rank's part of `total` units among those of its node.
static void share_node(const struct mmul_program_costs *c, int rank, int64_t total,
                       int64_t units[2]) {
    double before = 0, all = 0;
    int ranks = 0, index = 0;
    for (int r = 0; r < c->size; r++) {
        if (c->rank_node[r] != c->rank_node[rank])
            continue;
        before += r < rank ? c->shares[r] : 0;
        all += c->shares[r];
        index += r < rank;
        ranks++;
    }
    double mine = c->shares[rank];
    if (all <= 0) { // a node without shares has a copy of its own all the same
        before = index;
        all = ranks;
        mine = 1;
    }
    units[0] = (int64_t)((double)total * (before / all));
    units[1] = index + 1 == ranks ? total : (int64_t)((double)total * ((before + mine) / all));
}

struct mmul_program_walk mmul_program_walk(const struct mmul_program_plan *plan,
                                           const struct mmul_program_step *step, int rank) {
    struct mmul_program_walk w = {.plan = plan, .step = step, .rank = rank};
    struct mmul_shape shape = shape_of(plan, step->made);
    const bool may_be_whole = plan->places[step->made].placement.kind == MMUL_PLACE_REPLICATE ||
                              mmul_program_makes_summands(plan, step);
    if (may_be_whole)
        share_node(&plan->costs, rank, mmul_shape_matrices(shape) * shape.rows, w.units);
    const struct mmul_placement split = split_of(&w, &shape, &rank);
    struct mmul_part_range part = mmul_placement_part(&split, shape, rank);
    w.matrix = part.matrix_begin;
    w.end = part.matrix_end;
    return w;
}

bool mmul_program_next(struct mmul_program_walk *walk, struct mmul_program_task *task) {
    const struct mmul_program_walk *w = walk;
    struct mmul_shape shape;
    int64_t ignored;
    int rank;
    if (w->matrix >= w->end)
        return false;
    const struct mmul_placement split = split_of(w, &shape, &rank);
    struct mmul_region region = mmul_placement_region(&split, shape, rank, w->matrix, &ignored);
    *task = (struct mmul_program_task){.block = region};
    const struct mmul_operation *o = &w->plan->program->operations[w->step->operation];
    const bool down = mmul_operation_row(o->kind)->class == MMUL_CLASS_REDUCE && o->with.axis == -2;
    if (mmul_program_makes_summands(w->plan, w->step)) {
        task->block = mmul_region_whole(shape_of(w->plan, w->step->made), w->matrix);
        task->inner_begin = down ? region.row_begin : region.col_begin;
        task->inner_end = down ? region.row_end : region.col_end;
    } else if (w->step->operands[0] >= 0) {
        const struct mmul_shape first = shape_of(w->plan, w->step->operands[0]);
        task->inner_end = down ? first.rows : first.cols;
    }
    walk->matrix++;
    return true;
}

static bool is_alike(const struct mmul_program_task *x, const struct mmul_program_task *y) {
    return x->block.row_begin == y->block.row_begin && x->block.row_end == y->block.row_end &&
           x->block.col_begin == y->block.col_begin && x->block.col_end == y->block.col_end &&
           x->inner_begin == y->inner_begin && x->inner_end == y->inner_end;
}

// Of the matrices between the first and the last one a rank has the same: all of it along what is split.
int64_t mmul_program_skip_alike(struct mmul_program_walk *walk,
                                const struct mmul_program_task *task) {
    struct mmul_program_walk ahead = *walk;
    struct mmul_program_task next;
    int64_t count = 0;
    while (mmul_program_next(&ahead, &next) && is_alike(task, &next)) {
        count++;
        if (ahead.matrix < ahead.end - 1) {
            count += ahead.end - 1 - ahead.matrix;
            ahead.matrix = ahead.end - 1;
        }
        *walk = ahead;
    }
    return count;
}
