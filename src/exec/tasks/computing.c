// SPDX-License-Identifier: MIT
// Loop over the tasks of a stage: waits for the inputs of a task, makes and checks its blocks, and
// publishes the progress.
#include "exec/tasks/computing.h"

#include <string.h>

#include "base/integer.h"
#include "base/status.h"
#include "exec/steps/block.h"
#include "exec/steps/checks.h"
#include "exec/steps/fused_topk.h"
#include "exec/steps/grid_check.h"
#include "exec/steps/map_blocks.h"
#include "exec/steps/product.h"
#include "exec/steps/rank_resources.h"
#include "exec/steps/stage_work.h"
#include "exec/tasks/work.h"
#include "exec/tasks/write_back.h"
#include "model/dtype.h"
#include "model/matrix.h"
#include "plan/cost/pass_cost.h"

// -------------------------------------------------------------------------------------- products

static bool is_mine(const struct mmul_stage *stage) {
    return stage->works->current_work.owner == stage->comm->node_rank;
}

// True if the terms of this task complete its block of C.
static bool has_all_terms(const struct mmul_stage *stage) {
    const int rank = stage->comm->node_rank;
    return stage->works->current_work.end == stage->works->tasks[rank].terms;
}

// Checks a block. The check does not count wrong lines against this rank's device if another rank's
// device has added some of the terms.
static enum mmul_status check_block(struct mmul_stage *stage, const struct mmul_product *product,
                                    const char *place, struct mmul_error *err) {
    const struct mmul_work *work = &stage->works->current_work;
    const int64_t recomputed = stage->verifier.blocks_recomputed;
    const bool excused = work->begin > 0 && !is_mine(stage);
    if (stage->reuses_results) // C's memory may now be read transposed
        mmul_verifier_invalidate(&stage->verifier);
    const struct mmul_verifier_block all = {.product = product, .place = place};
    enum mmul_status status = mmul_stage_check_product(stage, &all, excused, err);
    if (excused && stage->verifier.blocks_recomputed > recomputed)
        mmul_context_warn(stage->rank_resources->context,
                          "%s were wrong as rank %d had begun them: computed again", place,
                          work->rank);
    return status;
}

// Multiplies the terms of the current work: all of them, or a slice that is added to the earlier
// terms. Checks the block after its last term, unless all blocks are checked together.
// A device that was replaced or given up may have left a part of the terms in C. The product then
// starts again from term 0.
static enum mmul_status multiply_terms(struct mmul_stage *stage, const struct mmul_product *product,
                                       const char *place, struct mmul_error *err) {
    const struct mmul_work *work = &stage->works->current_work;
    const int64_t replaced = stage->rank_resources->worker.fallback_products;
    const int64_t begin = stage->works->is_restarted ? 0 : work->begin,
                  end = has_all_terms(stage) ? product->k : work->end;
    const bool checks = stage->sums.rounds == 0;
    struct mmul_product terms = mmul_product_terms(product, begin, end);
    const int64_t extra_device_bytes =
        is_mine(stage) && checks && terms.k == product->k
            ? mmul_epilogue_bytes_on_device(stage, product->m, product->n)
            : 0;
    enum mmul_status status = mmul_stage_multiply(stage, &terms, extra_device_bytes, err);
    if (status == MMUL_OK && begin > 0 &&
        stage->rank_resources->worker.fallback_products != replaced) {
        terms = mmul_product_terms(product, 0, end);
        status = mmul_stage_multiply(stage, &terms, 0, err);
    }
    if (status != MMUL_OK || !has_all_terms(stage) || !checks)
        return status;
    return check_block(stage, product, place, err);
}

// Multiplies a block, then applies the fused operations to it.
static enum mmul_status multiply_block(struct mmul_stage *stage,
                                       const struct mmul_block_owner *part,
                                       const struct mmul_block *block, struct mmul_error *err) {
    const struct mmul_work *work = &stage->works->current_work;
    const struct mmul_product product = mmul_block_product(stage, part, block);
    char place[MMUL_BLOCK_NAME_BYTES];
    enum mmul_status status;
    mmul_block_name(stage, block->at, place);
    do {
        stage->rank_resources->worker.must_repeat_product = false;
        status = multiply_terms(stage, &product, place, err);
        if (status != MMUL_OK || !has_all_terms(stage) || !is_mine(stage))
            continue;
        mmul_write_back_publish_rows(stage, &work->task, block->at);
        status = mmul_epilogue_apply_part(stage, block->at, err);
    } while (status == MMUL_ERR_STOPPED && stage->rank_resources->worker.must_repeat_product);
    if (status == MMUL_OK && has_all_terms(stage) && stage->rank_resources->completed != NULL &&
        stage->has_mapped_result)
        mmul_completed_add(&stage->rank_resources->completed[stage->comm->node_rank], block->at);
    mmul_worker_release_absent(&stage->rank_resources->worker, NULL);
    return status;
}

// Splits the block into slices of rows if finished rows are written back to the disk.
static enum mmul_status multiply_in_slices(struct mmul_stage *stage,
                                           const struct mmul_block_owner *part,
                                           const struct mmul_block *block, struct mmul_error *err) {
    const struct mmul_region all = block->at;
    int64_t slice = mmul_write_back_slice_rows(stage);
    enum mmul_status status = MMUL_OK;
    if (slice == 0 || all.row_end - all.row_begin < 2 * slice)
        slice = all.row_end - all.row_begin;
    for (int64_t row = all.row_begin; status == MMUL_OK && row < all.row_end; row += slice) {
        struct mmul_block some = *block;
        some.at.row_begin = row;
        some.at.row_end = mmul_min(row + slice, all.row_end);
        some.line += row - all.row_begin;
        status = multiply_block(stage, part, &some, err);
    }
    return status;
}

// ---------------------------------------------------------------------------------------- blocks

// Returns an iterator over the blocks of the current work.
static struct mmul_block_walk walk_current_blocks(const struct mmul_stage *stage) {
    const struct mmul_work *work = &stage->works->current_work;
    struct mmul_tasks tasks = stage->works->tasks[stage->comm->node_rank];
    tasks.rank = work->rank;
    return mmul_task_blocks(&tasks, &work->task,
                            (struct mmul_range){work->line_begin, work->line_end});
}

static enum mmul_status make_blocks(struct mmul_stage *stage, const struct mmul_block_owner *part,
                                    struct mmul_error *err) {
    struct mmul_block_walk walk = walk_current_blocks(stage);
    struct mmul_block block;
    enum mmul_status status = MMUL_OK;
    while (status == MMUL_OK && !mmul_failure_is_void(&stage->rank_resources->failure) &&
           mmul_blocks_next(&walk, &block)) {
        if (mmul_region_count(block.at) == 0)
            continue;
        if (stage->operation->kind == MMUL_MATMUL)
            status = multiply_in_slices(stage, part, &block, err);
        else if (stage->operation->kind == MMUL_FUSED_TOPK)
            status = mmul_fused_topk_make_block(stage, part, &block, err);
        else
            status = mmul_map_make_block(stage, part, &block,
                                         1 + mmul_blocks_skip_alike(&walk, &block), err);
    }
    return status;
}

// Adds these terms to every block.
static enum mmul_status add_terms(struct mmul_stage *stage, const struct mmul_block_owner *part,
                                  struct mmul_panel terms, bool first, struct mmul_error *err) {
    struct mmul_block_walk walk = walk_current_blocks(stage);
    struct mmul_block block;
    enum mmul_status status = MMUL_OK;
    mmul_worker_invalidate_operands(&stage->rank_resources->worker);
    while (status == MMUL_OK && mmul_blocks_next(&walk, &block)) {
        if (mmul_region_count(block.at) == 0)
            continue;
        block.inner_begin = terms.begin;
        block.inner_end = terms.end;
        struct mmul_product product = mmul_block_product(stage, part, &block);
        product.beta = first ? 0 : 1;
        product.c_in = product.c;
        product.ldc_in = product.ldc;
        status = mmul_stage_multiply(stage, &product, 0, err);
    }
    return status;
}

// Returns the union of the consecutive panels in [*done, here), and advances *done past them.
static struct mmul_panel merge_arrived_panels(const struct mmul_stage *stage, int here, int *done) {
    const int panels = stage->is.panels;
    const int first =
        mmul_program_plan_first_panel(stage->plan, stage->rank_resources->values->node, panels);
    const int64_t k = stage->works->current_work.end;
    struct mmul_panel terms = mmul_move_panel(k, panels, first, (*done)++);
    while (*done < here) {
        const struct mmul_panel next = mmul_move_panel(k, panels, first, *done);
        if (next.begin != terms.end)
            break;
        terms.end = next.end;
        (*done)++;
    }
    return terms;
}

// Multiplies the panels that have arrived while the others are in flight. If a device is replaced
// in between, all panels start again: C may hold a part of the last terms.
static enum mmul_status make_in_panels(struct mmul_stage *stage,
                                       const struct mmul_block_owner *part,
                                       struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    int done = 0;
    while (status == MMUL_OK && done < stage->is.panels) {
        const int64_t replaced = stage->rank_resources->worker.fallback_products;
        const bool first = done == 0;
        int here = mmul_stage_wait_for_panel(stage, done);
        if (here < 0)
            return MMUL_OK; // another failure has ended the run
        const struct mmul_panel terms = merge_arrived_panels(stage, here, &done);
        status = add_terms(stage, part, terms, first, err);
        if (!first && stage->rank_resources->worker.fallback_products != replaced)
            done = 0;
    }
    return status;
}

// ----------------------------------------------------------------------------------------- tasks

// Waits until the pieces and the panel have arrived and the slot for C is free.
static bool wait_for_inputs(struct mmul_stage *stage, struct mmul_pass pass) {
    struct mmul_report_rank *mine = &stage->rank_resources->mine;
    struct mmul_need needs[MMUL_NEEDS];
    const int count = mmul_works_list_needs(stage, pass, needs);
    bool ready = true;
    for (int i = 0; ready && i < count; i++)
        ready = mmul_stage_wait(
            stage, MMUL_TRAFFIC, needs[i].counter, needs[i].goal,
            i == MMUL_NEEDS_SLOT ? &mine->gather_seconds : &mine->scatter_seconds, pass.index);
    return ready;
}

// Computes all work that `next` returns. Work starts again if its device was given up.
static enum mmul_status compute_tasks(struct mmul_stage *stage, bool (*next)(struct mmul_stage *),
                                      struct mmul_error *err) {
    struct mmul_works *works = stage->works;
    enum mmul_status status = MMUL_OK;
    works->is_restarted = works->is_under_way;
    if (works->is_restarted && stage->rank_resources->completed != NULL)
        mmul_completed_withdraw(&stage->rank_resources->completed[stage->comm->node_rank]);
    while (works->is_under_way || (works->is_under_way = next(stage))) {
        mmul_stopwatch_enter(&stage->rank_resources->watch,
                             &stage->rank_resources->mine.compute_seconds);
        if (mmul_stage_is_cancelled(stage) ||
            (is_mine(stage) && !wait_for_inputs(stage, works->current_work.task.pass)))
            break;
        mmul_works_begin_current(stage);
        const struct mmul_pass pass = works->current_work.task.pass;
        struct mmul_block_owner part =
            stage->is.kind->find_part(stage, works->current_work.rank, pass);
        part.brought = works->current_work.brought;
        if (stage->is.kind->forget_buffers != NULL)
            stage->is.kind->forget_buffers(stage, pass);
        status = stage->is.panels > 0 ? make_in_panels(stage, &part, err)
                                      : make_blocks(stage, &part, err);
        if (status != MMUL_OK)
            break;
        mmul_works_end_current(stage);
        works->is_under_way = works->is_restarted = false;
    }
    return status;
}

// Clears the matrices of this rank's summand for which the rank has no terms.
static void clear_summand(const struct mmul_stage *stage) {
    if (!mmul_step_makes_summands(stage->plan, stage->is.step))
        return;
    const struct mmul_block_owner part = mmul_block_owner_self(stage);
    const struct mmul_block_walk walk = mmul_step_blocks(stage->plan, stage->is.step, part.rank);
    const int64_t matrices =
        mmul_shape_matrices(mmul_program_shape(stage->plan->program, stage->operation));
    for (int64_t t = 0; t < matrices; t++) {
        const struct mmul_view z = mmul_block_result(stage, &part, t);
        if (t < walk.matrix || t >= walk.end)
            memset(z.at, 0, (size_t)mmul_region_count(z.region) * mmul_dtype_bytes(z.dtype));
    }
}

static enum mmul_status compute(struct mmul_stage *stage, struct mmul_error *err) {
    const int rank = stage->comm->node_rank;
    enum mmul_status status = MMUL_OK;
    if (!mmul_epilogue_is_whole_stage(stage)) {
        clear_summand(stage);
        status =
            compute_tasks(stage, mmul_works_select_next, err); // own tasks first, then stolen lines
        if (status != MMUL_OK ||
            !mmul_stage_wait(stage, rank, &stage->progress->ranks[rank].passes_done, stage->passes,
                             NULL, -1))
            return status; // ... or another failure has ended the run
    }
    if (stage->search != NULL)
        mmul_fused_topk_release(stage->search);
    if (stage->sums.rounds > 0 && !mmul_failure_is_void(&stage->rank_resources->failure))
        status = mmul_stage_check_grid(stage, err);
    if (status == MMUL_OK)
        status = mmul_epilogue_apply(stage, err);
    mmul_worker_release_absent(&stage->rank_resources->worker, NULL);
    return status;
}

// Steals work in this stage, with the device configured as the stage needs it.
static enum mmul_status help(struct mmul_stage *stage, struct mmul_error *err) {
    const struct mmul_worker_options options = mmul_stage_worker_options(stage);
    if (stage->works == NULL || !stage->works->is_shared)
        return MMUL_OK;
    enum mmul_status status =
        mmul_worker_reconfigure(&stage->rank_resources->worker, &options, err);
    if (status == MMUL_OK)
        status = compute_tasks(stage, mmul_works_steal, err);
    mmul_stopwatch_enter(&stage->rank_resources->watch,
                         &stage->rank_resources->mine.compute_seconds);
    return status;
}

// ----------------------------------------------------------------------------------------- sizes

static enum mmul_status choose_tile(const struct mmul_stage *stage, struct mmul_block_sizes sizes,
                                    struct mmul_tile *tile, struct mmul_error *err) {
    const struct mmul_comm *comm = stage->comm;
    const struct mmul_rank_info *info = &stage->rank_resources->context->cluster->ranks[comm->rank];
    const size_t each =
        mmul_dtype_bytes(stage->plan->program->values[stage->operation->result].dtype);
    const struct mmul_tile_request request = {
        .m = sizes.m,
        .n = sizes.n,
        .k = mmul_max(sizes.k, 1),
        .a_bytes_each = each,
        .b_bytes_each = each,
        .host_memory = info->host_memory,
        .memory_bytes = stage->plan->ranks[comm->rank].device_bytes,
        .max_allocation_bytes = info->device.max_allocation_bytes};
    return mmul_tile_choose(&request, tile, err);
}

// Returns true if a product makes all of the rank's part at once.
static bool makes_all_at_once(const struct mmul_stage *stage) {
    struct mmul_block_walk walk = mmul_step_blocks(stage->plan, stage->is.step, stage->comm->rank);
    struct mmul_block block;
    while (mmul_blocks_next(&walk, &block))
        if (mmul_region_count(block.at) > 0)
            return stage->operation->kind == MMUL_MATMUL && stage->sums.rounds == 0 &&
                   stage->is.panels == 0 && stage->is.step->claim_share == 0 &&
                   mmul_region_count(block.at) == stage->epilogue.all;
    return false;
}

// Initialises a step without a schedule. The device may cache A and B, because values do not
// change. It may cache C only if no terms are added to C later.
static enum mmul_status init_computing(struct mmul_stage *stage, struct mmul_error *err) {
    const int rank = stage->comm->rank;
    const struct mmul_program_plan *plan = stage->plan;
    const struct mmul_block_sizes sizes = mmul_program_block_sizes(plan, stage->is.step, rank);
    const struct mmul_check_need need = mmul_program_block_check_need(plan, stage->is.step, sizes);
    enum mmul_status status = MMUL_OK;
    // Half of the device memory stays for the temporary buffers of products.
    stage->work.kept_bytes = plan->ranks[rank].device_bytes / 2;
    stage->work.lasting =
        MMUL_LASTING_A | MMUL_LASTING_B | (stage->is.panels == 0 ? MMUL_LASTING_C : 0);
    stage->passes = 1;
    stage->lines_most = sizes.m;
    stage->may_steal = stage->claims =
        stage->comm->node_size > 1 && stage->is.step->claim_share > 0;
    stage->reuses_results = true;
    stage->has_unknown_speed =
        stage->operation->kind == MMUL_MATMUL &&
        !mmul_product_is_measured(&stage->rank_resources->context->cluster->ranks[rank],
                                  mmul_place_value(plan, stage->is.step->result)->dtype);
    stage->epilogue.in_parts = stage->epilogue.all > 0 && makes_all_at_once(stage);
    if (stage->sums.rounds > 0)
        status = mmul_grid_check_init(stage, err);
    if (status != MMUL_OK || sizes.m == 0)
        return status;
    if (stage->operation->kind == MMUL_FUSED_TOPK)
        status = mmul_fused_topk_init(stage, sizes.m, err);
    if (status == MMUL_OK)
        status = choose_tile(stage, sizes, &stage->work.tile, err);
    return status == MMUL_OK && need.piece_units > 0 ? mmul_stage_create_verifier(stage, &need, err)
                                                     : status;
}

static enum mmul_status init_product(struct mmul_stage *stage, struct mmul_error *err) {
    const struct mmul_check_need need =
        mmul_program_product_check_need(stage->plan, stage->is.step, stage->comm->rank);
    const enum mmul_status status = mmul_product_init(stage, err);
    return status == MMUL_OK && need.piece_units > 0 ? mmul_stage_create_verifier(stage, &need, err)
                                                     : status;
}

static void fini_computing(struct mmul_stage *stage) {
    mmul_fused_topk_fini(stage);
    mmul_works_fini(stage);
}

static void fini_product(struct mmul_stage *stage) {
    mmul_works_fini(stage);
    mmul_product_fini(stage);
}

static bool has_tile(const struct mmul_stage *stage, int rank) {
    (void)rank;
    return stage->work.tile.m > 0;
}

static struct mmul_tasks list_step_tasks(const struct mmul_stage *stage, int rank) {
    return mmul_tasks_of_step(stage->plan, stage->is.step, rank);
}

static struct mmul_tasks list_product_tasks(const struct mmul_stage *stage, int rank) {
    const int64_t journal = mmul_journal_task_lines(stage),
                  rows = mmul_write_back_slice_rows(stage);
    const int64_t slice = journal > 0 && rows > 0 ? mmul_min(journal, rows) : journal + rows;
    return mmul_tasks_of_schedule(stage->schedule, rank, slice,
                                  journal > 0 || mmul_write_back_is_enabled(stage));
}

static struct mmul_block_owner find_step_part(const struct mmul_stage *stage, int rank,
                                              struct mmul_pass pass) {
    (void)stage;
    return (struct mmul_block_owner){.rank = rank, .pass = pass};
}

// -------------------------------------------------------------------------------------- completion

static bool is_computed(const struct mmul_stage *stage, mmul_reach *reach, void *context) {
    bool computed = true;
    for (int i = 0; computed && i < stage->comm->node_size; i++)
        computed = reach(context, i, &stage->progress->ranks[i].passes_done, stage->passes);
    return computed;
}

static bool is_done(const struct mmul_stage *stage, mmul_reach *reach, void *context) {
    return mmul_stage_is_done(stage, reach, context) &&
           reach(context, MMUL_TRAFFIC, &stage->progress->sums_finished, stage->sums.rounds);
}

// Returns true if nothing of the product is under way. Without fused operations, the results that
// leave are final as soon as its blocks are made.
static bool is_product_over(const struct mmul_stage *stage, mmul_reach *reach, void *context) {
    return is_computed(stage, reach, context) &&
           reach(context, MMUL_TRAFFIC, &stage->progress->has_left, 1) &&
           (stage->epilogue.step == NULL || is_done(stage, reach, context));
}

static bool has_reached(void *context, int rank, const _Atomic int64_t *counter, int64_t goal) {
    (void)context, (void)rank;
    return atomic_load(counter) >= goal;
}

static bool has_left(const struct mmul_stage *stage) {
    return stage->product->layout.node->result_bytes == 0 || stage->places.c >= 0 ||
           atomic_load(&stage->progress->results_stored) >= stage->passes;
}

static bool note_product_computed(struct mmul_stage *stage) {
    if (stage->comm->rank == 0)
        mmul_product_count_mapped_bytes(stage);
    return is_computed(stage, has_reached, NULL);
}

const struct mmul_stage_kind mmul_computing_kind = {.init = init_computing,
                                                    .has_work = has_tile,
                                                    .list_tasks = list_step_tasks,
                                                    .find_part = find_step_part,
                                                    .prepare = mmul_works_init,
                                                    .begin = mmul_works_start_stage,
                                                    .compute = compute,
                                                    .help = help,
                                                    .abandon = mmul_fused_topk_abandon,
                                                    .is_over = is_done,
                                                    .fini = fini_computing};

const struct mmul_stage_kind mmul_product_kind = {.publishes_tasks = true,
                                                  .init = init_product,
                                                  .open = mmul_product_map_files,
                                                  .prepare = mmul_works_init,
                                                  .has_work = mmul_product_has_work,
                                                  .list_tasks = list_product_tasks,
                                                  .list_needs = mmul_product_list_needs,
                                                  .find_part = mmul_product_find_part,
                                                  .forget_buffers = mmul_product_forget_buffers,
                                                  .list_transfers = mmul_product_list_transfers,
                                                  .source_wait_count =
                                                      mmul_product_source_wait_count,
                                                  .locate = mmul_product_locate,
                                                  .publish = mmul_product_publish,
                                                  .begin = mmul_works_start_stage,
                                                  .compute = compute,
                                                  .help = help,
                                                  .is_over = is_product_over,
                                                  .note_computed = note_product_computed,
                                                  .has_left = has_left,
                                                  .look = mmul_product_check_inputs,
                                                  .check = mmul_product_check_files,
                                                  .fini = fini_product};
