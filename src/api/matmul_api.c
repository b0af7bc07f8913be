// SPDX-License-Identifier: MIT
// One product of the public header: a program of loads, a product and a save. Its plan runs on the
// files given at that time.
#include <math.h>

#include "api/problem_load.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "exec/job/program.h"
#include "exec/setup/baseline.h"
#include "io/output_file.h"
#include "model/matrix.h"
#include "mpimatmul.h"

enum mmul_status mmul_matmul_result(const struct mmul_matmul *args, struct mmul_shape *shape,
                                    enum mmul_dtype *dtype, struct mmul_error *err) {
    struct mmul_problem problem;
    struct mmul_matmul taken;
    enum mmul_status status = MMUL_OPTIONS_COPY(mmul_matmul, args, &taken, err);
    if (status == MMUL_OK)
        status = mmul_problem_load(&taken, &problem, err);
    if (status != MMUL_OK)
        return status;
    *shape = problem.c;
    *dtype = problem.c_dtype;
    return MMUL_OK;
}

// Collective.
static enum mmul_status read_options(const struct mmul_context *context,
                                     const struct mmul_matmul *args, struct mmul_matmul *taken,
                                     struct mmul_error *err) {
    return mmul_comm_agree(context->comm, MMUL_OPTIONS_COPY(mmul_matmul, args, taken, err), err);
}

// -------------------------------------------------------------------------------------------- plan

static enum mmul_status add_load(struct mmul_program *program, const struct mmul_matmul *args,
                                 struct mmul_matrix *matrix, int *value, struct mmul_error *err) {
    const struct mmul_operation load = {.kind = MMUL_LOAD,
                                        .shape = mmul_matrix_info(matrix).shape,
                                        .matrix = matrix,
                                        .dtype = mmul_matmul_compute_type(args)};
    return mmul_program_append(program, &load, mmul_matrix_name(matrix), value, err);
}

// Root. For a plan alone: creates the expected output, if any.
static enum mmul_status expect_output(const struct mmul_matmul *args, struct mmul_output **expected,
                                      struct mmul_error *err) {
    struct mmul_shape shape;
    enum mmul_dtype dtype;
    if (args->output != NULL || !args->output_in_place)
        return MMUL_OK;
    enum mmul_status status = mmul_matmul_result(args, &shape, &dtype, err);
    return status == MMUL_OK
               ? mmul_output_borrow(NULL, shape, mmul_matmul_compute_type(args), expected, err)
               : status;
}

// Root.
static enum mmul_status build_program(const struct mmul_matmul *args, struct mmul_output *output,
                                      struct mmul_program **program, struct mmul_error *err) {
    struct mmul_problem problem = {0};
    struct mmul_operation product = {
        .kind = MMUL_MATMUL,
        .operand_count = MMUL_FACTORS,
        .scale = {.is_given = true, .transposed_factors = {args->transpose_a, args->transpose_b}}};
    struct mmul_operation save = {.kind = MMUL_SAVE, .operand_count = 1, .output = output};
    enum mmul_status status = mmul_problem_load(args, &problem, err);
    if (status == MMUL_OK)
        status = mmul_program_create(program, err);
    product.scale.alpha = problem.alpha;
    product.scale.beta = problem.beta;
    if (status == MMUL_OK)
        status = add_load(*program, args, args->a, &product.operands[0], err);
    if (status == MMUL_OK)
        status = add_load(*program, args, args->b, &product.operands[1], err);
    if (status == MMUL_OK && product.scale.beta != 0)
        status =
            add_load(*program, args, args->c_in, &product.operands[product.operand_count++], err);
    if (status == MMUL_OK)
        status = mmul_program_append(*program, &product, "C", &save.operands[0], err);
    return status == MMUL_OK ? mmul_program_append(*program, &save, NULL, NULL, err) : status;
}

static struct mmul_job_calls calls_of(const struct mmul_matmul *args) {
    return (struct mmul_job_calls){
        .notice = args->notice, .progress = args->progress, .context = args->progress_context};
}

static struct mmul_job job_of(const struct mmul_matmul *args) {
    return (struct mmul_job){.weights = args->weights,
                             .options = {.split = args->split,
                                         .split_rule = args->split_rule,
                                         .is_only_predicted = args->output == NULL,
                                         .io = args->io,
                                         .memory_bytes = args->memory_limit_bytes,
                                         .device_memory_bytes = args->device_memory_limit_bytes,
                                         .tail = args->tail,
                                         .tail_share = args->tail_share,
                                         .reproducible = args->reproducible,
                                         .no_verify = args->no_verify,
                                         .no_fallback = args->no_fallback,
                                         .records = args->trace,
                                         .device_timeout_seconds = args->device_timeout_seconds,
                                         .verify_seed = args->verify_seed},
                             .calls = calls_of(args)};
}

enum mmul_status mmul_plan_create(struct mmul_context *context, const struct mmul_matmul *args,
                                  struct mmul_plan **plan, struct mmul_error *err) {
    struct mmul_program *program = NULL;
    struct mmul_output *expected = NULL; // mmul_run gets the output that is written
    struct mmul_plan *made = NULL;
    struct mmul_matmul taken;
    enum mmul_status status = read_options(context, args, &taken, err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(context->comm, MMUL_ALLOCATE(made, 1, "a plan", err), err);
    if (status != MMUL_OK)
        return status;
    mmul_stopwatch_enter(&context->watch, &context->startup.plan_seconds);
    if (context->comm->rank == 0)
        status = expect_output(&taken, &expected, err);
    if (context->comm->rank == 0 && status == MMUL_OK)
        status =
            build_program(&taken, taken.output != NULL ? taken.output : expected, &program, err);
    status = mmul_comm_agree(context->comm, status, err);
    const struct mmul_job job = job_of(&taken);
    if (status == MMUL_OK)
        status = mmul_program_prepare(context, program, &job, &made->job, err);
    mmul_program_destroy(program);
    mmul_output_destroy(expected);
    if (status != MMUL_OK) {
        mmul_free(made);
        return status;
    }
    made->schedule = made->job->steps[0].schedule;
    *plan = made;
    return MMUL_OK;
}

void mmul_plan_destroy(struct mmul_plan *plan) {
    if (plan == NULL)
        return;
    mmul_program_plan_destroy(plan->job);
    mmul_free(plan);
}

// --------------------------------------------------------------------------------------------- run

// Checks that the plan belongs to this job. A caller's mistake would otherwise lead to wrong
// addresses.
static enum mmul_status check_job(const struct mmul_context *context,
                                  const struct mmul_matmul *args, const struct mmul_plan *plan,
                                  struct mmul_error *err) {
    struct mmul_problem now;
    const struct mmul_problem *then = &plan->schedule->problem;
    if (plan->schedule->size != context->comm->size)
        return mmul_fail(err, MMUL_ERR_USAGE, "plan is for %d ranks, there are %d",
                         plan->schedule->size, context->comm->size);
    if (plan->job == NULL)
        return mmul_fail(err, MMUL_ERR_USAGE, "plan is a simulation and cannot be run");
    if (context->comm->rank != 0)
        return MMUL_OK;
    if (args->output == NULL)
        return mmul_fail(err, MMUL_ERR_USAGE, "there is no output to write to");
    enum mmul_status status = mmul_problem_load(args, &now, err);
    if (status != MMUL_OK)
        return status;
    if (!mmul_shape_equal(now.a, then->a) || !mmul_shape_equal(now.b, then->b) ||
        now.a_dtype != then->a_dtype || now.b_dtype != then->b_dtype ||
        now.transpose_a != then->transpose_a || now.transpose_b != then->transpose_b ||
        now.alpha != then->alpha || now.beta != then->beta)
        return mmul_fail(err, MMUL_ERR_USAGE, "plan is for other operands than '%s' and '%s'",
                         now.a_name, now.b_name);
    char have[96], want[96];
    if (!mmul_shape_equal(mmul_output_shape(args->output), now.c))
        return mmul_fail(err, MMUL_ERR_USAGE, "output is %s, the result is %s",
                         mmul_shape_format(mmul_output_shape(args->output), have),
                         mmul_shape_format(now.c, want));
    return MMUL_OK;
}

// Replaces the plan's files and run options by the current ones.
static void set_run_inputs(const struct mmul_context *context, const struct mmul_matmul *args,
                           struct mmul_program_plan *plan) {
    struct mmul_matrix *const inputs[] = {args->a, args->b, args->c_in};
    int loads = 0;
    plan->calls = calls_of(args);
    plan->options.no_verify = args->no_verify;
    plan->options.no_fallback = args->no_fallback;
    plan->options.records = args->trace;
    plan->options.device_timeout_seconds = args->device_timeout_seconds;
    for (int i = 0; context->comm->rank == 0 && i < plan->owned->operation_count; i++) {
        struct mmul_operation *o = &plan->owned->operations[i];
        if (o->kind == MMUL_LOAD)
            o->matrix = inputs[loads++];
        else if (o->kind == MMUL_SAVE)
            o->output = args->output;
    }
}

enum mmul_status mmul_run(struct mmul_context *context, const struct mmul_matmul *args,
                          const struct mmul_plan *plan, struct mmul_report **report,
                          struct mmul_error *err) {
    struct mmul_values *values = NULL;
    struct mmul_matmul taken;
    enum mmul_status status = read_options(context, args, &taken, err);
    if (status == MMUL_OK)
        status = mmul_comm_agree(context->comm, check_job(context, &taken, plan, err), err);
    if (status != MMUL_OK) {
        if (context->comm->rank == 0)
            mmul_output_destroy(taken.output);
        return status;
    }
    set_run_inputs(context, &taken, plan->job);
    status = mmul_program_execute(context, plan->job, &values, err);
    if (status != MMUL_OK)
        return status;
    *report = values->report;
    values->report = NULL;
    mmul_values_destroy(values);
    return MMUL_OK;
}

// ---------------------------------------------------------------------------------------- baseline

enum mmul_status mmul_baseline_measure(struct mmul_context *context,
                                       const struct mmul_baseline *baseline, double *seconds,
                                       int *threads, struct mmul_error *err) {
    struct mmul_baseline taken;
    enum mmul_status status = mmul_comm_agree(
        context->comm, MMUL_OPTIONS_COPY(mmul_baseline, baseline, &taken, err), err);
    return status == MMUL_OK ? mmul_baseline_run(context, &taken, seconds, threads, err) : status;
}
