// SPDX-License-Identifier: MIT
// Contributions of each rank to the check of a grid, and its verdict from the sums. Carries no
// traffic itself. Rows that the sums do not call right are checked as those of any product.
#include "exec/steps/grid_check.h"

#include "base/integer.h"
#include "base/random.h"
#include "exec/steps/block.h"
#include "exec/steps/checks.h"
#include "exec/steps/rank_resources.h"
#include "exec/steps/sums.h"
#include "exec/threads/compute_thread.h"
#include "model/matrix.h"

enum round { SIZES, PROJECTION, RESIDUALS };

// Place of a rank in the mesh. Without a place its ranges are empty.
struct grid {
    struct mmul_stage *stage;
    bool has_place;
    const struct mmul_program_plan *plan;
    struct mmul_block_owner own; // this rank's blocks
    struct mmul_grid_part part;
};

static struct grid find_place(struct mmul_stage *stage) {
    struct grid g = {.stage = stage, .plan = stage->plan, .own = mmul_block_owner_self(stage)};
    g.has_place = mmul_program_grid_part(g.plan, stage->is.step, stage->comm->rank, &g.part);
    return g;
}

static struct mmul_check *get_check(const struct grid *g) {
    return g->stage->rank_resources->grid_check_buffers.check;
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

static void give_sizes(const struct grid *g, double *mine) {
    for (int64_t t = 0; t < g->part.matrices; t++) {
        const struct mmul_product part = part_of_b(g, t);
        mmul_check_part_sizes(get_check(g), &part, mine + t * g->part.n + g->part.cols.begin);
    }
}

// Gives B x of all matrices, then the squares.
static void give_projection(const struct grid *g, const double *sizes, double *mine) {
    double *squares = mine + g->part.matrices * g->part.k;
    for (int64_t t = 0; t < g->part.matrices; t++) {
        const struct mmul_product part = part_of_b(g, t);
        const struct mmul_check_part of = describe_part(g, sizes, NULL, t);
        mmul_check_part_project(get_check(g), &part, &of,
                                mine + t * g->part.k + g->part.b_rows.begin,
                                squares + t * g->part.n + g->part.cols.begin);
    }
}

// Advances to the next block of this rank that is not empty.
static bool next_block(struct mmul_block_walk *walk, struct mmul_block *block) {
    do
        if (!mmul_blocks_next(walk, block))
            return false;
    while (mmul_region_count(block->at) == 0);
    return true;
}

// Prepares x of the block's columns. Returns false if the sums allow no verdict on it.
static bool begin_block(const struct grid *g, const double *const *sums,
                        const struct mmul_block *block) {
    const double *squares = sums[PROJECTION] + g->part.matrices * g->part.k;
    const struct mmul_check_part of = describe_part(g, sums[SIZES], squares, block->at.matrix);
    const struct mmul_product product = mmul_block_product(g->stage, &g->own, block);
    return mmul_check_part_begin(get_check(g), &product, &of);
}

// Gives the residuals of rows of all matrices, then the squares.
static void give_residuals(const struct grid *g, const double *const *sums, double *mine) {
    struct mmul_block_walk walk = begin_walk(g);
    struct mmul_block block;
    while (next_block(&walk, &block)) {
        const int64_t at = block.at.matrix * g->part.m + block.at.row_begin;
        (void)begin_block(g, sums, &block);
        block.inner_begin = g->part.a_cols.begin;
        block.inner_end = g->part.a_cols.end;
        const struct mmul_product part = mmul_block_product(g->stage, &g->own, &block);
        mmul_check_part_rows(get_check(g), &part,
                             sums[PROJECTION] + block.at.matrix * g->part.k + block.inner_begin,
                             mine + at, mine + g->part.matrices * g->part.m + at);
    }
}

// Returns the range from the first to the last row of the block that is not known to be right.
static struct mmul_panel find_rows(const struct grid *g, const struct mmul_block *block,
                                   const double *const *sums) {
    const struct mmul_region at = block->at;
    const struct mmul_product product = mmul_block_product(g->stage, &g->own, block);
    const double *own = sums[RESIDUALS] + at.matrix * g->part.m,
                 *squares = own + g->part.matrices * g->part.m;
    struct mmul_panel rows = {at.row_end, at.row_end};
    if (!begin_block(g, sums, block))
        return (struct mmul_panel){at.row_begin, at.row_end};
    for (int64_t i = at.row_begin; i < at.row_end; i++) {
        if (mmul_check_part_is_right(get_check(g), &product, own[i], squares[i]))
            continue;
        rows.begin = mmul_min(rows.begin, i);
        rows.end = i + 1;
    }
    return rows;
}

// Checks the given rows of a block by itself, without other ranks.
static enum mmul_status check_rows(const struct grid *g, const struct mmul_block *block,
                                   struct mmul_panel rows, struct mmul_error *err) {
    const struct mmul_region at = block->at;
    const struct mmul_product product = mmul_block_product(g->stage, &g->own, block),
                              looked_at = mmul_product_rows(&product, rows.begin - at.row_begin,
                                                            rows.end - at.row_begin);
    char place[MMUL_BLOCK_NAME_BYTES];
    const struct mmul_verifier_block checked = {.product = &product,
                                                .looked_at =
                                                    looked_at.m == product.m ? NULL : &looked_at,
                                                .place = mmul_block_name(g->stage, at, place)};
    mmul_verifier_invalidate(&g->stage->verifier); // the memory may now be read transposed
    return mmul_stage_check_product(g->stage, &checked, false, err);
}

// Judges this rank's blocks. sums NULL: checks all rows without other ranks.
static enum mmul_status judge_blocks(struct mmul_verification *v, const double *const *sums,
                                     struct mmul_error *err) {
    const struct grid *g = v->block;
    struct mmul_block_walk walk = begin_walk(g);
    struct mmul_block block;
    enum mmul_status status = MMUL_OK;
    while (status == MMUL_OK && next_block(&walk, &block)) {
        const struct mmul_panel all = {block.at.row_begin, block.at.row_end},
                                rows = sums != NULL ? find_rows(g, &block, sums) : all;
        v->lines += all.end - all.begin - (rows.end - rows.begin);
        if (rows.begin < rows.end)
            status = check_rows(g, &block, rows, err);
        else
            atomic_fetch_add(&g->stage->rank_resources->findings.blocks_right, 1);
    }
    return status;
}

static void give_round(const struct grid *g, int round, const double *const *sums) {
    double *mine = mmul_sums_own_vector(g->stage, round);
    if (g->has_place && round == SIZES)
        give_sizes(g, mine);
    else if (g->has_place && round == PROJECTION)
        give_projection(g, sums[SIZES], mine);
    else if (g->has_place)
        give_residuals(g, sums, mine);
    mmul_sums_publish(g->stage, round);
}

static enum mmul_status look(struct mmul_verification *v, struct mmul_error *err) {
    const struct grid *g = v->block;
    struct mmul_stage *stage = g->stage;
    const double *sums[MMUL_SUMS_ROUNDS] = {NULL};
    if (atomic_load(&stage->progress->ranks[stage->comm->node_rank].sums_contributed) > 0)
        return judge_blocks(v, NULL, err);
    for (int round = 0; round < stage->sums.rounds; round++) {
        give_round(g, round, sums);
        sums[round] = mmul_sums_wait(stage, round);
        mmul_stopwatch_enter(&stage->rank_resources->watch,
                             &stage->rank_resources->mine.verify_seconds);
        if (sums[round] == NULL)
            return MMUL_OK; // another failure has ended the run
    }
    return g->has_place ? judge_blocks(v, sums, err) : MMUL_OK;
}

const struct mmul_check_method mmul_grid_check = {.look = look};

enum mmul_status mmul_stage_check_grid(struct mmul_stage *stage, struct mmul_error *err) {
    const struct grid g = find_place(stage);
    struct mmul_verification v = {
        .block = &g, .rows = g.part.m, .cols = g.part.cols.end - g.part.cols.begin};
    return mmul_stage_check(stage, MMUL_CHECK_GRID, &v, 0, err);
}

enum mmul_status mmul_grid_check_init(struct mmul_stage *stage, struct mmul_error *err) {
    const struct grid g = find_place(stage);
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
