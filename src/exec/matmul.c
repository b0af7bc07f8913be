// SPDX-License-Identifier: MIT
// Root reads headers and makes the plan, everybody gets it; then the run, the file's last rename,
// and the report. Each step ends with all ranks agreed.
#include "exec/matmul.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"
#include "exec/calibrate.h"
#include "exec/run.h"
#include "exec/run_trace.h"
#include "exec/views.h"
#include "io/output_file.h"
#include "model/dtype.h"
#include "model/matrix.h"

// --------------------------------------------------------------------------------------- problem

enum mmul_dtype mmul_matmul_type(const struct mmul_matmul *args) {
    const struct mmul_matrix *const inputs[] = {args->a, args->b, args->c_in};
    bool any = false, others = false;
    for (int i = 0; i < 3; i++) {
        if (inputs[i] == NULL)
            continue;
        const enum mmul_dtype stored = mmul_matrix_info(inputs[i]).stored;
        any |= stored == MMUL_F64;
        others |= stored != MMUL_F64 && !mmul_dtype_is_integer(stored);
    }
    if (args->compute != MMUL_COMPUTE_AUTO)
        return args->compute == MMUL_COMPUTE_F64 ? MMUL_F64 : MMUL_F32;
    return any && !others ? MMUL_F64 : MMUL_F32;
}

static double factor(const struct mmul_matmul *args, float rounded, double exact) {
    return exact != 0 && mmul_matmul_type(args) == MMUL_F64 ? exact : (double)rounded;
}

double mmul_matmul_alpha(const struct mmul_matmul *args) {
    return factor(args, args->alpha, args->exact_alpha);
}

double mmul_matmul_beta(const struct mmul_matmul *args) {
    return factor(args, args->beta, args->exact_beta);
}

enum mmul_dtype mmul_matmul_reads(const struct mmul_matmul *args,
                                  const struct mmul_matrix *matrix) {
    return mmul_matmul_type(args) == MMUL_F64 ? MMUL_F64 : mmul_matrix_info(matrix).delivered;
}

static struct mmul_problem_operand operand(const struct mmul_matmul *args,
                                           const struct mmul_matrix *matrix) {
    return (struct mmul_problem_operand){.shape = mmul_matrix_info(matrix).shape,
                                         .dtype = mmul_matmul_reads(args, matrix),
                                         .name = mmul_matrix_name(matrix)};
}

enum mmul_status mmul_problem_load(const struct mmul_matmul *args, struct mmul_problem *problem,
                                   struct mmul_error *err) {
    if (args->a == NULL || args->b == NULL)
        return mmul_fail(err, MMUL_ERR_USAGE, "operand %s is missing", args->a ? "B" : "A");
    struct mmul_problem_operand c_in = {0};
    if (args->c_in != NULL)
        c_in = operand(args, args->c_in);
    const struct mmul_problem_request request = {
        .a = operand(args, args->a),
        .b = operand(args, args->b),
        .c_in = args->c_in ? &c_in : NULL,
        .transpose_a = args->transpose_a,
        .transpose_b = args->transpose_b,
        .a_one_dimensional = mmul_matrix_info(args->a).one_dimensional,
        .b_one_dimensional = mmul_matrix_info(args->b).one_dimensional,
        .alpha = mmul_matmul_alpha(args),
        .beta = mmul_matmul_beta(args)};
    return mmul_problem_make(&request, problem, err);
}

// ------------------------------------------------------------------------------------------ plan

static bool is_automatic(const struct mmul_matmul *args) {
    return args->weights == NULL || strcmp(args->weights, "auto") == 0;
}

// Weights of --device @FILE: all ranks have one, or none has.
static enum mmul_status listed_weights(const struct mmul_cluster *cluster, double *weights,
                                       bool *found, struct mmul_error *err) {
    int count = 0;
    for (int rank = 0; rank < cluster->size; rank++) {
        weights[rank] = cluster->ranks[rank].listed_weight;
        count += weights[rank] >= 0;
    }
    *found = count == cluster->size;
    if (count > 0 && !*found)
        return mmul_fail(err, MMUL_ERR_DATA,
                         "the device file gives weights to %d of %d ranks: all or none", count,
                         cluster->size);
    return MMUL_OK;
}

static enum mmul_status given_weights(const char *text, int size, double *weights,
                                      struct mmul_error *err) {
    double *given = NULL;
    int count = 0;
    enum mmul_status status = mmul_weights_parse(text, &given, &count, err);
    if (status == MMUL_OK && count != size)
        status = mmul_fail(err, MMUL_ERR_USAGE, "--weights '%s' has %d number%s for %d rank%s",
                           text, count, count == 1 ? "" : "s", size, size == 1 ? "" : "s");
    if (status == MMUL_OK)
        memcpy(weights, given, (size_t)size * sizeof *weights);
    mmul_free(given);
    return status;
}

// Measuring takes a tenth of a second: what is over before that is shared equally, and a CPU that is
// about to run alone has nobody to share with. (A card alone is measured: it may hang, and the longest
// time it may take comes from its speed.)
static bool is_worth_measuring(const struct mmul_context *context, const struct mmul_matmul *args,
                               const struct mmul_problem *problem) {
    static const double enough_flops = 2e9;
    bool is_run = args->output != NULL; // else the prediction is what was asked for
    if (context->comm->size == 1 && is_run && mmul_device_can_borrow(context->device))
        return false;
    return mmul_problem_flops(problem) >= enough_flops;
}

// Root: weights of all ranks; *balanced: nobody gave any, so they are the plan's own business, which
// needs speeds for them.
static enum mmul_status choose_weights(const struct mmul_context *context,
                                       const struct mmul_matmul *args, double *weights,
                                       bool *balanced, struct mmul_error *err) {
    const struct mmul_cluster *cluster = context->cluster;
    bool listed = false;
    *balanced = false;
    if (!is_automatic(args) && strcmp(args->weights, "equal") != 0)
        return given_weights(args->weights, cluster->size, weights, err);
    enum mmul_status status =
        is_automatic(args) ? listed_weights(cluster, weights, &listed, err) : MMUL_OK;
    *balanced = is_automatic(args) && !listed && mmul_matmul_alpha(args) != 0;
    for (int rank = 0; !listed && rank < cluster->size; rank++)
        weights[rank] = 1;
    return status;
}

enum mmul_status mmul_plan_send(const struct mmul_comm *comm, struct mmul_plan **plan,
                                struct mmul_error *err) {
    int64_t bytes = comm->rank == 0 ? (*plan)->bytes : 0;
    struct mmul_plan *block = *plan;
    enum mmul_status status = mmul_comm_broadcast(comm, &bytes, sizeof bytes, err);
    if (status == MMUL_OK && comm->rank != 0) {
        block = mmul_allocate(bytes, 1, "the plan", err);
        status = block == NULL ? err->status : MMUL_OK;
    }
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_comm_broadcast(comm, block, bytes, err);
    *plan = block;
    return status;
}

// The plan has a choice where the shares are its own, too.
static enum mmul_tail what_tail(const struct mmul_matmul *args, bool balanced) {
    if (args->reproducible || (args->tail == MMUL_TAIL_AUTO && !balanced))
        return MMUL_TAIL_OFF;
    return args->tail;
}

static enum mmul_status make_plan(struct mmul_context *context, const struct mmul_matmul *args,
                                  struct mmul_plan_request request, struct mmul_plan **plan,
                                  struct mmul_error *err) {
    request.cluster = context->cluster;
    request.split = args->split;
    request.rule = args->split_rule;
    request.panels = true;
    request.memory_limit_bytes = args->memory_limit_bytes;
    request.device_memory_limit_bytes = args->device_memory_limit_bytes;
    return context->comm->rank == 0 ? mmul_plan_make(&request, plan, err) : MMUL_OK;
}

enum mmul_status mmul_matmul_plan(struct mmul_context *context, const struct mmul_matmul *args,
                                  struct mmul_plan **plan, struct mmul_error *err) {
    const struct mmul_comm *comm = context->comm;
    struct mmul_problem problem = {0};
    struct mmul_plan *made = NULL;
    double *weights = NULL;
    unsigned *node_maps = NULL;
    bool balanced = false;
    mmul_stopwatch_enter(&context->watch, &context->startup.plan_seconds);
    enum mmul_status status = MMUL_ALLOCATE(weights, comm->size, "weights", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(node_maps, comm->node_count, "nodes", err);
    if (status == MMUL_OK && comm->rank == 0)
        status = mmul_problem_load(args, &problem, err);
    if (status == MMUL_OK && comm->rank == 0)
        status = choose_weights(context, args, weights, &balanced, err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_views_find(context, args, args->io, node_maps, err);
    // For a prediction stored speeds will do; shares that must not change are not measured either.
    struct mmul_calibrate_options options = {
        .depth = balanced && !args->reproducible && is_worth_measuring(context, args, &problem)
                     ? MMUL_CALIBRATE_BRIEF
                     : MMUL_CALIBRATE_STORED,
        .types = 1U << mmul_problem_result_dtype(&problem),
        .job_flops = mmul_problem_flops(&problem),
        .no_fallback = args->no_fallback,
        .device_timeout_seconds = args->device_timeout_seconds};
    if (status == MMUL_OK)
        status = mmul_comm_broadcast(comm, &options, sizeof options, err);
    mmul_stopwatch_enter(&context->watch, &context->startup.measure_seconds);
    if (status == MMUL_OK)
        status = mmul_calibrate(context, &options, err);
    mmul_stopwatch_enter(&context->watch, &context->startup.plan_seconds);
    const enum mmul_dtype dtype = mmul_problem_result_dtype(&problem); // root's
    const struct mmul_plan_request request = {
        .problem = &problem,
        .weights =
            balanced && mmul_cluster_has_speeds(context->cluster, 1U << dtype) ? NULL : weights,
        .node_maps = node_maps,
        .tail = what_tail(args, balanced),
        .tail_share = args->tail_share};
    if (status == MMUL_OK)
        status = mmul_comm_agree(comm, make_plan(context, args, request, &made, err), err);
    if (status == MMUL_OK && comm->rank == 0)
        made->verify_seed = args->verify_seed != 0 ? args->verify_seed : mmul_random_seed();
    if (status == MMUL_OK)
        status = mmul_plan_send(comm, &made, err);
    if (status == MMUL_OK)
        *plan = made;
    else
        mmul_plan_destroy(made);
    mmul_free(node_maps);
    mmul_free(weights);
    return status;
}

// ------------------------------------------------------------------------------------------- run

// Root: the output is consumed, whatever happened.
static enum mmul_status end_output(const struct mmul_context *context,
                                   const struct mmul_matmul *args, enum mmul_status status,
                                   struct mmul_error *err) {
    if (context->comm->rank == 0 && status == MMUL_OK)
        status = mmul_output_commit(args->output, err);
    else if (context->comm->rank == 0)
        mmul_output_destroy(args->output);
    return mmul_comm_agree(context->comm, status, err);
}

// Is the plan one of this job? A caller's mistake here would be a wrong address later.
static enum mmul_status check_job(const struct mmul_context *context,
                                  const struct mmul_matmul *args, const struct mmul_plan *plan,
                                  struct mmul_error *err) {
    struct mmul_problem now;
    const struct mmul_problem *then = &plan->problem;
    if (plan->size != context->comm->size)
        return mmul_fail(err, MMUL_ERR_USAGE, "plan is for %d ranks, there are %d", plan->size,
                         context->comm->size);
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

enum mmul_status mmul_matmul_run(struct mmul_context *context, const struct mmul_matmul *args,
                                 const struct mmul_plan *plan, struct mmul_report **report,
                                 struct mmul_error *err) {
    const struct mmul_stage_request stage = {
        .kind = MMUL_STAGE_PRODUCT, .plan = plan, .args = args, .places = {-1, -1, -1, -1}};
    const struct mmul_run_request request = {.args = args, .stages = &stage, .stage_count = 1};
    struct mmul_run *run = NULL;
    struct mmul_report *made = NULL;
    enum mmul_status status =
        mmul_comm_agree(context->comm, check_job(context, args, plan, err), err);
    if (status == MMUL_OK && context->comm->rank == 0 && args->output->took_over)
        mmul_context_warn(context, "'%s' takes the place of what a run that was killed had left",
                          args->output->part);
    if (status == MMUL_OK)
        status = mmul_run_create(context, &request, &run, err);
    if (status == MMUL_OK)
        status = mmul_run_stages(run, err);
    if (status == MMUL_OK)
        status = mmul_run_report(run, &made, err);
    if (status == MMUL_OK)
        status = mmul_run_collect_trace(run, made, err);
    if (status == MMUL_OK && context->comm->rank == 0)
        made->overflows = mmul_output_overflows(args->output);
    double committing = mmul_clock_now();
    status = end_output(context, args, status, err);
    if (status == MMUL_OK) {
        mmul_run_end_report(run, committing, made);
        *report = made;
    } else {
        mmul_report_destroy(made);
    }
    mmul_run_destroy(run);
    return status;
}
