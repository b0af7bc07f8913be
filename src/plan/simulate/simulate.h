// SPDX-License-Identifier: MIT
//
// A plan for machines that need not exist, and its expected gain: seconds of the cost model, not a
// measurement. Pure.
#pragma once

#include "plan/lists/program_plan.h"
#include "plan/product/schedule_make.h"
#include "plan/simulate/cluster_file.h"
#include "plan/simulate/grid.h"

struct mmul_simulation {
    struct mmul_description *description; // owned
    struct mmul_schedule *schedule;       // owned
    struct mmul_plan plan;                // schedule, as the public interface has it
    double best_alone_seconds;            // the fastest rank, alone, on root's node
    int best_alone;                       // rank number
    double ideal_seconds;                 // all devices at their full rate, no other cost
    struct mmul_grids grids[MMUL_GRIDS];
};

// Simulates a described job. Takes ownership of the description, also on failure. Ignores problem,
// cluster and node_maps of `request`. Fails like mmul_schedule_make.
enum mmul_status mmul_simulation_make(struct mmul_description *description,
                                      const struct mmul_schedule_request *request,
                                      struct mmul_simulation **simulation, struct mmul_error *err);
