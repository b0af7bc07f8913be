// SPDX-License-Identifier: MIT
//
// A plan for machines that need not exist, and what it would gain: the cost model's seconds, not a
// measurement. Pure.
#pragma once

#include "plan/lists/program_plan.h"
#include "plan/product/schedule_make.h"
#include "plan/simulate/cluster_file.h"
#include "plan/simulate/grid.h"

struct mmul_simulation {
    struct mmul_description *description; // owned
    struct mmul_schedule *schedule;       // owned
    struct mmul_plan plan;                // of it, as the public interface has it
    double best_alone_seconds;            // the fastest rank, alone, on root's node
    int best_alone;                       // which
    double ideal_seconds;                 // all devices at their full rate, nothing else
    struct mmul_grids grids[MMUL_GRIDS];
};

// Takes the description over, also on failure. Of `request` everything but problem, cluster and
// node_maps counts. Fails as mmul_schedule_make does.
enum mmul_status mmul_simulation_make(struct mmul_description *description,
                                      const struct mmul_schedule_request *request,
                                      struct mmul_simulation **simulation, struct mmul_error *err);
