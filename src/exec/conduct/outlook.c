// SPDX-License-Identifier: MIT
// Inside a stage the ranks of root's node stand for all, since all are to end together: elements of C that they have
// made, and what is under way by their rates; of what is not a product, the time that it was predicted to take.
#include "exec/conduct/outlook.h"

#include <math.h>

#include "base/clock.h"
#include "exec/conduct/run.h"
#include "exec/setup/measure.h"
#include "exec/steps/product.h"
#include "exec/tasks/work.h"
#include "model/dtype.h"
#include "plan/cost/pass_cost.h"

static const double TELL_SECONDS = 0.1;

// A prediction counts as much as what was seen of so much of the work.
static const double TRUSTED_SHARE = 0.05;

// Of what is under way by the clock: near its end it becomes slower, for it is not over before it is.
static double ease(double share) {
    const double straight = 0.8, rest = 0.98 - straight;
    return share < straight ? share : straight + rest * (1 - exp((straight - share) / rest));
}

// A CPU that computes alone is not measured, for nothing depends on it; a product of some seconds can spare the
// milliseconds in which a few small ones say about how fast it is.
static const double WORTH_A_GLANCE_FLOPS = 3e11;
enum { GLANCE_SIDE = 512, GLANCES = 3 };

struct glance {
    int left;
    double seconds; // the shortest
};

static bool glance_again(void *argument, double seconds) {
    struct glance *glance = argument;
    glance->seconds = fmin(glance->seconds, seconds);
    return --glance->left > 0;
}

static bool is_product_alone(const struct mmul_run *run) {
    return run->stage_count == 1 && run->stages[0].product != NULL &&
           run->stages[0].epilogue.step == NULL;
}

static double flops_of(const struct mmul_stage *stage) {
    return mmul_program_flops(stage->plan->program, stage->operation);
}

// A product of which nothing is predicted but by an assumed speed.
static bool is_unknown(const struct mmul_stage *stage) {
    const struct mmul_program_plan *plan = stage->plan;
    const struct mmul_schedule *schedule = stage->is.schedule;
    const struct mmul_program_place *result = &plan->places[stage->is.step->result];
    if (schedule != NULL)
        return schedule->predicted_seconds <= 0 && schedule->problem.alpha != 0;
    return stage->is.step->kind == MMUL_STEP_COMPUTE && stage->operation->kind == MMUL_MATMUL &&
           !mmul_product_is_measured(&stage->site->context->cluster->ranks[stage->comm->rank],
                                     plan->program->values[result->value].dtype);
}

static double glance(const struct mmul_run *run) {
    const struct mmul_context *context = run->site.context;
    struct glance glance = {.left = GLANCES, .seconds = INFINITY};
    struct mmul_error ignored;
    double flops = 0;
    for (int i = 0; i < run->stage_count; i++)
        if (is_unknown(&run->stages[i]))
            flops += flops_of(&run->stages[i]);
    if (flops < WORTH_A_GLANCE_FLOPS * context->comm->size ||
        !mmul_device_can_borrow(context->device) ||
        mmul_measure_on(context->device, GLANCE_SIDE, glance_again, &glance, &ignored) != MMUL_OK)
        return 0;
    return 2.0 * GLANCE_SIDE * GLANCE_SIDE * GLANCE_SIDE / glance.seconds;
}

// Of a product of such a speed, by the glance at it; of all else as predicted.
static double seconds_of(const struct mmul_outlook *outlook, const struct mmul_stage *stage,
                         double predicted) {
    return outlook->glance_flops > 0 && is_unknown(stage)
               ? flops_of(stage) / outlook->glance_flops / stage->comm->size +
                     stage->is.step->fused_seconds
               : predicted;
}

static struct mmul_outlook_work work_of(const struct mmul_outlook *outlook,
                                        const struct mmul_run *run,
                                        const struct mmul_stage *stage) {
    if (is_product_alone(run))
        return (struct mmul_outlook_work){
            .seconds = seconds_of(outlook, stage, stage->is.schedule->predicted_seconds),
            .bytes = (double)stage->product->files.result_bytes,
            .flops = mmul_problem_flops(&stage->is.schedule->problem)};
    const struct mmul_program_plan *plan = run->site.values->plan;
    const struct mmul_program_step *step = &plan->steps[stage->is.index];
    struct mmul_outlook_work work = {.seconds = seconds_of(outlook, stage, step->seconds)};
    for (int i = 0; i < mmul_program_result_count(step); i++) {
        const int place = mmul_program_step_result(plan, step, i);
        if (place < 0)
            continue;
        const struct mmul_value *value = &plan->program->values[plan->places[place].value];
        work.bytes += (double)mmul_shape_matrices(value->shape) * (double)value->shape.rows *
                      (double)value->shape.cols * (double)mmul_dtype_bytes(value->dtype);
    }
    if (step->kind == MMUL_STEP_COMPUTE)
        work.flops = flops_of(stage);
    for (int i = 0; i < step->fused_count; i++)
        work.flops += mmul_program_flops(
            plan->program,
            &plan->program->operations[plan->fused[step->first_fused + i].operation]);
    return work;
}

static void add(struct mmul_outlook_work *sum, struct mmul_outlook_work work, double share) {
    sum->seconds += share * work.seconds;
    sum->bytes += share * work.bytes;
    sum->flops += share * work.flops;
}

void mmul_outlook_init(struct mmul_outlook *outlook, const struct mmul_run *run) {
    *outlook = (struct mmul_outlook){.progress = run->calls->progress,
                                     .progress_context = run->calls->context,
                                     .phase = is_product_alone(run) ? "multiply" : "run"};
    if (outlook->progress != NULL)
        outlook->glance_flops = glance(run);
    outlook->stage_begin = outlook->begin = mmul_clock_now();
    for (int i = 0; outlook->progress != NULL && i < run->stage_count; i++)
        add(&outlook->all, work_of(outlook, run, &run->stages[i]), 1);
}

// By the elements of the result of this node; NAN: nothing is known of its ranks.
static double share_made(const struct mmul_outlook *outlook, const struct mmul_stage *stage,
                         double now) {
    const double glanced = outlook->glance_flops / (2.0 * (double)stage->works->tasks->terms);
    double all = 0, made = 0;
    for (int i = 0; i < stage->site->context->comm->node_size; i++) {
        const struct mmul_stage_progress_rank *rank = &stage->progress->ranks[i];
        const struct mmul_tasks *tasks = &stage->works->tasks[i];
        const double begun = (double)atomic_load(&rank->begun) * 1e-9;
        const double under_way = (double)atomic_load(&rank->elements),
                     rate = (double)atomic_load(&rank->rate);
        all += mmul_tasks_elements(tasks, 0, tasks->positions);
        made += (double)atomic_load(&rank->elements_done);
        if (begun > 0 && under_way > 0)
            made += under_way * ease((rate > 0 ? rate : glanced) * (now - begun) / under_way);
    }
    return all > 0 && made > 0 ? made / all : NAN;
}

// Of the stage that is carried out.
static double share_of(const struct mmul_outlook *outlook, const struct mmul_stage *stage,
                       double predicted, double elapsed, double now) {
    double share = predicted > 0 ? ease(elapsed / predicted) : 0;
    if (stage->product != NULL) {
        const double made = share_made(outlook, stage, now);
        share = isnan(made) ? share : made;
    }
    if (stage->product != NULL && stage->product->files.done_bytes > 0)
        share = fmax(share, (double)stage->product->files.done_bytes /
                                (double)stage->product->files.result_bytes);
    return fmin(share, 1);
}

void mmul_outlook_tell(struct mmul_outlook *outlook, const struct mmul_run *run, int stages_over) {
    const double now = mmul_clock_now();
    if (outlook->progress == NULL || now - outlook->told < TELL_SECONDS)
        return;
    outlook->told = now;
    if (outlook->stages_over < stages_over)
        outlook->stage_begin = now;
    for (; outlook->stages_over < stages_over; outlook->stages_over++)
        add(&outlook->over, work_of(outlook, run, &run->stages[outlook->stages_over]), 1);
    const double elapsed = now - outlook->begin;
    struct mmul_outlook_work done = outlook->over;
    // How much longer all takes than it was predicted to take.
    const double trusted = TRUSTED_SHARE * outlook->all.seconds;
    const double in_stage = now - outlook->stage_begin;
    double slower = (elapsed - in_stage + trusted) / (done.seconds + trusted);
    if (stages_over < run->stage_count) {
        const struct mmul_stage *stage = &run->stages[stages_over];
        const struct mmul_outlook_work work = work_of(outlook, run, stage);
        add(&done, work, share_of(outlook, stage, work.seconds * slower, in_stage, now));
    }
    slower = (elapsed + trusted) / (done.seconds + trusted);
    const bool is_predicted = outlook->all.seconds > 0;
    double share = is_predicted             ? done.seconds / outlook->all.seconds
                   : outlook->all.flops > 0 ? done.flops / outlook->all.flops
                                            : 0;
    outlook->shown = share = fmax(share, outlook->shown);
    const struct mmul_progress progress = {
        .phase = outlook->phase,
        .share = share,
        .done_bytes = (int64_t)(share * outlook->all.bytes),
        .total_bytes = (int64_t)outlook->all.bytes,
        .flops_per_second = elapsed > 0 ? done.flops / elapsed : 0,
        .left_seconds = is_predicted ? (outlook->all.seconds - done.seconds) * slower
                        : share > 0  ? elapsed * (1 - share) / share
                                     : -1};
    outlook->progress(outlook->progress_context, &progress);
}
