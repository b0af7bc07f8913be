// SPDX-License-Identifier: MIT
// Estimates the finished share of a run. Computing counts as far as the ranks report it; a rank
// without a report counts as if it had done nothing. Finished moves count as root sees them. The
// current move counts by elapsed over predicted time.
#include "exec/conduct/forecast.h"

#include <math.h>

#include "base/clock.h"
#include "base/text.h"
#include "exec/conduct/run.h"
#include "exec/setup/measure.h"
#include "exec/status/job_status.h"
#include "exec/steps/product.h"
#include "model/dtype.h"
#include "model/matrix.h"

static const double TELL_SECONDS = 0.1;

// A CPU that computes alone is not measured, since no plan depends on its speed. A product of some
// seconds can spare the milliseconds that a few small test products take, which show roughly how
// fast the CPU is.
static const double MEASURED_FLOPS_LEAST = 3e11;
enum { TEST_SIDE = 512, TEST_RUNS = 3 };

struct speed_test {
    int left;
    double seconds; // fastest product so far
};

static bool keep_shortest(void *argument, double seconds) {
    struct speed_test *test = argument;
    test->seconds = fmin(test->seconds, seconds);
    return --test->left > 0;
}

static double flops_of(const struct mmul_stage *stage) {
    return mmul_program_flops(stage->plan->program, stage->operation);
}

static double measure_speed(const struct mmul_run *run) {
    const struct mmul_context *context = run->rank_resources.context;
    struct speed_test test = {.left = TEST_RUNS, .seconds = INFINITY};
    struct mmul_error ignored;
    double flops = 0;
    for (int i = 0; i < run->stage_count; i++)
        if (run->stages[i].has_unknown_speed)
            flops += flops_of(&run->stages[i]);
    if (flops < MEASURED_FLOPS_LEAST * context->comm->size ||
        !mmul_device_can_borrow(context->device) ||
        mmul_measure_repeatedly(context->device, TEST_SIDE, keep_shortest, &test, &ignored) !=
            MMUL_OK)
        return 0;
    return 2.0 * TEST_SIDE * TEST_SIDE * TEST_SIDE / test.seconds;
}

static struct mmul_forecast_work work_of(const struct mmul_forecast *outlook,
                                         const struct mmul_stage *stage) {
    const struct mmul_run *run = outlook->run;
    const double seconds = mmul_stage_predict_seconds(&outlook->heartbeat->watch, stage);
    if (mmul_run_is_product(run))
        return (struct mmul_forecast_work){.seconds = seconds,
                                           .bytes = (double)stage->product->result_bytes,
                                           .flops = mmul_problem_flops(&stage->schedule->problem)};
    const struct mmul_program_plan *plan = run->rank_resources.values->plan;
    const struct mmul_program_step *step = &plan->steps[stage->is.index];
    struct mmul_forecast_work work = {.seconds = seconds};
    for (int i = 0; i < mmul_program_result_count(step); i++) {
        const int place = mmul_program_step_result(plan, step, i);
        if (place < 0)
            continue;
        const struct mmul_value *value = mmul_place_value(plan, place);
        work.bytes += mmul_shape_data_bytes(value->shape, value->dtype);
    }
    if (step->kind != MMUL_STEP_MOVE)
        work.flops = flops_of(stage);
    for (int i = 0; i < step->fused_count; i++)
        work.flops += mmul_program_flops(plan->program, mmul_step_fused_operation(plan, step, i));
    return work;
}

static void add_work(struct mmul_forecast_work *sum, struct mmul_forecast_work work, double share) {
    sum->seconds += share * work.seconds;
    sum->bytes += share * work.bytes;
    sum->flops += share * work.flops;
}

void mmul_forecast_init(struct mmul_forecast *outlook, struct mmul_run *run,
                        struct mmul_heartbeat *heartbeat) {
    *outlook = (struct mmul_forecast){.run = run,
                                      .heartbeat = heartbeat,
                                      .progress = run->calls->progress,
                                      .progress_context = run->calls->context,
                                      .phase = mmul_run_is_product(run) ? "multiply" : "run"};
    if (outlook->progress != NULL)
        heartbeat->watch.likely_flops = measure_speed(run);
    outlook->stage_begin = outlook->begin = mmul_clock_now();
}

// Fills in the work of all stages, once. Called late, so that a run that ends early does not pay
// for it.
static void ensure_work(struct mmul_forecast *outlook) {
    const struct mmul_run *run = outlook->run;
    const struct mmul_stage *longest = NULL;
    struct mmul_forecast_work most = {.seconds = 0};
    for (int i = 0; !outlook->has_looked && i < run->stage_count; i++) {
        const struct mmul_forecast_work work = work_of(outlook, &run->stages[i]);
        add_work(&outlook->all, work, 1);
        if (run->stages[i].is.kind->copies)
            continue;
        add_work(&outlook->computing, work, 1);
        if (longest == NULL || work.seconds > most.seconds ||
            (work.seconds == most.seconds && work.flops > most.flops)) {
            longest = &run->stages[i];
            most = work;
        }
    }
    if (!outlook->has_looked)
        outlook->longest = longest;
    outlook->has_looked = true;
}

// Returns the finished share of what all ranks compute. A rank without a report, or still in its
// first task and unable to tell, has done nothing so far. NAN: no rank with a report has any such
// work.
static double share_computed(struct mmul_forecast *outlook, double now) {
    const int size = outlook->run->rank_resources.context->comm->size;
    double done = 0, total = 0;
    int known = 0;
    for (int i = 0; i < size; i++) {
        struct mmul_rank_status s;
        if (!mmul_heartbeat_rank_status(outlook->heartbeat, i, now, &s))
            continue;
        known++;
        done += s.done > 0 ? (double)s.done : 0;
        total += s.total > 0 ? (double)s.total : 0;
    }
    return total > 0 ? fmin(done / total * known / size, 1) : NAN;
}

// Computes the share done, the ratio of actual to predicted time, and the remaining time.
static struct mmul_progress estimate_progress(struct mmul_forecast *outlook, int stages_over,
                                              double now) {
    const struct mmul_run *run = outlook->run;
    ensure_work(outlook);
    if (outlook->stages_over < stages_over)
        outlook->stage_begin = now;
    for (; outlook->stages_over < stages_over; outlook->stages_over++)
        if (run->stages[outlook->stages_over].is.kind->copies)
            add_work(&outlook->moved, work_of(outlook, &run->stages[outlook->stages_over]), 1);
    const double elapsed = now - outlook->begin, in_stage = now - outlook->stage_begin;
    const double trusted = MMUL_PREDICTION_SHARE * outlook->all.seconds;
    double computed = share_computed(outlook, now);
    if (isnan(computed))
        computed = outlook->computing.seconds > 0
                       ? mmul_damp_share(elapsed / outlook->computing.seconds)
                       : 0;
    struct mmul_forecast_work done = outlook->moved;
    add_work(&done, outlook->computing, computed);
    double slower = (elapsed - in_stage + trusted) / (done.seconds + trusted);
    if (stages_over < run->stage_count && run->stages[stages_over].is.kind->copies) {
        const struct mmul_forecast_work work = work_of(outlook, &run->stages[stages_over]);
        const double predicted = work.seconds * slower;
        add_work(&done, work, predicted > 0 ? mmul_damp_share(in_stage / predicted) : 0);
    }
    slower = (elapsed + trusted) / (done.seconds + trusted);
    const bool is_only_predicted = outlook->all.seconds > 0;
    double share = is_only_predicted        ? done.seconds / outlook->all.seconds
                   : outlook->all.flops > 0 ? done.flops / outlook->all.flops
                                            : 0;
    outlook->shown = share = fmax(share, outlook->shown);
    return (struct mmul_progress){
        .phase = outlook->phase,
        .share = share,
        .done_bytes = (int64_t)(share * outlook->all.bytes),
        .total_bytes = (int64_t)outlook->all.bytes,
        .flops_per_second = elapsed > 0 ? done.flops / elapsed : 0,
        .left_seconds = is_only_predicted ? (outlook->all.seconds - done.seconds) * slower
                        : share > 0       ? elapsed * (1 - share) / share
                                          : -1};
}

// ---------------------------------------------------------------------------------- the job status

static double scale_word(int64_t word, double factor) {
    return word != INT64_MIN ? (double)word * factor : NAN;
}

// Fills in the current step and the figures of a rank. A rank without a message in this run, as in
// short loop iterations, keeps its last figures. Its step is then the longest one, and so is the
// step of a rank that has finished.
static void fill_rank(struct mmul_forecast *outlook, int rank, double now,
                      struct mmul_job_rank *r) {
    const struct mmul_run *run = outlook->run;
    struct mmul_rank_status s;
    const bool has_spoken = mmul_heartbeat_rank_status(outlook->heartbeat, rank, now, &s);
    const struct mmul_stage *stage =
        has_spoken && s.stage < run->stage_count ? &run->stages[s.stage] : outlook->longest;
    if (stage != NULL)
        mmul_program_step_name(run->rank_resources.values->plan, stage->is.step, r->computes);
    if (!has_spoken)
        return;
    if (s.done != INT64_MIN && s.total > 0)
        r->done = fmin((double)s.done / (double)s.total, 1);
    else if (s.stage == run->stage_count)
        r->done = 1;
    r->flops_per_second = scale_word(s.flops_per_second, 1);
    r->memory_bytes = s.resident_bytes > 0 ? (double)s.resident_bytes : NAN;
    r->celsius = scale_word(s.millicelsius, 1e-3);
    r->watts = scale_word(s.milliwatts, 1e-3);
}

static void fill_ranks(struct mmul_forecast *outlook, double now, struct mmul_job_state *job) {
    const double *weights = outlook->run->rank_resources.values->plan->weights;
    double all = 0;
    job->flops_per_second = 0;
    for (int i = 0; i < job->rank_count; i++) {
        struct mmul_job_rank *r = &job->ranks[i];
        fill_rank(outlook, i, now, r);
        if (!isnan(r->flops_per_second))
            job->flops_per_second += r->flops_per_second;
        all += weights != NULL ? weights[i] : 0;
    }
    for (int i = 0; i < job->rank_count; i++)
        job->ranks[i].share = all > 0 ? weights[i] / all : NAN;
}

// Writes the job status. In a loop the share done is that of the loop's iterations, so it is left
// alone here.
static void post_board(struct mmul_forecast *outlook, const struct mmul_progress *progress,
                       double now) {
    struct mmul_context *context = outlook->run->rank_resources.context;
    struct mmul_job_state *job = mmul_job_status_get(context);
    if (job != NULL)
        fill_ranks(outlook, now, job);
    if (job != NULL && job->end_turn == 0) {
        mmul_text_copy(job->phase, sizeof job->phase, progress->phase);
        job->share = progress->share;
        job->left_seconds = progress->left_seconds >= 0 ? progress->left_seconds : NAN;
    }
    mmul_job_status_write(context, now);
}

void mmul_forecast_report(struct mmul_forecast *outlook, int stages_over) {
    const double now = mmul_clock_now();
    const bool tells = outlook->progress != NULL && now - outlook->told >= TELL_SECONDS,
               posts = mmul_job_status_is_due(outlook->run->rank_resources.context, now);
    if (!tells && !posts)
        return;
    const struct mmul_progress progress = estimate_progress(outlook, stages_over, now);
    if (tells) {
        outlook->told = now;
        outlook->progress(outlook->progress_context, &progress);
    }
    if (posts)
        post_board(outlook, &progress, now);
}

void mmul_forecast_end(struct mmul_forecast *outlook) {
    struct mmul_context *context = outlook->run->rank_resources.context;
    const double now = mmul_clock_now();
    if (context->job_status == NULL) // no job status was ever written
        return;
    if (mmul_job_status_is_due(context, now))
        ensure_work(outlook);
    fill_ranks(outlook, now, mmul_job_status_get(context));
    if (mmul_job_status_is_due(context, now))
        mmul_job_status_write(context, now);
}
