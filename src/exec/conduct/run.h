// SPDX-License-Identifier: MIT
//
// The fourth noun: a run owns every buffer of one job and carries its stages out. On every rank one
// thread computes stage after stage (exec/conduct/compute) while the other one keeps the traffic moving
// (exec/traffic/mover), which may be ahead by a stage; they wait for counters of each other (exec/memory/progress.h).
#pragma once

#include <stdatomic.h>

#include "exec/steps/site.h"
#include "exec/steps/stage.h"

struct mmul_run {
    struct mmul_site site;
    const struct mmul_job_calls *calls; // borrowed
    struct mmul_stage_record *records;  // borrowed; NULL: nobody asks
    struct mmul_stage *stages;          // owned
    int stage_count;
    int stage_at_hand,
        stages_over; // the compute thread's: the second, how many it has seen to be over
    // When this rank had nothing left to compute, when the same held for own steps of all ranks of
    // its node, and when the node's blocks of these had all left; 0: not yet.
    double computed, node_computed, stored;
    _Atomic bool has_computed; // the compute thread has ended
};

struct mmul_run_request {
    const struct mmul_job_options *options;
    const struct mmul_job_calls *calls;
    const struct mmul_stage_request *stages;
    int stage_count;
    struct mmul_values *values;
    struct mmul_stage_record *records; // filled in: of every stage; NULL: nobody asks
};

// Collective. Allocates everything the plans ask for and warms the device up; on failure nothing
// is left. Outputs are not touched.
enum mmul_status mmul_run_create(struct mmul_context *context,
                                 const struct mmul_run_request *request, struct mmul_run **run,
                                 struct mmul_error *err);

// Collective. Moves, computes and checks until all results are where they belong (outputs are not
// committed).
enum mmul_status mmul_run_stages(struct mmul_run *run, struct mmul_error *err);

// Collective. Makes the report of a run of one product, with what was recorded of it, while the result can still be
// taken back.
enum mmul_status mmul_run_report(struct mmul_run *run, struct mmul_report **report,
                                 struct mmul_error *err);

// Local. The last numbers, when the output file stands; `begin`: of the run; `committing`: when that began.
void mmul_run_end_report(double begin, double committing, struct mmul_report *report);

// Local.
void mmul_run_destroy(struct mmul_run *run);
