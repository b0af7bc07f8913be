// SPDX-License-Identifier: MIT
// Walks the rank's blocks of a step; addresses are those of the values' views.
#include "exec/steps/blocks.h"

#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "base/status.h"
#include "exec/steps/block.h"
#include "exec/steps/grid_check.h"
#include "exec/steps/maps.h"
#include "exec/steps/search.h"
#include "exec/steps/site.h"
#include "exec/steps/stage_work.h"
#include "model/matrix.h"
#include "plan/program/program_footprint.h"

static const struct mmul_program_plan *plan_of(const struct mmul_stage *stage) {
    return stage->site->values->plan;
}

static const struct mmul_operation *operation_of(const struct mmul_stage *stage) {
    return &plan_of(stage)->program->operations[stage->is.step->operation];
}

// ---------------------------------------------------------------------------------------- blocks

// Is the check of its blocks made of what all ranks add up?
static bool is_on_grid(const struct mmul_stage *stage) {
    return plan_of(stage)->places[stage->is.step->result].placement.kind == MMUL_PLACE_GRID;
}

static enum mmul_status multiply(struct mmul_stage *stage, const struct mmul_program_task *task,
                                 struct mmul_error *err) {
    const struct mmul_product product = mmul_block_product(stage, task);
    stage->site->worker.beside_bytes =
        stage->sums.rounds == 0 ? mmul_epilogue_takes(stage, product.m, product.n) : 0;
    enum mmul_status status = mmul_stage_multiply(stage, &product, err);
    stage->site->worker.beside_bytes = 0;
    if (status != MMUL_OK || stage->site->options->no_verify || is_on_grid(stage))
        return status;
    return mmul_block_check(stage, task, mmul_block_rows(task), err);
}

// A rank has no terms for some matrices of its summand.
static void clear_summand(const struct mmul_stage *stage) {
    const struct mmul_program_walk walk = mmul_block_walk(stage);
    if (!mmul_program_makes_summands(plan_of(stage), stage->is.step))
        return;
    int64_t matrices =
        mmul_shape_matrices(mmul_program_shape(plan_of(stage)->program, operation_of(stage)));
    for (int64_t t = 0; t < matrices; t++) {
        const struct mmul_view z = mmul_block_result(stage, t);
        if (t < walk.matrix || t >= walk.end)
            memset(z.at, 0, (size_t)mmul_region_count(z.region) * mmul_dtype_bytes(z.dtype));
    }
}

// Every block of this rank.
static enum mmul_status make_blocks(struct mmul_stage *stage, struct mmul_error *err) {
    struct mmul_program_walk walk = mmul_block_walk(stage);
    struct mmul_program_task task;
    enum mmul_status status = MMUL_OK;
    while (status == MMUL_OK && !mmul_failure_is_void(&stage->site->failure) &&
           mmul_program_next(&walk, &task)) {
        if (mmul_region_count(task.block) == 0)
            continue;
        if (operation_of(stage)->kind == MMUL_MATMUL)
            status = multiply(stage, &task, err);
        else if (operation_of(stage)->kind == MMUL_SEARCH)
            status = mmul_search_make(stage, &task, err);
        else
            status = mmul_maps_make(stage, &task, 1 + mmul_program_skip_alike(&walk, &task), err);
    }
    return status;
}

// ---------------------------------------------------------------------------------------- panels

// These terms of every block, added to those before them.
static enum mmul_status add_terms(struct mmul_stage *stage, struct mmul_panel terms, bool first,
                                  struct mmul_error *err) {
    struct mmul_program_walk walk = mmul_block_walk(stage);
    struct mmul_program_task task;
    enum mmul_status status = MMUL_OK;
    mmul_worker_forget(&stage->site->worker);
    while (status == MMUL_OK && mmul_program_next(&walk, &task)) {
        if (mmul_region_count(task.block) == 0)
            continue;
        task.inner_begin = terms.begin;
        task.inner_end = terms.end;
        struct mmul_product product = mmul_block_product(stage, &task);
        product.beta = first ? 0 : 1;
        product.c_in = product.c;
        product.ldc_in = product.ldc;
        status = mmul_stage_multiply(stage, &product, err);
    }
    return status;
}

// The terms of all panels in [*done, here) that follow each other.
static struct mmul_panel take_terms(const struct mmul_stage *stage, int here, int *done) {
    const int panels = stage->is.panels;
    const int first =
        mmul_program_plan_first_panel(plan_of(stage), stage->site->values->node, panels);
    const struct mmul_program_plan *plan = plan_of(stage);
    int64_t k = plan->program->values[plan->places[stage->is.step->operands[0]].value].shape.cols;
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

// What has come is multiplied while the rest is on its way. Where a device was replaced in the middle all
// is begun again: C may hold a part of the last terms.
static enum mmul_status make_in_panels(struct mmul_stage *stage, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    int done = 0;
    while (status == MMUL_OK && done < stage->is.panels) {
        const int64_t replaced = stage->site->worker.fallback_products;
        const bool first = done == 0;
        int here = mmul_stage_wait_for_panel(stage, done);
        if (here < 0)
            return MMUL_OK; // another failure has ended the run
        const struct mmul_panel terms = take_terms(stage, here, &done);
        status = add_terms(stage, terms, first, err);
        if (!first && stage->site->worker.fallback_products != replaced)
            done = 0;
    }
    return status;
}

// What was made again when a device hung in this check is checked by itself: the sums are of what was there
// before.
static enum mmul_status check_grid(struct mmul_stage *stage, struct mmul_error *err) {
    const int rank = stage->site->context->comm->node_rank;
    struct mmul_program_walk walk = mmul_block_walk(stage);
    struct mmul_program_task task;
    enum mmul_status status = MMUL_OK;
    if (atomic_load(&stage->progress->ranks[rank].sums_given) == 0)
        return mmul_grid_check(stage, err);
    while (status == MMUL_OK && mmul_program_next(&walk, &task))
        if (mmul_region_count(task.block) > 0)
            status = mmul_block_check(stage, &task, mmul_block_rows(&task), err);
    return status;
}

static enum mmul_status make_all(struct mmul_stage *stage, struct mmul_error *err) {
    clear_summand(stage);
    mmul_epilogue_restart(&stage->epilogue);
    enum mmul_status status = mmul_epilogue_is_all(stage) ? MMUL_OK
                              : stage->is.panels > 0      ? make_in_panels(stage, err)
                                                          : make_blocks(stage, err);
    if (stage->search != NULL)
        mmul_search_release(stage->search);
    bool is_void = mmul_failure_is_void(&stage->site->failure);
    if (status == MMUL_OK && !is_void && stage->sums.rounds > 0)
        status = check_grid(stage, err);
    return status == MMUL_OK ? mmul_epilogue_make(stage, err) : status;
}

static enum mmul_status compute(struct mmul_stage *stage, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    do {
        stage->site->worker.is_to_repeat = false;
        status = make_all(stage, err);
    } while (status == MMUL_ERR_STOPPED && stage->site->worker.is_to_repeat);
    mmul_worker_release(&stage->site->worker, NULL);
    return status;
}

// ----------------------------------------------------------------------------------------- sizes

static enum mmul_status choose_tile(const struct mmul_stage *stage, struct mmul_block_sizes sizes,
                                    struct mmul_tile *tile, struct mmul_error *err) {
    const struct mmul_comm *comm = stage->site->context->comm;
    const struct mmul_rank_info *info = &stage->site->context->cluster->ranks[comm->rank];
    const size_t each =
        mmul_dtype_bytes(plan_of(stage)->program->values[operation_of(stage)->result].dtype);
    const struct mmul_tile_request request = {
        .m = sizes.m,
        .n = sizes.n,
        .k = mmul_larger(sizes.k, 1),
        .a_bytes_each = each,
        .b_bytes_each = each,
        .host_memory = info->host_memory,
        .memory_bytes = plan_of(stage)->ranks[comm->rank].device_bytes,
        .max_allocation_bytes = info->device.max_allocation_bytes};
    return mmul_tile_choose(&request, tile, err);
}

// Values do not change; a result to which terms are added is not one yet.
static unsigned find_lasting(const struct mmul_stage *stage) {
    return MMUL_LASTING_A | MMUL_LASTING_B | (stage->is.panels == 0 ? MMUL_LASTING_C : 0);
}

static enum mmul_status init(struct mmul_stage *stage, struct mmul_error *err) {
    const int rank = stage->site->context->comm->rank;
    const struct mmul_program_plan *plan = plan_of(stage);
    const struct mmul_block_sizes sizes = mmul_program_block_sizes(plan, stage->is.step, rank);
    enum mmul_status status = MMUL_OK;
    // Products' temporary memory stays.
    stage->work.kept_bytes = plan->ranks[rank].device_bytes / 2;
    stage->work.lasting = find_lasting(stage);
    if (stage->sums.rounds > 0)
        status = mmul_grid_check_init(stage, err);
    if (status != MMUL_OK || sizes.m == 0)
        return status;
    if (operation_of(stage)->kind == MMUL_SEARCH)
        status = mmul_search_init(stage, sizes.m, err);
    if (status == MMUL_OK)
        status = choose_tile(stage, sizes, &stage->work.tile, err);
    if (status != MMUL_OK || stage->site->options->no_verify)
        return status;
    const struct mmul_check_need need = mmul_program_check_need(plan, stage->is.step, rank);
    return mmul_stage_create_verifier(stage, &need, stage->site->options->verify_seed, err);
}

static void abandon(struct mmul_stage *stage) {
    if (stage->search != NULL)
        mmul_search_abandon(stage->search);
}

static bool is_over(const struct mmul_stage *stage, mmul_reach *reach, void *context) {
    return mmul_stage_is_done(stage, reach, context) &&
           reach(context, MMUL_TRAFFIC, &stage->progress->sums_made, stage->sums.rounds);
}

const struct mmul_stage_kind mmul_blocks_kind = {.init = init,
                                                 .compute = compute,
                                                 .abandon = abandon,
                                                 .is_over = is_over,
                                                 .fini = mmul_search_fini};
