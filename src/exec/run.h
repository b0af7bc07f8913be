// SPDX-License-Identifier: MIT
//
// The fourth noun: a run owns every buffer of one job and carries the plan out. On every rank one
// thread computes task after task (exec/compute) while the other one keeps the traffic moving
// (exec/mover); they wait for counters of each other (exec/progress.h).
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "comm/shared_window.h"
#include "comm/transport.h"
#include "exec/deadline.h"
#include "exec/layout.h"
#include "exec/progress.h"
#include "exec/streams.h"
#include "exec/verify.h"
#include "exec/views.h"
#include "exec/work.h"
#include "exec/worker.h"
#include "model/report.h"
#include "plan/plan.h"

// Matrices that the ranks of this node use where they lie: their first stored element; NULL: not
// so here.
struct mmul_mapped {
    const char *split, *whole, *c_in;
    char *c;
};

struct mmul_run {
    struct mmul_context *context; // borrowed
    const struct mmul_plan *plan; // borrowed
    const struct mmul_plan_rank *me;
    const struct mmul_matmul *args; // borrowed
    struct mmul_layout layout;
    struct mmul_shared segment;
    struct mmul_views views;
    struct mmul_mapped mapped;          // the same, by role
    struct mmul_run_progress *progress; // in the segment
    struct mmul_transport transport;
    struct mmul_files files;  // root's
    int64_t mapped_bytes;     // root: of C in its mapped file, counted so far
    struct mmul_trace *trace; // owned; NULL: nobody asked for one
    struct mmul_worker worker;
    struct mmul_verifier verifier;
    struct mmul_works works; // the compute thread's
    int64_t lines_most;      // of a task, at most: what the verifier has room for
    int64_t pieces_round;    // whose pieces are being multiplied
    double begin;            // when the clock of the report started
    // When this rank had nothing left to compute, when the same held for own steps of all ranks of
    // its node, and when the node's blocks of these had all left; 0: not yet.
    double computed, node_computed, stored;
    struct mmul_stopwatch watch; // of the phases in `mine`; the compute thread's while there is one
    _Atomic bool has_computed;   // the compute thread has ended
    int64_t check_lines;         // compute thread: lines of the block being checked
    bool was_wrong;              // compute thread: it was not right at once
    // What the check has found: blocks right at once, blocks with most lines wrong; and what is being
    // computed by plain loops because of that: lines, and how much that is (0: nothing).
    _Atomic int64_t blocks_right, blocks_garbled, plain_done, plain_lines, plain_flops;
    struct mmul_deadline deadline; // of the product under way
    struct mmul_report_rank mine;
    struct mmul_failure failure; // of either thread
};

// Collective. Allocates everything the plan asks for and warms the device up; on failure nothing
// is left. The output of args is not touched.
enum mmul_status mmul_run_create(struct mmul_context *context, const struct mmul_matmul *args,
                                 const struct mmul_plan *plan, struct mmul_run **run,
                                 struct mmul_error *err);

// Collective. Moves, multiplies and checks until the whole result is in the output (not committed).
enum mmul_status mmul_run_steps(struct mmul_run *run, struct mmul_error *err);

// Collective. Makes the report while the result can still be taken back.
enum mmul_status mmul_run_report(struct mmul_run *run, struct mmul_report **report,
                                 struct mmul_error *err);

// Local. The last numbers, when the output file stands; `committing`: when that began.
void mmul_run_end_report(const struct mmul_run *run, double committing, struct mmul_report *report);

// Local.
void mmul_run_destroy(struct mmul_run *run);
