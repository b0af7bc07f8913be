// SPDX-License-Identifier: MIT
// From plans of products to one walk over all of their lists. Changes no plan.
#include "plan/program/program_predict.h"

#include "base/memory.h"
#include "plan/replay/replay.h"

// What a walk needs of a product beside its plan.
struct job {
    struct mmul_stage_plan *stages; // owned, `count` of them; equal products have one cost
    struct mmul_cost **costs;       // owned, by step: NULL where it is another one's
    unsigned *maps;                 // owned: of the nodes, while a cost is made
    bool *in;                       // owned: the ranks that have a part of it
    int count;
};

static struct mmul_cut cut_of(const struct mmul_schedule *schedule) {
    struct mmul_cut cut = {.rounds = schedule->rounds,
                           .panels = mmul_schedule_panels(schedule),
                           .panel_units = schedule->panel_units,
                           .panel_matrices = schedule->panel_matrices};
    for (int node = 0; node < schedule->node_count; node++)
        cut.whole_stays |= mmul_schedule_nodes(schedule)[node].whole_stays;
    return cut;
}

static enum mmul_status make_cost(struct job *job, const struct mmul_schedule *schedule,
                                  const struct mmul_cluster *cluster, struct mmul_cost **cost,
                                  struct mmul_error *err) {
    const struct mmul_cost_request request = {.problem = &schedule->problem,
                                              .axis = schedule->axis,
                                              .cluster = cluster,
                                              .node_maps = job->maps};
    const struct mmul_cut cut = cut_of(schedule);
    for (int node = 0; node < schedule->node_count; node++)
        job->maps[node] = mmul_schedule_nodes(schedule)[node].maps;
    for (int rank = 0; rank < schedule->size; rank++)
        job->in[rank] =
            mmul_schedule_ranks(schedule)[rank].end > mmul_schedule_ranks(schedule)[rank].begin;
    enum mmul_status status = mmul_cost_create(&request, cost, err);
    if (status == MMUL_OK)
        mmul_cost_set(*cost, job->in, &cut);
    return status;
}

static enum mmul_status find_stages(struct job *job, const struct mmul_program_plan *plan,
                                    const struct mmul_cluster *cluster, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < plan->step_count; i++) {
        const struct mmul_program_step *step = &plan->steps[i];
        if (step->schedule == NULL)
            continue;
        const long owner = (step->same != NULL ? step->same : step) - plan->steps;
        if (step->same == NULL)
            status = make_cost(job, step->schedule, cluster, &job->costs[i], err);
        job->stages[job->count++] = (struct mmul_stage_plan){step->schedule, job->costs[owner]};
    }
    return status;
}

// Of all products as one job.
static enum mmul_status walk(const struct mmul_program_plan *plan,
                             const struct mmul_cluster *cluster, double *seconds,
                             struct mmul_error *err) {
    struct job job = {.count = 0};
    struct mmul_replay *replay = NULL;
    enum mmul_status status = MMUL_ALLOCATE(job.stages, plan->step_count, "the simulation", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(job.costs, plan->step_count, "the simulation", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(job.maps, cluster->node_count, "the simulation", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(job.in, cluster->size, "the simulation", err);
    if (status == MMUL_OK)
        status = find_stages(&job, plan, cluster, err);
    const struct mmul_replay_request request = {.stages = job.stages, .count = job.count};
    if (status == MMUL_OK)
        status = mmul_replay_make(&request, &replay, err);
    if (status == MMUL_OK)
        *seconds = replay->seconds;
    mmul_replay_destroy(replay);
    for (int i = 0; job.costs != NULL && i < plan->step_count; i++)
        mmul_cost_destroy(job.costs[i]);
    mmul_free(job.stages);
    mmul_free(job.costs);
    mmul_free(job.maps);
    mmul_free(job.in);
    return status;
}

// A step's own prediction. Small products are not worth measuring speeds: what the placements were chosen by stays.
static void predict_step(struct mmul_program_step *step) {
    step->axis = step->schedule->axis;
    if (step->schedule->predicted_seconds > 0)
        step->seconds = step->schedule->predicted_seconds + step->fused_seconds;
    step->network_bytes = 0;
    for (int node = 0; node < step->schedule->node_count; node++)
        step->network_bytes += (double)mmul_schedule_nodes(step->schedule)[node].network_bytes;
}

enum mmul_status mmul_program_predict(struct mmul_program_plan *plan,
                                      const struct mmul_cluster *cluster, struct mmul_error *err) {
    double apart = 0, together = 0;
    int products = 0, known = 0;
    enum mmul_status status = MMUL_OK;
    for (int i = 0; i < plan->step_count; i++) {
        struct mmul_program_step *step = &plan->steps[i];
        if (step->schedule == NULL)
            continue;
        predict_step(step);
        products++;
        known += step->schedule->predicted_seconds > 0;
        apart += step->schedule->predicted_seconds;
    }
    if (known > 1 && known == products)
        status = walk(plan, cluster, &together, err);
    for (int i = 0; together > 0 && i < plan->step_count; i++)
        if (plan->steps[i].schedule != NULL)
            plan->steps[i].seconds -=
                plan->steps[i].schedule->predicted_seconds * (1 - together / apart);
    mmul_program_plan_add_up(plan);
    return status;
}
