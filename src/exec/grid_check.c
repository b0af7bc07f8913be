// SPDX-License-Identifier: MIT
// What each rank reads for the check of a grid, and what it does with the sums. Moves nothing itself.
#include "exec/grid_check.h"

#include "base/clock.h"
#include "base/integer.h"
#include "base/random.h"
#include "exec/blocks.h"
#include "exec/pipeline.h"
#include "exec/run.h"
#include "exec/sums.h"
#include "model/matrix.h"
#include "plan/program_tasks.h"

enum round { SIZES, PROJECTION, RESIDUALS };

// A rank's place in it.
struct grid {
    struct mmul_stage *stage;
    const struct mmul_program_plan *plan;
    int64_t matrices, m, n, k;
    int col;                          // of the mesh
    struct mmul_panel cols;           // of its blocks of B and C
    struct mmul_panel b_rows, a_cols; // its share of k
};

// False: this rank has no place in the mesh.
static bool find_place(struct mmul_stage *stage, struct grid *g) {
    const struct mmul_program_plan *plan = stage->run->values->plan;
    const struct mmul_program_step *step = stage->is.step;
    const struct mmul_mesh *mesh = &plan->costs.mesh;
    const int rank = stage->run->context->comm->rank, row = rank / mesh->cols;
    const struct mmul_shape c = plan->program->values[plan->places[step->result].value].shape;
    const int64_t *offsets = plan->places[step->result].placement.col_offsets;
    int64_t k = plan->program->values[plan->places[step->operands[0]].value].shape.cols;
    *g = (struct grid){.stage = stage,
                       .plan = plan,
                       .matrices = mmul_shape_matrices(c),
                       .m = c.rows,
                       .n = c.cols,
                       .k = k};
    if (row >= mesh->rows)
        return false;
    g->col = rank % mesh->cols;
    g->cols = (struct mmul_panel){offsets[g->col], offsets[g->col + 1]};
    g->b_rows = (struct mmul_panel){mmul_mesh_begin(mesh->row_shares, row, k),
                                    mmul_mesh_begin(mesh->row_shares, row + 1, k)};
    g->a_cols = (struct mmul_panel){mmul_mesh_begin(mesh->col_shares, g->col, k),
                                    mmul_mesh_begin(mesh->col_shares, g->col + 1, k)};
    return true;
}

// The rank's rows of its columns of B.
static struct mmul_product part_of_b(const struct grid *g, int64_t matrix) {
    const struct mmul_view b = mmul_blocks_operand(g->stage, 1, matrix);
    struct mmul_product part = {.transpose_b = b.transposed,
                                .n = g->cols.end - g->cols.begin,
                                .k = g->b_rows.end - g->b_rows.begin,
                                .alpha = 1,
                                .a_dtype = b.dtype,
                                .b_dtype = b.dtype,
                                .ldb = b.ld};
    if (part.n > 0 && part.k > 0)
        part.b = mmul_view_element(&b, g->b_rows.begin, g->cols.begin);
    return part;
}

// What has been added up so far, for one of the matrices.
static struct mmul_check_part part_of(const struct grid *g, const double *sizes,
                                      const double *squares, int64_t matrix) {
    uint64_t place = (uint64_t)(matrix * g->plan->costs.mesh.cols + g->col);
    return (struct mmul_check_part){.n = g->n,
                                    .k = g->k,
                                    .begin = g->cols.begin,
                                    .seed = mmul_random_at(g->plan->verify_seed, place),
                                    .sizes = sizes + matrix * g->n,
                                    .squares = squares != NULL ? squares + matrix * g->n : NULL};
}

static void give_sizes(const struct grid *g) {
    double *mine = mmul_sums_mine(g->stage, SIZES);
    for (int64_t t = 0; t < g->matrices; t++) {
        const struct mmul_product part = part_of_b(g, t);
        mmul_check_part_sizes(g->stage->run->grid_room.check, &part,
                              mine + t * g->n + g->cols.begin);
    }
}

// B x of all matrices, then squares.
static void give_projection(const struct grid *g, const double *sizes) {
    double *mine = mmul_sums_mine(g->stage, PROJECTION), *squares = mine + g->matrices * g->k;
    for (int64_t t = 0; t < g->matrices; t++) {
        const struct mmul_product part = part_of_b(g, t);
        const struct mmul_check_part of = part_of(g, sizes, NULL, t);
        mmul_check_part_project(g->stage->run->grid_room.check, &part, &of,
                                mine + t * g->k + g->b_rows.begin,
                                squares + t * g->n + g->cols.begin);
    }
}

// The next block of this rank's, x of its columns being at hand. *said: something can be said about it.
static bool next_block(const struct grid *g, struct mmul_program_walk *walk,
                       const double *const *sums, struct mmul_program_task *task, bool *said) {
    do
        if (!mmul_program_next(walk, task))
            return false;
    while (mmul_region_count(task->block) == 0);
    const double *squares = sums[PROJECTION] + g->matrices * g->k;
    const struct mmul_check_part of = part_of(g, sums[SIZES], squares, task->block.matrix);
    const struct mmul_product block = mmul_blocks_product(g->stage, task);
    *said = mmul_check_part_begin(g->stage->run->grid_room.check, &block, &of);
    return true;
}

// Of rows of all matrices, then squares.
static void give_residuals(const struct grid *g, const double *const *sums) {
    struct mmul_program_walk walk = mmul_blocks_walk(g->stage);
    struct mmul_program_task task;
    double *mine = mmul_sums_mine(g->stage, RESIDUALS);
    bool said;
    while (next_block(g, &walk, sums, &task, &said)) {
        const int64_t at = task.block.matrix * g->m + task.block.row_begin;
        task.inner_begin = g->a_cols.begin;
        task.inner_end = g->a_cols.end;
        const struct mmul_product part = mmul_blocks_product(g->stage, &task);
        mmul_check_part_rows(g->stage->run->grid_room.check, &part,
                             sums[PROJECTION] + task.block.matrix * g->k + task.inner_begin,
                             mine + at, mine + g->matrices * g->m + at);
    }
}

// Rows of the block that are beyond the tolerance: from the first to the last of them.
static struct mmul_panel find_rows(const struct grid *g, const struct mmul_region block,
                                   const struct mmul_product *product, const double *residuals) {
    const double *own = residuals + block.matrix * g->m, *squares = own + g->matrices * g->m;
    struct mmul_panel rows = {block.row_end, block.row_end};
    for (int64_t i = block.row_begin; i < block.row_end; i++) {
        if (mmul_check_part_is_right(g->stage->run->grid_room.check, product, own[i], squares[i]))
            continue;
        rows.begin = mmul_smaller(rows.begin, i);
        rows.end = i + 1;
    }
    return rows;
}

// As if there were no other ranks: what is beyond, and when that is wrong all of the block.
static enum mmul_status look_at(const struct grid *g, struct mmul_program_task task,
                                struct mmul_panel rows, struct mmul_error *err) {
    const struct mmul_region block = task.block;
    int64_t wrong = g->stage->verifier.lines_wrong;
    task.block.row_begin = rows.begin;
    task.block.row_end = rows.end;
    enum mmul_status status = mmul_blocks_check(g->stage, &task, err);
    task.block = block;
    if (status == MMUL_OK && g->stage->verifier.lines_wrong > wrong)
        status = mmul_blocks_check(g->stage, &task, err);
    return status;
}

static enum mmul_status judge(const struct grid *g, const double *const *sums,
                              struct mmul_error *err) {
    struct mmul_program_walk walk = mmul_blocks_walk(g->stage);
    struct mmul_program_task task;
    enum mmul_status status = MMUL_OK;
    bool said;
    while (status == MMUL_OK && next_block(g, &walk, sums, &task, &said)) {
        const struct mmul_product product = mmul_blocks_product(g->stage, &task);
        struct mmul_panel rows = {task.block.row_begin, task.block.row_end};
        if (said)
            rows = find_rows(g, task.block, &product, sums[RESIDUALS]);
        atomic_fetch_add(&g->stage->run->findings.blocks_right, rows.begin == rows.end);
        if (rows.begin < rows.end)
            status = look_at(g, task, rows, err);
    }
    return status;
}

enum mmul_status mmul_grid_check(struct mmul_stage *stage, struct mmul_error *err) {
    struct mmul_run *run = stage->run;
    struct grid g;
    const double *sums[MMUL_SUMS_ROUNDS] = {NULL};
    bool takes_part = find_place(stage, &g), there = true;
    double begin = mmul_trace_now(run->trace);
    mmul_stopwatch_enter(&run->watch, &run->mine.verify_seconds);
    for (int round = SIZES; there && round <= RESIDUALS; round++) {
        if (!takes_part)
            (void)mmul_sums_mine(stage, round);
        else if (round == SIZES)
            give_sizes(&g);
        else if (round == PROJECTION)
            give_projection(&g, sums[SIZES]);
        else
            give_residuals(&g, sums);
        sums[round] = mmul_sums_exchange(stage, round);
        there = sums[round] != NULL;
        mmul_stopwatch_enter(&run->watch, &run->mine.verify_seconds);
    }
    mmul_trace_add(run->trace, MMUL_TRACE_CHECK, begin, g.m, g.cols.end - g.cols.begin);
    enum mmul_status status = there && takes_part ? judge(&g, sums, err) : MMUL_OK;
    mmul_stopwatch_enter(&run->watch, &run->mine.compute_seconds);
    return status;
}

enum mmul_status mmul_grid_check_init(struct mmul_stage *stage, struct mmul_error *err) {
    const struct mmul_parallel threads = {stage->run->context->fallback_threads,
                                          mmul_pipeline_share};
    struct grid g;
    (void)find_place(stage, &g); // else all of it is empty
    int64_t most =
        mmul_larger(g.cols.end - g.cols.begin,
                    mmul_larger(g.b_rows.end - g.b_rows.begin, g.a_cols.end - g.a_cols.begin));
    int64_t rounds[] = {g.n, g.k + g.n, 2 * g.m}, end = 0;
    stage->sums.rounds = MMUL_SUMS_ROUNDS;
    for (int i = 0; i < MMUL_SUMS_ROUNDS; i++)
        stage->sums.ends[i] = end += g.matrices * rounds[i];
    stage->layout.bytes = mmul_sums_bytes(stage);
    most = mmul_larger(most, 1);
    struct mmul_grid_room *room = &stage->run->grid_room;
    if (most <= room->most)
        return MMUL_OK;
    mmul_check_destroy(room->check);
    *room = (struct mmul_grid_room){.most = most};
    enum mmul_status status = mmul_check_create(most, most, &room->check, err);
    if (status == MMUL_OK)
        mmul_check_share(room->check, threads);
    return status;
}
