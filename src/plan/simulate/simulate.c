// SPDX-License-Identifier: MIT
// Simulates a described job: its schedule, the seconds of the best single device, and other
// algorithms by their formulas.
#include "plan/simulate/simulate.h"

#include <math.h>

#include "base/memory.h"
#include "plan/cost/cost.h"
#include "plan/lists/schedule.h"

void mmul_simulation_destroy(struct mmul_simulation *simulation) {
    if (simulation == NULL)
        return;
    mmul_description_destroy(simulation->description);
    mmul_schedule_free(simulation->schedule);
    mmul_free(simulation);
}

// Returns the seconds of one pass of everything, on root's node, with mapped files.
static double seconds_alone(const struct mmul_simulation *s, int rank) {
    const struct mmul_problem *problem = &s->description->problem;
    const struct mmul_cut cut = mmul_panels_single(problem, MMUL_ROWS);
    const struct mmul_pass_request request = {.problem = problem,
                                              .axis = MMUL_ROWS,
                                              .cut = &cut,
                                              .rank = &s->description->cluster->ranks[rank],
                                              .maps = MMUL_MAPS_A | MMUL_MAPS_B | MMUL_MAPS_C};
    struct mmul_pass_cost cost = mmul_pass_cost(&request);
    return mmul_pass_seconds(&cost, (double)mmul_problem_total(problem, MMUL_ROWS));
}

static void find_best_alone(struct mmul_simulation *s) {
    const struct mmul_cluster *cluster = s->description->cluster;
    const enum mmul_dtype dtype = mmul_problem_result_dtype(&s->description->problem);
    double flops = 0;
    s->best_alone_seconds = INFINITY;
    for (int rank = 0; rank < cluster->size; rank++) {
        double seconds = seconds_alone(s, rank);
        flops += mmul_product_rate(&cluster->ranks[rank], dtype, 0, 1e9, 1e9, 1e9);
        if (seconds < s->best_alone_seconds) {
            s->best_alone_seconds = seconds;
            s->best_alone = rank;
        }
    }
    s->ideal_seconds = mmul_problem_flops(&s->description->problem) / flops;
}

enum mmul_status mmul_simulation_make(struct mmul_description *description,
                                      const struct mmul_schedule_request *request,
                                      struct mmul_simulation **simulation, struct mmul_error *err) {
    struct mmul_simulation *made = NULL;
    struct mmul_schedule_request full = *request;
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "a simulation", err);
    if (status != MMUL_OK) {
        mmul_description_destroy(description);
        return status;
    }
    made->description = description;
    full.problem = &description->problem;
    full.cluster = description->cluster;
    full.node_maps = description->node_maps;
    status = mmul_schedule_make(&full, &made->schedule, err);
    if (status == MMUL_OK)
        status = mmul_grids(&description->problem, description->cluster, made->grids, err);
    if (status != MMUL_OK) {
        mmul_simulation_destroy(made);
        return status;
    }
    made->plan.schedule = made->schedule;
    find_best_alone(made);
    *simulation = made;
    return MMUL_OK;
}

const struct mmul_plan *mmul_simulation_plan(const struct mmul_simulation *simulation) {
    return &simulation->plan;
}
