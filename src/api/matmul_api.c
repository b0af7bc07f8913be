// SPDX-License-Identifier: MIT
// One product of the public header: a program of loads, a product and a save. Its plan runs on the
// files given at that time.
#include "api/problem_load.h"
#include "base/options.h"
#include "base/status.h"
#include "exec/job/program.h"
#include "exec/setup/baseline.h"
#include "model/build.h"
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

// -------------------------------------------------------------------------------------------- plan

static enum mmul_status add_load(struct mmul_program *program, const struct mmul_matmul *args,
                                 struct mmul_matrix *matrix, int *value, struct mmul_error *err) {
    const struct mmul_operation load = {.kind = MMUL_LOAD,
                                        .shape = mmul_matrix_info(matrix).shape,
                                        .matrix = matrix,
                                        .dtype = mmul_matmul_compute_type(args)};
    return mmul_program_append(program, &load, mmul_matrix_name(matrix), value, err);
}

enum mmul_status mmul_program_product(struct mmul_program *program, const struct mmul_matmul *args,
                                      int *value, struct mmul_error *err) {
    struct mmul_matmul taken;
    struct mmul_problem problem;
    struct mmul_build build =
        mmul_build_begin(program, NULL, err); // discards loads after a failure
    enum mmul_status status = MMUL_OPTIONS_COPY(mmul_matmul, args, &taken, err);
    if (status == MMUL_OK)
        status = mmul_problem_load(&taken, &problem, err);
    if (status != MMUL_OK)
        return status;
    struct mmul_operation product = {
        .kind = MMUL_MATMUL,
        .operand_count = MMUL_FACTORS,
        .shape = problem.c,
        .scale = {.is_given = true,
                  .transposed_factors = {problem.transpose_a, problem.transpose_b},
                  .alpha = problem.alpha,
                  .beta = problem.beta}};
    status = add_load(program, &taken, taken.a, &product.operands[0], err);
    if (status == MMUL_OK)
        status = add_load(program, &taken, taken.b, &product.operands[1], err);
    if (status == MMUL_OK && problem.beta != 0)
        status =
            add_load(program, &taken, taken.c_in, &product.operands[product.operand_count++], err);
    if (status == MMUL_OK)
        mmul_program_append(program, &product, "C", value, err);
    return mmul_build_end(&build);
}

// Root. Builds the program of a product. *expected: output of a plan alone.
static enum mmul_status build_program(const struct mmul_matmul *args, struct mmul_program **program,
                                      struct mmul_output **expected, struct mmul_error *err) {
    int value = -1;
    enum mmul_status status = mmul_program_create(program, err);
    if (status == MMUL_OK)
        status = mmul_program_product(*program, args, &value, err);
    if (status == MMUL_OK && args->output == NULL && args->output_in_place)
        status = mmul_output_borrow(NULL, mmul_program_value_shape(*program, value, NULL),
                                    mmul_program_value_dtype(*program, value), expected, err);
    // mmul_run checks the shape of the output that it gets.
    const struct mmul_operation save = {.kind = MMUL_SAVE,
                                        .operands = {value},
                                        .operand_count = 1,
                                        .output = args->output != NULL ? args->output : *expected};
    return status == MMUL_OK ? mmul_program_append(*program, &save, NULL, NULL, err) : status;
}

static struct mmul_program_options options_of(const struct mmul_matmul *args) {
    return (struct mmul_program_options){.weights = args->weights,
                                         .split = args->split,
                                         .split_rule = args->split_rule,
                                         .only_planned = args->output == NULL,
                                         .io = args->io,
                                         .memory_limit_bytes = args->memory_limit_bytes,
                                         .device_memory_limit_bytes =
                                             args->device_memory_limit_bytes,
                                         .tail = args->tail,
                                         .tail_share = args->tail_share,
                                         .reproducible = args->reproducible,
                                         .no_verify = args->no_verify,
                                         .no_fallback = args->no_fallback,
                                         .record = args->trace,
                                         .device_timeout_seconds = args->device_timeout_seconds,
                                         .verify_seed = args->verify_seed,
                                         .notice = args->notice,
                                         .progress = args->progress,
                                         .notice_context = args->progress_context};
}

// Sets and returns plan->product. NULL: the plan is not one product from files to a file, or this
// rank has no plan.
static struct mmul_plan *set_product(struct mmul_program_plan *plan) {
    if (plan == NULL || plan->step_count != 1 || plan->product_count != 1 ||
        plan->steps[0].fused_count > 0)
        return NULL;
    plan->product = (struct mmul_plan){.schedule = plan->steps[0].schedule, .job = plan};
    return &plan->product;
}

const struct mmul_plan *mmul_program_plan_product(struct mmul_program_plan *plan) {
    return set_product(plan);
}

enum mmul_status mmul_plan_create(struct mmul_context *context, const struct mmul_matmul *args,
                                  struct mmul_plan **plan, struct mmul_error *err) {
    struct mmul_program *program = NULL;
    struct mmul_program_plan *made = NULL;
    struct mmul_output *expected = NULL; // mmul_run gets the output that is written
    struct mmul_matmul taken;
    enum mmul_status status = MMUL_OPTIONS_COPY(mmul_matmul, args, &taken, err);
    if (context->comm->rank == 0 && status == MMUL_OK)
        status = build_program(&taken, &program, &expected, err);
    status = mmul_comm_agree(context->comm, status, err);
    const struct mmul_program_options options = options_of(&taken);
    if (status == MMUL_OK)
        status = mmul_program_plan_create(context, program, &options, &made, err);
    mmul_program_destroy(program);
    mmul_output_destroy(expected);
    if (status == MMUL_OK)
        *plan = set_product(made);
    return status;
}

void mmul_plan_destroy(struct mmul_plan *plan) {
    if (plan != NULL)
        mmul_program_plan_destroy(plan->job);
}

// --------------------------------------------------------------------------------------------- run

// Checks that the plan belongs to this job. A caller's mistake would otherwise lead to wrong
// addresses.
static enum mmul_status check_job(const struct mmul_context *context,
                                  const struct mmul_matmul *args, const struct mmul_plan *plan,
                                  struct mmul_error *err) {
    const struct mmul_problem *then = &plan->schedule->problem;
    const struct mmul_matrix *const inputs[] = {args->a, args->b, args->c_in};
    const enum mmul_dtype dtypes[] = {then->a_dtype, then->b_dtype};
    if (plan->schedule->size != context->comm->size)
        return mmul_fail(err, MMUL_ERR_USAGE, "plan is for %d ranks, there are %d",
                         plan->schedule->size, context->comm->size);
    if (plan->job == NULL)
        return mmul_fail(err, MMUL_ERR_USAGE, "plan is a simulation and cannot be run");
    const struct mmul_program *program = plan->job->program;
    if (context->comm->rank != 0)
        return MMUL_OK;
    if (args->output == NULL)
        return mmul_fail(err, MMUL_ERR_USAGE, "there is no output to write to");
    bool fits = args->transpose_a == then->transpose_a && args->transpose_b == then->transpose_b &&
                mmul_matmul_alpha(args) == then->alpha && mmul_matmul_beta(args) == then->beta;
    for (int i = 0; i < MMUL_FACTORS; i++) {
        if (inputs[i] == NULL)
            return mmul_fail(err, MMUL_ERR_USAGE, "operand %c is missing", "AB"[i]);
        fits &= mmul_matmul_input_type(args, inputs[i]) == dtypes[i];
    }
    for (int i = 0, loads = 0; fits && i < program->operation_count; i++)
        if (program->operations[i].kind == MMUL_LOAD) {
            const struct mmul_matrix *input = inputs[loads++];
            fits = input != NULL &&
                   mmul_shape_equal(mmul_matrix_info(input).shape, program->operations[i].shape);
        }
    if (!fits)
        return mmul_fail(err, MMUL_ERR_USAGE, "plan is for other operands than '%s' and '%s'",
                         mmul_matrix_name(args->a), mmul_matrix_name(args->b));
    char have[96], want[96];
    if (!mmul_shape_equal(mmul_output_shape(args->output), then->c))
        return mmul_fail(err, MMUL_ERR_USAGE, "output is %s, the result is %s",
                         mmul_shape_format(mmul_output_shape(args->output), have),
                         mmul_shape_format(then->c, want));
    return MMUL_OK;
}

// Replaces the plan's files and run options by the current ones.
static void set_run_inputs(const struct mmul_context *context, const struct mmul_matmul *args,
                           struct mmul_program_plan *plan) {
    struct mmul_matrix *const inputs[] = {args->a, args->b, args->c_in};
    int loads = 0;
    plan->calls = (struct mmul_job_calls){
        .notice = args->notice, .progress = args->progress, .context = args->progress_context};
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
    enum mmul_status status = MMUL_OPTIONS_COPY(mmul_matmul, args, &taken, err);
    if (status == MMUL_OK)
        status = check_job(context, &taken, plan, err);
    status = mmul_comm_agree(context->comm, status, err);
    if (status != MMUL_OK) {
        if (context->comm->rank == 0)
            mmul_output_destroy(taken.output);
        return status;
    }
    set_run_inputs(context, &taken, plan->job);
    status = mmul_program_run(context, plan->job, &values, err);
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
