// SPDX-License-Identifier: MIT
// Progress of a rank and state of its device: the numbers that go to root with its heartbeat
// messages.
//
// A new figure that is shown during a run needs a word here, which heartbeat.c carries to root.
// Sums and predictions are in forecast.c. struct mmul_progress (include/) passes them to the
// caller, and cli/progress.c draws them. `mpimatmul top` gets its figures from
// exec/status/job_status.c by struct mmul_job_state (include/): io/job_file.c writes it, io/jobs.c
// reads it, cli/top_lines.c shows it.
#pragma once

#include "mpimatmul_local.h"

struct mmul_run;
struct mmul_stage;

// The words of the message. INT64_MIN: not known. done and total count this rank's work in the run,
// in a unit common to all ranks. If the run is one product the unit is elements of C, so that
// stolen lines count on the rank that computes them. Otherwise the unit is predicted nanoseconds.
struct mmul_rank_status {
    int64_t stage; // index of the current stage
    int64_t done, total;
    int64_t flops_per_second, resident_bytes, millicelsius, milliwatts;
};
enum { MMUL_RANK_STATUS_WORDS = sizeof(struct mmul_rank_status) / sizeof(int64_t) };

// State needed to compute these words.
struct mmul_rank_status_tracker {
    const struct mmul_run *run; // borrowed
    double *before; // owned: predicted work of this rank before each stage; 0: not computed yet
    bool has_looked;
    double begin, stage_begin; // clock: begin of the run, begin of the current stage
    int64_t stage;
    double likely_flops; // flop/s estimate for a CPU that was not measured; 0: not known
};

// Allocates the watch. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_rank_status_tracker_init(struct mmul_rank_status_tracker *watch,
                                               const struct mmul_run *run, struct mmul_error *err);
void mmul_rank_status_tracker_fini(struct mmul_rank_status_tracker *watch);

// Returns the current words. Local, main thread. is_over: the run has ended; only the device's
// figures are set.
struct mmul_rank_status mmul_rank_status_read(struct mmul_rank_status_tracker *watch, bool is_over,
                                              double now);

// Weight of a prediction: it counts as much as an observation of this share of the work.
#define MMUL_PREDICTION_SHARE 0.05

// Maps elapsed time over predicted time to a share of finished work. Slows down near the end and
// stays below 1, since work that still runs is not finished.
double mmul_damp_share(double share);

// Returns the predicted seconds of a stage. For a product of unknown speed they follow from
// likely_flops, if that is known.
double mmul_stage_predict_seconds(const struct mmul_rank_status_tracker *watch,
                                  const struct mmul_stage *stage);

// Returns true if the run is one product and nothing else.
bool mmul_run_is_product(const struct mmul_run *run);
