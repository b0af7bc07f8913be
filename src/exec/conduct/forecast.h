// SPDX-License-Identifier: MIT
// Progress and remaining time of a run, for root's user and for other jobs of that user
// (exec/status/job_status.h). Starts from the plan's predictions and corrects them by the time that
// finished work has taken. Counts the work of all ranks, as their heartbeat messages report it.
#pragma once

#include "exec/conduct/heartbeat.h"

// An amount of work, to be done or done already.
struct mmul_forecast_work {
    double seconds; // as predicted
    double bytes, flops;
};

struct mmul_forecast {
    struct mmul_run *run;             // borrowed
    struct mmul_heartbeat *heartbeat; // borrowed: receives the progress of other ranks
    // Callback to the user; NULL: none.
    void (*progress)(void *progress_context, const struct mmul_progress *progress);
    void *progress_context;
    const char *phase;
    bool has_looked;                  // the fields below are set
    const struct mmul_stage *longest; // the longest computing stage; NULL: none
    // Work of all stages; of the computing stages, on all ranks; of the finished moves, as seen by
    // root.
    struct mmul_forecast_work all, computing, moved;
    int stages_over;
    // Clock: begin of the run, begin of the first unfinished stage, time of the last callback.
    double begin, stage_begin, told;
    double shown; // share of the work reported last; never decreases
};

// Initializes the outlook. Root, when its run begins.
void mmul_forecast_init(struct mmul_forecast *outlook, struct mmul_run *run,
                        struct mmul_heartbeat *heartbeat);

// Reports progress if an interval has passed. Root's main thread; stages_over: number of stages
// finished on this node.
void mmul_forecast_report(struct mmul_forecast *outlook, int stages_over);

// Writes the last reports of the ranks to root's job status. Root, when the run is over.
void mmul_forecast_end(struct mmul_forecast *outlook);
