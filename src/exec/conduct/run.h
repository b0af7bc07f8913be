// SPDX-License-Identifier: MIT
//
// The fourth noun: a run owns every buffer of one job and carries its stages out. On every rank one
// thread computes stage after stage while the other one keeps the traffic moving
// (exec/traffic/mover), which may be ahead by a stage, and behind with early moves; they wait for counters of each
// other (exec/memory/progress.h).
#pragma once

#include <stdatomic.h>

#include "exec/steps/site.h"
#include "exec/steps/stage.h"

struct mmul_run {
    struct mmul_site site;
    const struct mmul_job_calls *calls; // borrowed
    struct mmul_report_part *parts; // owned: what this rank did of each stage; NULL: nobody asks
    struct mmul_stage *stages;      // owned
    bool leaves_segment;            // to the next run that wants as large a one
    int stage_count;
    int stage_at_hand,
        stages_over;           // the compute thread's: the second, how many it has seen to be over
    struct mmul_stage *helped; // the same: in which it does others' part meanwhile; NULL: in none
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
};

// Collective. Allocates everything the plans ask for and warms the device up; on failure nothing
// is left. Outputs are not touched.
enum mmul_status mmul_run_create(struct mmul_context *context,
                                 const struct mmul_run_request *request, struct mmul_run **run,
                                 struct mmul_error *err);

// Collective. Moves, computes and checks until all results are where they belong (outputs are not
// committed).
enum mmul_status mmul_run_stages(struct mmul_run *run, struct mmul_error *err);

// Local; an agreement must follow. The report of a program that has not been run: what its plan says, and who its ranks
// are. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_report_create(const struct mmul_context *context,
                                    const struct mmul_program_plan *plan,
                                    struct mmul_report **report, struct mmul_error *err);

// Collective. What happened in the run goes into that, while results can still be taken back.
enum mmul_status mmul_run_report(struct mmul_run *run, struct mmul_report *report,
                                 struct mmul_error *err);

// Local. The last numbers, when outputs stand; `begin`: of the run; `committing`: when that began.
void mmul_report_end(struct mmul_report *report, double begin, double committing);

// Compute thread. What this rank does of a stage, from the one call to the other. Then `part` is that of the
// next one, which begins.
struct mmul_report_part mmul_run_begin_part(struct mmul_run *run);
void mmul_run_end_part(struct mmul_run *run, int stage, struct mmul_report_part *part);

// Collective. A recorder for this rank, when the job asks for one: of a size that depends on the number of ranks alone.
enum mmul_status mmul_run_create_trace(struct mmul_site *site, struct mmul_error *err);

// Local.
void mmul_run_destroy(struct mmul_run *run);
