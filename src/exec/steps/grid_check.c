// SPDX-License-Identifier: MIT
// Contributions of each rank to the check of a grid, and its verdict from the sums. Carries no
// traffic itself.
#include "exec/steps/grid_check.h"

#include "base/clock.h"
#include "base/integer.h"
#include "base/random.h"
#include "exec/steps/block.h"
#include "exec/steps/rank_resources.h"
#include "exec/steps/sums.h"
#include "exec/threads/compute_thread.h"
#include "model/matrix.h"

enum round { SIZES, PROJECTION, RESIDUALS };

// Place of a rank in the mesh.
struct grid {
    struct mmul_stage *stage;
    const struct mmul_program_plan *plan;
    struct mmul_block_owner own; // this rank's blocks
    struct mmul_grid_part part;
};

// Finds this rank's place. Returns false if it has none in the mesh.
static bool find_place(struct mmul_stage *stage, struct grid *g) {
    *g = (struct grid){.stage = stage, .plan = stage->plan, .own = mmul_block_owner_self(stage)};
    return mmul_program_grid_part(g->plan, stage->is.step, stage->comm->rank, &g->part);
}

// Returns the rank's rows of its columns of B.
static struct mmul_product part_of_b(const struct grid *g, int64_t matrix) {
    const struct mmul_view b = mmul_block_operand(g->stage, &g->own, 1, matrix);
    struct mmul_product part = {.transpose_b = b.transposed,
                                .n = g->part.cols.end - g->part.cols.begin,
                                .k = g->part.b_rows.end - g->part.b_rows.begin,
                                .alpha = 1,
                                .a_dtype = b.dtype,
                                .b_dtype = b.dtype,
                                .ldb = b.ld};
    if (part.n > 0 && part.k > 0)
        part.b = mmul_view_element(&b, g->part.b_rows.begin, g->part.cols.begin);
    return part;
}

static struct mmul_block_walk begin_walk(const struct grid *g) {
    return mmul_step_blocks(g->plan, g->stage->is.step, g->own.rank);
}

// Describes one of the matrices with the sums so far.
static struct mmul_check_part describe_part(const struct grid *g, const double *sizes,
                                            const double *squares, int64_t matrix) {
    uint64_t place = (uint64_t)(matrix * g->plan->costs.mesh.cols + g->part.col);
    return (struct mmul_check_part){
        .n = g->part.n,
        .k = g->part.k,
        .begin = g->part.cols.begin,
        .seed = mmul_random_at(g->stage->rank_resources->options->verify_seed, place),
        .sizes = sizes + matrix * g->part.n,
        .squares = squares != NULL ? squares + matrix * g->part.n : NULL};
}

static void give_sizes(const struct grid *g) {
    double *mine = mmul_sums_own_vector(g->stage, SIZES);
    for (int64_t t = 0; t < g->part.matrices; t++) {
        const struct mmul_product part = part_of_b(g, t);
        mmul_check_part_sizes(g->stage->rank_resources->grid_check_buffers.check, &part,
                              mine + t * g->part.n + g->part.cols.begin);
    }
}

// Gives B x of all matrices, then the squares.
static void give_projection(const struct grid *g, const double *sizes) {
    double *mine = mmul_sums_own_vector(g->stage, PROJECTION),
           *squares = mine + g->part.matrices * g->part.k;
    for (int64_t t = 0; t < g->part.matrices; t++) {
        const struct mmul_product part = part_of_b(g, t);
        const struct mmul_check_part of = describe_part(g, sizes, NULL, t);
        mmul_check_part_project(g->stage->rank_resources->grid_check_buffers.check, &part, &of,
                                mine + t * g->part.k + g->part.b_rows.begin,
                                squares + t * g->part.n + g->part.cols.begin);
    }
}

// Advances to the next block of this rank and prepares x of its columns. *said: the sums allow a
// verdict on it.
static bool next_block(const struct grid *g, struct mmul_block_walk *walk,
                       const double *const *sums, struct mmul_block *block, bool *said) {
    do
        if (!mmul_blocks_next(walk, block))
            return false;
    while (mmul_region_count(block->at) == 0);
    const double *squares = sums[PROJECTION] + g->part.matrices * g->part.k;
    const struct mmul_check_part of = describe_part(g, sums[SIZES], squares, block->at.matrix);
    const struct mmul_product product = mmul_block_product(g->stage, &g->own, block);
    *said =
        mmul_check_part_begin(g->stage->rank_resources->grid_check_buffers.check, &product, &of);
    return true;
}

// Gives the residuals of rows of all matrices, then the squares.
static void give_residuals(const struct grid *g, const double *const *sums) {
    struct mmul_block_walk walk = begin_walk(g);
    struct mmul_block block;
    double *mine = mmul_sums_own_vector(g->stage, RESIDUALS);
    bool said;
    while (next_block(g, &walk, sums, &block, &said)) {
        const int64_t at = block.at.matrix * g->part.m + block.at.row_begin;
        block.inner_begin = g->part.a_cols.begin;
        block.inner_end = g->part.a_cols.end;
        const struct mmul_product part = mmul_block_product(g->stage, &g->own, &block);
        mmul_check_part_rows(g->stage->rank_resources->grid_check_buffers.check, &part,
                             sums[PROJECTION] + block.at.matrix * g->part.k + block.inner_begin,
                             mine + at, mine + g->part.matrices * g->part.m + at);
    }
}

// Returns the range from the first to the last row of the block that exceeds the tolerance.
static struct mmul_panel find_rows(const struct grid *g, const struct mmul_region block,
                                   const struct mmul_product *product, const double *residuals) {
    const double *own = residuals + block.matrix * g->part.m,
                 *squares = own + g->part.matrices * g->part.m;
    struct mmul_panel rows = {block.row_end, block.row_end};
    for (int64_t i = block.row_begin; i < block.row_end; i++) {
        if (mmul_check_part_is_right(g->stage->rank_resources->grid_check_buffers.check, product,
                                     own[i], squares[i]))
            continue;
        rows.begin = mmul_min(rows.begin, i);
        rows.end = i + 1;
    }
    return rows;
}

static enum mmul_status judge_blocks(struct mmul_stage *stage, const double *const *sums,
                                     struct mmul_error *err) {
    struct grid here, *g = &here;
    if (!find_place(stage, g))
        return MMUL_OK;
    struct mmul_block_walk walk = begin_walk(g);
    struct mmul_block block;
    enum mmul_status status = MMUL_OK;
    bool said;
    while (status == MMUL_OK && next_block(g, &walk, sums, &block, &said)) {
        const struct mmul_product product = mmul_block_product(g->stage, &g->own, &block);
        struct mmul_panel rows = {block.at.row_begin, block.at.row_end};
        if (said)
            rows = find_rows(g, block.at, &product, sums[RESIDUALS]);
        g->stage->verifier.lines_checked +=
            block.at.row_end - block.at.row_begin - (rows.end - rows.begin);
        atomic_fetch_add(&g->stage->rank_resources->findings.blocks_right, rows.begin == rows.end);
        if (rows.begin < rows.end) // checked without other ranks
            status = mmul_block_check(g->stage, &g->own, &block, rows, err);
    }
    return status;
}

// Checks all blocks without other ranks.
static enum mmul_status check_alone(const struct grid *g, struct mmul_error *err) {
    struct mmul_block_walk walk = begin_walk(g);
    struct mmul_block block;
    enum mmul_status status = MMUL_OK;
    while (status == MMUL_OK && mmul_blocks_next(&walk, &block))
        if (mmul_region_count(block.at) > 0)
            status =
                mmul_block_check(g->stage, &g->own, &block,
                                 (struct mmul_panel){block.at.row_begin, block.at.row_end}, err);
    return status;
}

static void give_round(struct mmul_stage *stage, int round, const double *const *sums) {
    struct grid g;
    if (!find_place(stage, &g))
        (void)mmul_sums_own_vector(stage, round);
    else if (round == SIZES)
        give_sizes(&g);
    else if (round == PROJECTION)
        give_projection(&g, sums[SIZES]);
    else
        give_residuals(&g, sums);
    mmul_stopwatch_enter(&stage->rank_resources->watch,
                         &stage->rank_resources->mine.verify_seconds);
}

enum mmul_status mmul_grid_check(struct mmul_stage *stage, struct mmul_error *err) {
    static const struct mmul_sums_check check = {.give = give_round, .judge = judge_blocks};
    struct mmul_rank_resources *rank_resources = stage->rank_resources;
    struct grid g;
    (void)find_place(stage, &g); // without a place, g is empty
    if (atomic_load(
            &stage->progress->ranks[rank_resources->context->comm->node_rank].sums_contributed) > 0)
        return check_alone(&g, err);
    const double begin = mmul_trace_now(rank_resources->trace);
    mmul_stopwatch_enter(&rank_resources->watch, &rank_resources->mine.verify_seconds);
    enum mmul_status status = mmul_sums_check(stage, &check, err);
    mmul_trace_add(rank_resources->trace, MMUL_TRACE_CHECK, begin, g.part.m,
                   g.part.cols.end - g.part.cols.begin);
    mmul_stopwatch_enter(&rank_resources->watch, &rank_resources->mine.compute_seconds);
    return status;
}

enum mmul_status mmul_grid_check_init(struct mmul_stage *stage, struct mmul_error *err) {
    struct grid g;
    (void)find_place(stage, &g); // without a place, g is empty
    const int64_t most = mmul_grid_part_largest_panel(&g.part);
    struct mmul_grid_check_buffers *room = &stage->rank_resources->grid_check_buffers;
    if (most <= room->most)
        return MMUL_OK;
    mmul_check_destroy(room->check);
    *room = (struct mmul_grid_check_buffers){.most = most};
    enum mmul_status status = mmul_check_create(most, most, &room->check, err);
    if (status == MMUL_OK)
        mmul_check_set_parallel(
            room->check, (struct mmul_parallel){stage->rank_resources->context->fallback_threads,
                                                mmul_helper_threads_run});
    return status;
}
