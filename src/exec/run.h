// SPDX-License-Identifier: MIT
//
// The fourth noun: a run owns every buffer of one job and carries its stages out. On every rank one
// thread computes stage after stage (exec/compute) while the other one keeps the traffic moving
// (exec/mover), which may be ahead by a stage; they wait for counters of each other (exec/progress.h).
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "comm/transport.h"
#include "exec/deadline.h"
#include "exec/grid_check.h"
#include "exec/stage.h"
#include "exec/worker.h"
#include "model/report.h"

// What the check has found, for the pulse: blocks right at once, blocks with most lines wrong; and what
// is being computed by plain loops because of that: lines, and how much that is (0: nothing).
struct mmul_run_findings {
    _Atomic int64_t blocks_right, blocks_garbled, plain_done, plain_lines, plain_flops;
    int64_t check_lines; // compute thread: lines of the block being checked
    bool was_wrong;      // compute thread: it was not right at once
};

struct mmul_run {
    struct mmul_context *context;      // borrowed
    const struct mmul_matmul *args;    // borrowed: how it is to be run
    struct mmul_values *values;        // borrowed; NULL: all is in files
    struct mmul_stage_record *records; // borrowed; NULL: nobody asks
    struct mmul_stage *stages;         // owned
    int stage_count;
    int stage_at_hand; // the compute thread's
    // What stages need while they are carried out, in turn.
    struct mmul_chain_room chain_room;
    struct mmul_verifier_room verifier_room;
    struct mmul_grid_room grid_room;
    struct mmul_shared segment;
    struct mmul_run_progress *progress; // in the segment
    struct mmul_transport transport;
    struct mmul_worker worker;
    struct mmul_deadline deadline; // of the product under way
    struct mmul_failure failure;   // of either thread
    struct mmul_run_findings findings;
    struct mmul_trace *trace; // owned; NULL: nobody asked for one
    double begin;             // when the clock of the report started
    // When this rank had nothing left to compute, when the same held for own steps of all ranks of
    // its node, and when the node's blocks of these had all left; 0: not yet.
    double computed, node_computed, stored;
    struct mmul_stopwatch watch; // of the phases in `mine`; the compute thread's while there is one
    _Atomic bool has_computed;   // the compute thread has ended
    struct mmul_report_rank mine;
};

struct mmul_run_request {
    const struct mmul_matmul *args; // how it is to be run; its files are not looked at
    const struct mmul_stage_request *stages;
    int stage_count;
    struct mmul_values *values;        // NULL: no stage has places
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

// Has a rank anything to multiply? Of what is not a product the answer is this rank's.
bool mmul_run_has_work(const struct mmul_run *run, int rank);

// Collective. Makes the report of a run of one product while the result can still be taken back.
enum mmul_status mmul_run_report(struct mmul_run *run, struct mmul_report **report,
                                 struct mmul_error *err);

// Local. The last numbers, when the output file stands; `committing`: when that began.
void mmul_run_end_report(const struct mmul_run *run, double committing, struct mmul_report *report);

// Local.
void mmul_run_destroy(struct mmul_run *run);
