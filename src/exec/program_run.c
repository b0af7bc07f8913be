// SPDX-License-Identifier: MIT
// Step after step: a move is carried out by the leaders, an operation by every rank on what it has;
// products go through the worker and the check like any others. Nothing overlaps yet.
#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "exec/elements.h"
#include "exec/fallback.h"
#include "exec/move.h"
#include "exec/pipeline.h"
#include "exec/program.h"
#include "exec/verify.h"
#include "exec/worker.h"
#include "io/output_file.h"
#include "model/matrix.h"
#include "plan/program_tasks.h"

struct program_run {
    struct mmul_context *context;
    struct mmul_program_plan *plan;
    struct mmul_values *values;
    struct mmul_channel channel;
    struct mmul_failure failure; // of the moves
    struct mmul_value_mover mover;
    struct mmul_worker worker;
    struct mmul_verifier verifier;
    int64_t m, n, k; // sides of this rank's products, the longest each; 0: it has none
};

// ------------------------------------------------------------------------------------- products

static const struct mmul_operation *operation_of(const struct program_run *run,
                                                 const struct mmul_program_step *step) {
    return &run->plan->program->operations[step->operation];
}

// Which matrix of an operand meets matrix t of the result: sizes of 1 repeat.
static int64_t matrix_of(const struct program_run *run, int place, struct mmul_shape result,
                         int64_t t) {
    struct mmul_shape have = run->plan->program->values[run->plan->places[place].value].shape;
    int64_t batch = have.batch == 1 ? 0 : t / result.depth;
    int64_t depth = have.depth == 1 ? 0 : t % result.depth;
    return batch * have.depth + depth;
}

static struct mmul_view operand_view(const struct program_run *run,
                                     const struct mmul_program_step *step, int index,
                                     int64_t matrix) {
    struct mmul_shape shape = mmul_program_shape(run->plan->program, operation_of(run, step));
    int place = step->operands[index];
    return mmul_values_view(run->values, place, run->context->comm->rank,
                            matrix_of(run, place, shape, matrix));
}

static float *element_of(const struct mmul_view *view, int64_t i, int64_t j) {
    int64_t down = i - view->region.row_begin, along = j - view->region.col_begin;
    return view->at + (view->transposed ? along * view->ld + down : down * view->ld + along);
}

static struct mmul_product product_of(const struct program_run *run,
                                      const struct mmul_program_step *step,
                                      const struct mmul_program_task *task) {
    const struct mmul_region b = task->block;
    struct mmul_view x = operand_view(run, step, 0, b.matrix);
    struct mmul_view y = operand_view(run, step, 1, b.matrix);
    struct mmul_view z =
        mmul_values_view(run->values, step->result, run->context->comm->rank, b.matrix);
    return (struct mmul_product){.transpose_a = x.transposed,
                                 .transpose_b = y.transposed,
                                 .m = b.row_end - b.row_begin,
                                 .n = b.col_end - b.col_begin,
                                 .k = task->inner_end - task->inner_begin,
                                 .alpha = 1,
                                 .a = element_of(&x, b.row_begin, task->inner_begin),
                                 .lda = x.ld,
                                 .b = element_of(&y, task->inner_begin, b.col_begin),
                                 .ldb = y.ld,
                                 .c = element_of(&z, b.row_begin, b.col_begin),
                                 .ldc = z.ld};
}

static enum mmul_status multiply(struct program_run *run, const struct mmul_program_step *step,
                                 const struct mmul_program_task *task, struct mmul_error *err) {
    const struct mmul_product product = product_of(run, step, task);
    const struct mmul_value *value = &run->plan->program->values[operation_of(run, step)->result];
    char place[192];
    enum mmul_status status = mmul_worker_multiply(&run->worker, &product, err);
    if (status != MMUL_OK || run->plan->no_verify)
        return status;
    snprintf(place, sizeof place, "rows %lld-%lld of matrix %lld of '%.90s'",
             (long long)task->block.row_begin, (long long)task->block.row_end,
             (long long)task->block.matrix, value->name);
    mmul_verifier_forget(&run->verifier); // the same memory may be read the other way round now
    return mmul_verifier_check(&run->verifier, &run->worker, &product, place, err);
}

static void make_elements(struct program_run *run, const struct mmul_program_step *step,
                          const struct mmul_program_task *task) {
    const struct mmul_operation *o = operation_of(run, step);
    const struct mmul_parallel parallel = {run->context->fallback_threads, mmul_pipeline_share};
    struct mmul_elements elements = {.operation = o,
                                     .shape = mmul_program_shape(run->plan->program, o),
                                     .block = task->block,
                                     .result = mmul_values_view(run->values, step->result,
                                                                run->context->comm->rank,
                                                                task->block.matrix)};
    for (int i = 0; i < mmul_operation_row(o->kind)->arity; i++)
        elements.operands[i] = operand_view(run, step, i, task->block.matrix);
    mmul_elements_make(&elements, parallel);
}

static enum mmul_status compute(struct program_run *run, const struct mmul_program_step *step,
                                struct mmul_error *err) {
    struct mmul_program_walk walk = mmul_program_walk(run->plan, step, run->context->comm->rank);
    struct mmul_program_task task;
    enum mmul_status status = MMUL_OK;
    while (status == MMUL_OK && mmul_program_next(&walk, &task)) {
        if (mmul_region_count(task.block) == 0)
            continue;
        if (operation_of(run, step)->kind == MMUL_MATMUL)
            status = multiply(run, step, &task, err);
        else
            make_elements(run, step, &task);
    }
    return status;
}

// ------------------------------------------------------------------------------------- beginning

static void measure_products(struct program_run *run) {
    for (int i = 0; i < run->plan->step_count; i++) {
        const struct mmul_program_step *step = &run->plan->steps[i];
        struct mmul_program_task task;
        if (step->kind != MMUL_STEP_COMPUTE || operation_of(run, step)->kind != MMUL_MATMUL)
            continue;
        struct mmul_program_walk walk =
            mmul_program_walk(run->plan, step, run->context->comm->rank);
        while (mmul_program_next(&walk, &task)) {
            if (mmul_region_count(task.block) == 0)
                continue;
            run->m = mmul_larger(run->m, task.block.row_end - task.block.row_begin);
            run->n = mmul_larger(run->n, task.block.col_end - task.block.col_begin);
            run->k = mmul_larger(run->k, task.inner_end - task.inner_begin);
        }
    }
}

// A device's memory is divided among the ranks of its node, and something is left free.
static enum mmul_status choose_tile(const struct program_run *run, struct mmul_tile *tile,
                                    struct mmul_error *err) {
    static const double memory_share = 0.8;
    const struct mmul_comm *comm = run->context->comm;
    const struct mmul_rank_info *info = &run->context->cluster->ranks[comm->rank];
    double memory = memory_share * (double)info->device.memory_bytes / comm->node_size;
    const struct mmul_tile_request request = {.m = run->m,
                                              .n = run->n,
                                              .k = run->k,
                                              .a_bytes_each = sizeof(float),
                                              .b_bytes_each = sizeof(float),
                                              .host_memory = info->host_memory,
                                              .memory_bytes = (int64_t)memory,
                                              .max_allocation_bytes =
                                                  info->device.max_allocation_bytes};
    return mmul_tile_choose(&request, tile, err);
}

static enum mmul_status create_worker(struct program_run *run, struct mmul_error *err) {
    struct mmul_worker_options options = {.no_fallback = run->plan->no_fallback};
    enum mmul_status status = MMUL_OK;
    if (run->m > 0) {
        status = mmul_context_warm_up(run->context, err);
        if (status != MMUL_OK)
            status = mmul_context_fall_back(run->context, run->plan->no_fallback, err);
        if (status == MMUL_OK)
            status = choose_tile(run, &options.tile, err);
    }
    if (status == MMUL_OK)
        status = mmul_worker_init(&run->worker, run->context, &options, err);
    if (status != MMUL_OK || run->m == 0 || run->plan->no_verify)
        return status;
    return mmul_verifier_init(
        &run->verifier,
        &(struct mmul_verifier_request){
            .axis = MMUL_ROWS,
            .piece_units_max = run->m,
            .panel_units_max = run->n,
            .k_max = run->k,
            .piece_count = 1,
            .seed = run->plan->verify_seed,
            .parallel = {run->context->fallback_threads, mmul_pipeline_share}},
        err);
}

static enum mmul_status check_outputs(const struct program_run *run, struct mmul_error *err) {
    const struct mmul_program *program = run->plan->program;
    if (run->plan->costs.size != run->context->comm->size)
        return mmul_fail(err, MMUL_ERR_USAGE, "plan is for %d ranks, there are %d",
                         run->plan->costs.size, run->context->comm->size);
    for (int i = 0; run->context->comm->rank == 0 && i < program->operation_count; i++) {
        const struct mmul_operation *o = &program->operations[i];
        if (o->kind == MMUL_SAVE && o->output == NULL)
            return mmul_fail(err, MMUL_ERR_USAGE, "the output of '%s' has been written",
                             program->values[o->operands[0]].name);
    }
    return MMUL_OK;
}

static enum mmul_status begin(struct program_run *run, struct mmul_error *err) {
    const struct mmul_comm *comm = run->context->comm;
    run->channel = (struct mmul_channel){comm->world, &run->failure, comm->rank_node, comm->rank};
    enum mmul_status status = mmul_comm_agree(comm, check_outputs(run, err), err);
    if (status == MMUL_OK)
        status = mmul_values_create(run->context, run->plan, &run->values, err);
    if (status != MMUL_OK)
        return status;
    measure_products(run);
    status = create_worker(run, err);
    if (status == MMUL_OK)
        status = mmul_value_mover_init(&run->mover, run->values, comm, &run->channel, err);
    return mmul_comm_agree(comm, status, err);
}

// ------------------------------------------------------------------------------------------- run

static enum mmul_status carry_out(struct program_run *run, const struct mmul_program_step *step,
                                  struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    if (step->kind == MMUL_STEP_COMPUTE) {
        status = compute(run, step, err);
    } else {
        mmul_value_mover_move(&run->mover, step);
        if (run->failure.err.status != MMUL_OK)
            status = (*err = run->failure.err).status;
    }
    return mmul_comm_agree(run->context->comm, status, err);
}

// Root: every output is consumed, whatever happened. The first failure is kept.
static enum mmul_status end_outputs(struct program_run *run, enum mmul_status status,
                                    struct mmul_error *err) {
    struct mmul_program *program = run->plan->owned;
    for (int i = 0; run->context->comm->rank == 0 && i < program->operation_count; i++) {
        struct mmul_operation *o = &program->operations[i];
        if (o->kind != MMUL_SAVE)
            continue;
        if (status == MMUL_OK)
            status = mmul_output_commit(o->output, err);
        else
            mmul_output_destroy(o->output);
        o->output = NULL;
    }
    return mmul_comm_agree(run->context->comm, status, err);
}

enum mmul_status mmul_program_carry_out(struct mmul_context *context,
                                        struct mmul_program_plan *plan, struct mmul_values **values,
                                        struct mmul_error *err) {
    struct program_run run = {.context = context, .plan = plan};
    enum mmul_status status = begin(&run, err);
    for (int i = 0; status == MMUL_OK && i < plan->step_count; i++)
        status = carry_out(&run, &plan->steps[i], err);
    status = end_outputs(&run, status, err);
    mmul_value_mover_fini(&run.mover);
    mmul_verifier_fini(&run.verifier);
    mmul_worker_fini(&run.worker);
    if (status == MMUL_OK)
        *values = run.values;
    else
        mmul_values_destroy(run.values);
    return status;
}
