// SPDX-License-Identifier: MIT
//
// Resources of a rank that all stages of a run use in turn. The run (exec/conduct/run.h) creates
// and destroys them.
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "comm/shared_memory.h"
#include "comm/transport.h"
#include "exec/memory/completed.h"
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

// Findings of the check for the heartbeat: blocks that were right at once, and blocks with mostly
// wrong lines. plain_*: lines that plain loops compute again because of that, and their work (0:
// none).
struct mmul_check_findings {
    _Atomic int64_t blocks_right, blocks_garbled, plain_done, plain_lines, plain_flops;
    // compute thread: lines of the product's block being checked; 0: none
    int64_t check_lines;
    bool was_wrong; // compute thread: the block was not right at once
};

struct mmul_rank_resources {
    struct mmul_context *context;           // borrowed
    const struct mmul_job_options *options; // borrowed: options of the job
    struct mmul_values *values;             // borrowed
    enum mmul_steal_scope steal_scope;      // work that other nodes may steal in any of its stages
    struct mmul_steals *loans; // owned: exec/tasks/steals.h; NULL: no stealing between nodes
    // borrowed, compute thread: last stage so far with stealing
    const struct mmul_stage *last_stolen_stage;
    int *producing_stages; // owned, by place: one past the last stage so far that makes it; 0: none
    // Working memory of the current stages.
    struct mmul_works *works; // owned: exec/tasks/work.h
    struct mmul_epilogue_buffers epilogue_buffers;
    struct mmul_verifier_memory verifier_room;
    struct mmul_grid_check_buffers grid_check_buffers;
    struct mmul_shared segment;
    struct mmul_run_progress *progress; // in the segment
    // Queues of finished regions: one of each rank of the node, one of root's main thread. NULL: no
    // output has a journal.
    struct mmul_completed *completed; // in its own segment
    struct mmul_shared completed_segment;
    struct mmul_transport transport;
    struct mmul_worker worker;
    struct mmul_watchdog watchdog; // watches the current product
    struct mmul_failure failure;   // first failure of either thread
    struct mmul_check_findings findings;
    _Atomic int64_t computed_flops; // operations that this rank has done so far
    struct mmul_trace *trace;       // owned; NULL: no trace was requested
    double begin;                   // clock: begin of the report
    // times the phases in `mine`; used by the compute thread while it runs
    struct mmul_stopwatch watch;
    struct mmul_waits waits; // compute thread: wait statistics
    struct mmul_report_rank mine;
};
