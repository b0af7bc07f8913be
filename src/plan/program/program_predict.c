// SPDX-License-Identifier: MIT
// Turns steps into the stages of one job, replays it, and turns the times back into seconds of
// steps.
#include "plan/program/program_predict.h"

#include <math.h>

#include "base/memory.h"
#include "plan/replay/replay.h"

// Input of a replay beside the plan.
struct job {
    struct mmul_stage_plan *stages;     // owned, `count` of them
    struct mmul_product_plan *products; // owned; equal products share a cost
    struct mmul_cost **costs;           // owned, by step: NULL if another step owns it
    int *producers;                     // owned, by place: stage that makes it; -1: none
    // Owned, by stage of the run (joined moves have their own): stage here.
    int *indices;
    unsigned *maps;  // owned, per node: scratch of make_cost
    int64_t *counts; // owned, per rank: units, scratch of make_cost
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

static enum mmul_status make_cost(struct job *job, const struct mmul_program_plan *plan,
                                  const struct mmul_program_step *step,
                                  const struct mmul_cluster *cluster, struct mmul_cost **cost,
                                  struct mmul_error *err) {
    const struct mmul_schedule *schedule = step->schedule;
    const bool is_file = mmul_place_is_file(plan, step->result);
    const struct mmul_cost_request request = {.problem = &schedule->problem,
                                              .axis = schedule->axis,
                                              .cluster = cluster,
                                              .node_maps = job->maps,
                                              .value_maps = is_file ? 0 : MMUL_MAPS_C};
    const struct mmul_cut cut = cut_of(schedule);
    for (int node = 0; node < schedule->node_count; node++)
        job->maps[node] = mmul_schedule_nodes(schedule)[node].maps;
    for (int rank = 0; rank < schedule->size; rank++)
        job->counts[rank] =
            mmul_schedule_ranks(schedule)[rank].end - mmul_schedule_ranks(schedule)[rank].begin;
    enum mmul_status status = mmul_cost_create(&request, cost, err);
    if (status != MMUL_OK)
        return status;
    mmul_cost_set(*cost, &cut);
    mmul_cost_set_counts(*cost, job->counts);
    return MMUL_OK;
}

// Returns the ranks that a step waits for: for a move all ranks that have something of it, else the
// ranks of the node if they made an operand together.
static enum mmul_waits find_waits(const struct job *job, const struct mmul_program_plan *plan,
                                  const struct mmul_program_step *step) {
    enum mmul_waits waits = MMUL_WAITS_NONE;
    if (mmul_program_is_early(plan, step))
        return waits;
    if (step->kind == MMUL_STEP_MOVE || step->joined_count > 0)
        return step->network_bytes > 0 || step->joined_count > 0 ? MMUL_WAITS_ALL_RANKS
                                                                 : MMUL_WAITS_NODE_RANKS;
    for (int i = 0; i < mmul_program_operand_count(step); i++) {
        const int operand = mmul_program_step_operand(plan, step, i);
        if (operand >= 0 && plan->places[operand].placement.kind == MMUL_PLACE_REPLICATE &&
            job->producers[mmul_program_base_place(plan, operand)] >= 0)
            waits = MMUL_WAITS_NODE_RANKS;
    }
    return waits;
}

// Lists the steps, except joined moves: their product's seconds include them. Then finds the stage
// that waits for each early move; count: none does.
static void find_stages(struct job *job, const struct mmul_program_plan *plan) {
    int stages = 0;
    for (int i = 0; i < plan->place_count; i++)
        job->producers[i] = -1;
    for (int i = 0; i < plan->step_count; i++) {
        const struct mmul_program_step *step = &plan->steps[i];
        while (stages <= step->stage)
            job->indices[stages++] = job->count;
        if (step->joined)
            continue;
        job->stages[job->count] = (struct mmul_stage_plan){.seconds = step->seconds,
                                                           .waits = find_waits(job, plan, step)};
        for (int r = 0; r < mmul_program_result_count(step); r++)
            if (mmul_program_step_result(plan, step, r) >= 0)
                job->producers[mmul_program_base_place(
                    plan, mmul_program_step_result(plan, step, r))] = job->count;
        job->count++;
    }
    for (int i = 0; i < plan->step_count; i++) {
        const struct mmul_program_step *step = &plan->steps[i];
        if (mmul_program_is_early(plan, step))
            job->stages[job->indices[step->stage]].due =
                step->due < stages ? job->indices[step->due] : job->count;
    }
}

static enum mmul_status find_products(struct job *job, const struct mmul_program_plan *plan,
                                      const struct mmul_cluster *cluster, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < plan->product_count; i++) {
        const struct mmul_program_step *step = &plan->steps[plan->products[i]];
        struct mmul_cost **cost =
            &job->costs[(step->same != NULL ? step->same : step) - plan->steps];
        if (step->same == NULL)
            status = make_cost(job, plan, step, cluster, cost, err);
        job->products[i] = (struct mmul_product_plan){.schedule = step->schedule,
                                                      .cost = *cost,
                                                      .stage = job->indices[step->stage],
                                                      .needs = -1};
        job->stages[job->products[i].stage].seconds = step->fused_seconds;
        if (step->relays_whole)
            job->products[i].needs = job->producers[mmul_program_base_place(
                plan, step->operands[step->schedule->axis == MMUL_ROWS ? 1 : 0])];
    }
    return status;
}

// Sets each step's seconds to its addition to the steps before. The last step also gets the traffic
// still in flight.
static void set_step_seconds(struct mmul_program_plan *plan, const struct mmul_replay *replay) {
    double before = 0;
    int stage = 0;
    struct mmul_program_step *last = NULL;
    for (int i = 0; i < plan->step_count; i++) {
        struct mmul_program_step *step = &plan->steps[i];
        if (step->joined)
            continue;
        step->seconds = fmax(0, replay->ends[stage] - before);
        before = fmax(before, replay->ends[stage++]);
        last = step;
    }
    if (last != NULL)
        last->seconds += fmax(0, replay->seconds - before);
}

static enum mmul_status replay_job(struct mmul_program_plan *plan,
                                   const struct mmul_cluster *cluster, struct mmul_error *err) {
    struct job job = {.count = 0};
    struct mmul_replay *replay = NULL;
    enum mmul_status status = MMUL_ALLOCATE_ALL(
        "the simulation", err, MMUL_ARRAY(job.stages, plan->step_count),
        MMUL_ARRAY(job.products, plan->product_count), MMUL_ARRAY(job.costs, plan->step_count),
        MMUL_ARRAY(job.producers, plan->place_count), MMUL_ARRAY(job.maps, cluster->node_count),
        MMUL_ARRAY(job.counts, cluster->size),
        MMUL_ARRAY(job.indices, 2 * (int64_t)plan->step_count));
    if (status == MMUL_OK)
        find_stages(&job, plan);
    if (status == MMUL_OK)
        status = find_products(&job, plan, cluster, err);
    const struct mmul_replay_request request = {.cluster = cluster,
                                                .stages = job.stages,
                                                .products = job.products,
                                                .count = job.count,
                                                .product_count = plan->product_count};
    if (status == MMUL_OK)
        status = mmul_replay_make(&request, &replay, err);
    if (status == MMUL_OK)
        set_step_seconds(plan, replay);
    mmul_replay_destroy(replay);
    for (int i = 0; job.costs != NULL && i < plan->step_count; i++)
        mmul_cost_destroy(job.costs[i]);
    MMUL_FREE_ALL(job.stages, job.products, job.costs, job.producers, job.indices, job.maps,
                  job.counts);
    return status;
}

// Takes a product's own prediction. Speeds of small products are not measured, so their seconds
// stay those by which placements were chosen.
static void predict_product(struct mmul_program_step *step) {
    step->axis = step->schedule->axis;
    step->compute_seconds = step->schedule->compute_seconds + step->fused_seconds;
    if (step->schedule->predicted_seconds > 0)
        step->seconds = step->schedule->predicted_seconds + step->fused_seconds;
    step->network_bytes = 0;
    for (int node = 0; node < step->schedule->node_count; node++)
        step->network_bytes += (double)mmul_schedule_nodes(step->schedule)[node].network_bytes;
}

enum mmul_status mmul_program_predict(struct mmul_program_plan *plan,
                                      const struct mmul_cluster *cluster, struct mmul_error *err) {
    bool is_known = plan->product_count > 0;
    enum mmul_status status = MMUL_OK;
    for (int i = 0; i < plan->product_count; i++) {
        struct mmul_program_step *step = &plan->steps[plan->products[i]];
        predict_product(step);
        is_known &= step->schedule->predicted_seconds > 0;
    }
    if (plan->step_count > 1 && is_known)
        status = replay_job(plan, cluster, err);
    mmul_program_plan_sum_costs(plan);
    return status;
}
