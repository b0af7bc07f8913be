// SPDX-License-Identifier: MIT
//
// Where a rank works: what all stages of a run use in turn. The run as a whole (exec/conduct/run.h) makes it and ends
// it.
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "comm/shared_window.h"
#include "comm/transport.h"
#include "exec/memory/progress.h"
#include "exec/memory/values.h"
#include "exec/setup/context.h"
#include "exec/steps/epilogue.h"
#include "exec/steps/grid_check.h"
#include "exec/steps/stage.h"
#include "exec/worker/verify.h"
#include "exec/worker/watchdog.h"
#include "exec/worker/worker.h"
#include "model/report.h"
#include "model/trace.h"

// What the check has found, for the heartbeat: blocks right at once, blocks with most lines wrong; and what
// is being computed by plain loops because of that: lines, and how much that is (0: nothing).
struct mmul_run_findings {
    _Atomic int64_t blocks_right, blocks_garbled, plain_done, plain_lines, plain_flops;
    int64_t check_lines; // compute thread: lines of the block being checked
    bool was_wrong;      // compute thread: it was not right at once
};

struct mmul_site {
    struct mmul_context *context;           // borrowed
    const struct mmul_job_options *options; // borrowed: how it is to be run
    struct mmul_values *values;             // borrowed
    enum mmul_lends lends;                  // any of its stages
    struct mmul_loans *loans;               // owned: exec/tasks/loans.h; NULL: nothing is lent
    const struct mmul_stage *lent_last;     // borrowed, compute thread: the stage before that lends
    int *makers; // owned: of places, one behind the last stage so far that makes them; 0: none does
    // What stages need while they are carried out, in turn.
    struct mmul_works *works; // owned: exec/tasks/work.h
    struct mmul_epilogue_room epilogue_room;
    struct mmul_verifier_room verifier_room;
    struct mmul_grid_room grid_room;
    struct mmul_shared segment;
    struct mmul_run_progress *progress; // in the segment
    struct mmul_transport transport;
    struct mmul_worker worker;
    struct mmul_watchdog watchdog; // of the product under way
    struct mmul_failure failure;   // of either thread
    struct mmul_run_findings findings;
    _Atomic int64_t computed_flops; // by this rank, so far
    struct mmul_trace *trace;       // owned; NULL: nobody asked for one
    double begin;                   // when the clock of the report started
    struct mmul_stopwatch watch; // of the phases in `mine`; the compute thread's while there is one
    struct mmul_waits waits;     // the compute thread's: how it waited
    struct mmul_report_rank mine;
};
