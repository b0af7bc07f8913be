// SPDX-License-Identifier: MIT
// Computes the progress of a rank from counters that any thread may read while the compute thread
// writes them. For the current stage those are the finished elements, and the elements under way by
// their rate. A stage without such counters counts by elapsed over predicted time.
#include "exec/conduct/rank_status.h"

#include <math.h>

#include "base/clock.h"
#include "base/memory.h"
#include "exec/conduct/run.h"
#include "exec/status/device_usage.h"
#include "exec/tasks/computing.h"
#include "model/matrix.h"
#include "model/problem.h"

double mmul_damp_share(double share) {
    const double straight = 0.8, rest = 0.98 - straight;
    return share < straight ? share : straight + rest * (1 - exp((straight - share) / rest));
}

bool mmul_run_is_product(const struct mmul_run *run) {
    return run->stage_count == 1 && run->stages[0].is.kind == &mmul_product_kind &&
           run->stages[0].epilogue.step == NULL;
}

enum mmul_status mmul_rank_status_tracker_init(struct mmul_rank_status_tracker *watch,
                                               const struct mmul_run *run, struct mmul_error *err) {
    const double now = mmul_clock_now();
    *watch = (struct mmul_rank_status_tracker){.run = run, .begin = now, .stage_begin = now};
    return MMUL_ALLOCATE(watch->before, run->stage_count + 1, "a prediction", err);
}

void mmul_rank_status_tracker_fini(struct mmul_rank_status_tracker *watch) {
    mmul_free(watch->before);
    watch->before = NULL;
}

static int own_node_rank(const struct mmul_run *run) {
    return run->rank_resources.context->comm->node_rank;
}

static bool has_own_part(const struct mmul_stage *stage) {
    return mmul_stage_has_work(stage, stage->comm->rank);
}

double mmul_stage_predict_seconds(const struct mmul_rank_status_tracker *watch,
                                  const struct mmul_stage *stage) {
    if (watch->likely_flops > 0 && stage->has_unknown_speed)
        return mmul_program_flops(stage->plan->program, stage->operation) / watch->likely_flops /
                   stage->comm->size +
               stage->is.step->fused_seconds;
    return mmul_run_is_product(watch->run) ? stage->schedule->predicted_seconds
                                           : stage->plan->steps[stage->is.index].seconds;
}

// Returns this rank's work in a stage in predicted seconds. In a program without predictions it is
// operations / 1e9.
static double predicted_work_of(const struct mmul_rank_status_tracker *watch,
                                const struct mmul_stage *stage) {
    if (!has_own_part(stage))
        return 0;
    return stage->plan->seconds > 0 || watch->likely_flops > 0
               ? mmul_stage_predict_seconds(watch, stage)
               : mmul_program_flops(stage->plan->program, stage->operation) * 1e-9;
}

// Fills in the predicted work before each stage, once. Called late, so that a run that ends early
// does not pay for it.
static void ensure_predictions(struct mmul_rank_status_tracker *watch) {
    const struct mmul_run *run = watch->run;
    for (int i = 0; !watch->has_looked && i < run->stage_count; i++)
        watch->before[i + 1] = watch->before[i] + predicted_work_of(watch, &run->stages[i]);
    watch->has_looked = true;
}

// Returns the operations per element of the result. Fused operations are not included: they run
// once it is made.
static double flops_per_element(const struct mmul_stage *stage) {
    const struct mmul_program_plan *plan = stage->plan;
    return mmul_program_flops(plan->program, stage->operation) /
           mmul_shape_elements(mmul_place_value(plan, stage->is.step->made)->shape);
}

// Estimates how many elements of the current task are finished by now; 0: none, or not known.
static double elements_under_way(const struct mmul_rank_status_tracker *watch,
                                 const struct mmul_stage *stage, double now) {
    const struct mmul_stage_progress_rank *own = &stage->progress->ranks[own_node_rank(watch->run)];
    const double begun = (double)atomic_load(&own->begun) * 1e-9,
                 elements = (double)atomic_load(&own->elements);
    double rate = (double)atomic_load(&own->rate);
    if (begun <= 0 || elements <= 0)
        return 0;
    if (rate == 0 && stage->operation->kind == MMUL_MATMUL)
        rate = watch->likely_flops / fmax(1, flops_per_element(stage));
    return elements * mmul_damp_share(rate * (now - begun) / elements);
}

// Returns the finished share of this rank's part of the current stage, 0 to 1.
static double share_of_stage(const struct mmul_rank_status_tracker *watch,
                             const struct mmul_stage *stage, double made, double now) {
    const int64_t planned =
        atomic_load(&stage->progress->ranks[own_node_rank(watch->run)].elements_planned);
    if (made > 0 && planned > 0)
        return fmin(made / (double)planned, 1);
    const double trusted = MMUL_PREDICTION_SHARE * watch->before[watch->run->stage_count],
                 done = watch->before[stage->index],
                 slower = (watch->stage_begin - watch->begin + trusted) / (done + trusted),
                 predicted = slower * (watch->before[stage->index + 1] - done);
    return predicted > 0 ? mmul_damp_share((now - watch->stage_begin) / predicted) : 0;
}

// Sets the finished and the total work of the whole run.
static void set_done_and_total(struct mmul_rank_status_tracker *watch,
                               const struct mmul_stage *stage, double made, double now,
                               struct mmul_rank_status *s) {
    const struct mmul_run *run = watch->run;
    if (mmul_run_is_product(run)) {
        const struct mmul_stage_progress_rank *own =
            &run->stages[0].progress->ranks[own_node_rank(run)];
        const bool is_known = made > 0 || stage == NULL;
        s->total = atomic_load(&own->elements_planned);
        s->done = is_known ? atomic_load(&own->elements_done) + (int64_t)made : INT64_MIN;
        return;
    }
    ensure_predictions(watch);
    double done = watch->before[s->stage];
    if (stage != NULL && watch->before[s->stage + 1] > done)
        done +=
            (watch->before[s->stage + 1] - done) *
            share_of_stage(watch, stage,
                           made + (double)atomic_load(
                                      &stage->progress->ranks[own_node_rank(run)].elements_done),
                           now);
    s->done = (int64_t)(done * 1e9);
    s->total = (int64_t)(watch->before[run->stage_count] * 1e9);
}

static int64_t to_word(double value, double factor) {
    return isfinite(value) ? llround(value * factor) : INT64_MIN;
}

struct mmul_rank_status mmul_rank_status_read(struct mmul_rank_status_tracker *watch, bool is_over,
                                              double now) {
    const struct mmul_run *run = watch->run;
    struct mmul_context *context = run->rank_resources.context;
    struct mmul_rank_status s = {.stage = run->stage_count, .done = INT64_MIN, .total = INT64_MIN};
    double flops = (double)atomic_load(&run->rank_resources.computed_flops);
    if (!is_over) {
        s.stage = atomic_load(&run->rank_resources.progress->ranks[own_node_rank(run)].stages_done);
        if (watch->stage < s.stage)
            watch->stage_begin = now;
        watch->stage = s.stage;
        const struct mmul_stage *stage = s.stage < run->stage_count ? &run->stages[s.stage] : NULL;
        const double made = stage != NULL ? elements_under_way(watch, stage, now) : 0;
        set_done_and_total(watch, stage, made, now, &s);
        if (made > 0)
            flops += made * flops_per_element(stage);
    }
    mmul_device_usage_update(context, flops, now);
    const struct mmul_device_usage *device_usage = context->device_usage;
    s.flops_per_second =
        to_word(device_usage->looked_at > 0 ? device_usage->flops_per_second : NAN, 1);
    s.resident_bytes = device_usage->resident_bytes;
    s.millicelsius = to_word(device_usage->looked_at > 0 ? device_usage->sensed.celsius : NAN, 1e3);
    s.milliwatts = to_word(device_usage->looked_at > 0 ? device_usage->sensed.watts : NAN, 1e3);
    return s;
}
