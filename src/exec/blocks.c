// SPDX-License-Identifier: MIT
// Walks the rank's blocks of a step; addresses are those of the values' views.
#include "exec/blocks.h"

#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "base/status.h"
#include "exec/compute.h"
#include "exec/grid_check.h"
#include "exec/maps.h"
#include "exec/run.h"
#include "model/matrix.h"
#include "plan/program_rooms.h"

static const struct mmul_program_plan *plan_of(const struct mmul_stage *stage) {
    return stage->run->values->plan;
}

static const struct mmul_operation *operation_of(const struct mmul_stage *stage) {
    return &plan_of(stage)->program->operations[stage->is.step->operation];
}

// -------------------------------------------------------------------------------------- operands

// Which matrix of an operand meets matrix t of the result: sizes of 1 repeat.
static int64_t matrix_of(const struct mmul_stage *stage, int place, struct mmul_shape result,
                         int64_t t) {
    const struct mmul_program_plan *plan = plan_of(stage);
    struct mmul_shape have = plan->program->values[plan->places[place].value].shape;
    int64_t batch = have.batch == 1 ? 0 : t / result.depth;
    int64_t depth = have.depth == 1 ? 0 : t % result.depth;
    return batch * have.depth + depth;
}

struct mmul_program_walk mmul_blocks_walk(const struct mmul_stage *stage) {
    return mmul_program_walk(plan_of(stage), stage->is.step, stage->run->context->comm->rank);
}

struct mmul_view mmul_blocks_operand(const struct mmul_stage *stage, int index, int64_t matrix) {
    struct mmul_shape shape = mmul_program_shape(plan_of(stage)->program, operation_of(stage));
    int place = stage->is.step->operands[index];
    return mmul_values_view(stage->run->values, place, stage->run->context->comm->rank,
                            matrix_of(stage, place, shape, matrix));
}

static struct mmul_view result_view(const struct mmul_stage *stage, int64_t matrix) {
    return mmul_values_view(stage->run->values, stage->is.step->made,
                            stage->run->context->comm->rank, matrix);
}

struct mmul_product mmul_blocks_product(const struct mmul_stage *stage,
                                        const struct mmul_program_task *task) {
    const struct mmul_region b = task->block;
    struct mmul_view x = mmul_blocks_operand(stage, 0, b.matrix),
                     y = mmul_blocks_operand(stage, 1, b.matrix);
    struct mmul_view z = result_view(stage, b.matrix);
    return (struct mmul_product){.transpose_a = x.transposed,
                                 .transpose_b = y.transposed,
                                 .m = b.row_end - b.row_begin,
                                 .n = b.col_end - b.col_begin,
                                 .k = task->inner_end - task->inner_begin,
                                 .alpha = 1,
                                 .a_dtype = x.dtype,
                                 .b_dtype = y.dtype,
                                 .a = mmul_view_element(&x, b.row_begin, task->inner_begin),
                                 .lda = x.ld,
                                 .b = mmul_view_element(&y, task->inner_begin, b.col_begin),
                                 .ldb = y.ld,
                                 .c = mmul_view_element(&z, b.row_begin, b.col_begin),
                                 .ldc = z.ld};
}

// ---------------------------------------------------------------------------------------- blocks

static void name_block(const struct mmul_stage *stage, const struct mmul_program_task *task,
                       char text[static 192]) {
    const struct mmul_value *value = &plan_of(stage)->program->values[operation_of(stage)->result];
    snprintf(text, 192, "rows %lld-%lld of matrix %lld of '%.90s'",
             (long long)task->block.row_begin, (long long)task->block.row_end,
             (long long)task->block.matrix, value->name);
}

// Is the check of its blocks made of what all ranks add up?
static bool is_on_grid(const struct mmul_stage *stage) {
    return plan_of(stage)->places[stage->is.step->result].placement.kind == MMUL_PLACE_GRID;
}

enum mmul_status mmul_blocks_check(struct mmul_stage *stage, const struct mmul_program_task *task,
                                   struct mmul_error *err) {
    const struct mmul_product product = mmul_blocks_product(stage, task);
    char place[192];
    name_block(stage, task, place);
    mmul_verifier_forget(&stage->verifier); // the same memory may be read the other way round now
    return mmul_stage_check(stage, &product, place, err);
}

static enum mmul_status multiply(struct mmul_stage *stage, const struct mmul_program_task *task,
                                 struct mmul_error *err) {
    const struct mmul_product product = mmul_blocks_product(stage, task);
    stage->run->worker.beside_bytes =
        stage->sums.rounds == 0 ? mmul_chain_takes(stage, product.m, product.n) : 0;
    enum mmul_status status = mmul_stage_multiply(stage, &product, err);
    stage->run->worker.beside_bytes = 0;
    if (status != MMUL_OK || stage->run->args->no_verify || is_on_grid(stage))
        return status;
    return mmul_blocks_check(stage, task, err);
}

// A rank has no terms for some matrices of its summand.
static void clear_summand(const struct mmul_stage *stage) {
    const struct mmul_program_walk walk = mmul_blocks_walk(stage);
    if (!mmul_program_makes_summands(plan_of(stage), stage->is.step))
        return;
    int64_t matrices =
        mmul_shape_matrices(mmul_program_shape(plan_of(stage)->program, operation_of(stage)));
    for (int64_t t = 0; t < matrices; t++) {
        const struct mmul_view z = result_view(stage, t);
        if (t < walk.matrix || t >= walk.end)
            memset(z.at, 0, (size_t)mmul_region_count(z.region) * mmul_dtype_bytes(z.dtype));
    }
}

// Every block of this rank.
static enum mmul_status make_blocks(struct mmul_stage *stage, struct mmul_error *err) {
    struct mmul_program_walk walk = mmul_blocks_walk(stage);
    struct mmul_program_task task;
    enum mmul_status status = MMUL_OK;
    while (status == MMUL_OK && !mmul_failure_is_void(&stage->run->failure) &&
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
    struct mmul_program_walk walk = mmul_blocks_walk(stage);
    struct mmul_program_task task;
    enum mmul_status status = MMUL_OK;
    mmul_worker_forget(&stage->run->worker);
    while (status == MMUL_OK && mmul_program_next(&walk, &task)) {
        if (mmul_region_count(task.block) == 0)
            continue;
        task.inner_begin = terms.begin;
        task.inner_end = terms.end;
        struct mmul_product product = mmul_blocks_product(stage, &task);
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
        mmul_program_plan_first_panel(plan_of(stage), stage->run->values->node, panels);
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
        const int64_t replaced = stage->run->worker.fallback_products;
        const bool first = done == 0;
        int here = mmul_stage_wait_for_panel(stage, done);
        if (here < 0)
            return MMUL_OK; // another failure has ended the run
        const struct mmul_panel terms = take_terms(stage, here, &done);
        status = add_terms(stage, terms, first, err);
        if (!first && stage->run->worker.fallback_products != replaced)
            done = 0;
    }
    return status;
}

// What was made again when a device hung in this check is checked by itself: the sums are of what was there
// before.
static enum mmul_status check_grid(struct mmul_stage *stage, struct mmul_error *err) {
    const int rank = stage->run->context->comm->node_rank;
    struct mmul_program_walk walk = mmul_blocks_walk(stage);
    struct mmul_program_task task;
    enum mmul_status status = MMUL_OK;
    if (atomic_load(&stage->progress->ranks[rank].sums_given) == 0)
        return mmul_grid_check(stage, err);
    while (status == MMUL_OK && mmul_program_next(&walk, &task))
        if (mmul_region_count(task.block) > 0)
            status = mmul_blocks_check(stage, &task, err);
    return status;
}

static enum mmul_status make_all(struct mmul_stage *stage, struct mmul_error *err) {
    clear_summand(stage);
    mmul_chain_restart(&stage->chain);
    enum mmul_status status = mmul_chain_is_all(stage) ? MMUL_OK
                              : stage->is.panels > 0   ? make_in_panels(stage, err)
                                                       : make_blocks(stage, err);
    mmul_search_fini(&stage->search);
    bool is_void = mmul_failure_is_void(&stage->run->failure);
    if (status == MMUL_OK && !is_void && stage->sums.rounds > 0)
        status = check_grid(stage, err);
    return status == MMUL_OK ? mmul_chain_make(stage, err) : status;
}

enum mmul_status mmul_blocks_make(struct mmul_stage *stage, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    do {
        stage->run->worker.is_to_repeat = false;
        status = make_all(stage, err);
    } while (status == MMUL_ERR_STOPPED && stage->run->worker.is_to_repeat);
    mmul_worker_release(&stage->run->worker, NULL);
    return status;
}

// ----------------------------------------------------------------------------------------- sizes

static enum mmul_status choose_tile(const struct mmul_stage *stage, struct mmul_block_sizes sizes,
                                    struct mmul_tile *tile, struct mmul_error *err) {
    const struct mmul_comm *comm = stage->run->context->comm;
    const struct mmul_rank_info *info = &stage->run->context->cluster->ranks[comm->rank];
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

enum mmul_status mmul_blocks_init(struct mmul_stage *stage, struct mmul_error *err) {
    const int rank = stage->run->context->comm->rank;
    const struct mmul_program_plan *plan = plan_of(stage);
    const struct mmul_block_sizes sizes = mmul_program_block_sizes(plan, stage->is.step, rank);
    enum mmul_status status = MMUL_OK;
    // Products' temporary memory stays.
    stage->kept_bytes = plan->ranks[rank].device_bytes / 2;
    if (stage->sums.rounds > 0)
        status = mmul_grid_check_init(stage, err);
    if (status != MMUL_OK || sizes.m == 0)
        return status;
    if (operation_of(stage)->kind == MMUL_SEARCH)
        stage->search.is = mmul_program_search_size(plan, stage->is.step, sizes.m);
    status = choose_tile(stage, sizes, &stage->tile, err);
    if (status != MMUL_OK || stage->run->args->no_verify)
        return status;
    const struct mmul_check_need need = mmul_program_check_need(plan, stage->is.step, rank);
    return mmul_stage_create_verifier(stage, &need, plan->verify_seed, err);
}
