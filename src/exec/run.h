// SPDX-License-Identifier: MIT
// The fourth noun: a run owns every buffer of one job and carries the plan out.
#pragma once

#include "comm/panels.h"
#include "comm/shared_window.h"
#include "exec/streams.h"
#include "exec/verify.h"
#include "exec/worker.h"
#include "model/report.h"
#include "plan/plan.h"

// Where a rank finds things in the node's segment: byte offsets.
struct mmul_run_layout {
    int64_t whole, pieces, c_in, result;  // where each kind begins
    int64_t piece_at, c_in_at, result_at; // this rank's parts
    int64_t bytes;
};

struct mmul_run {
    struct mmul_context *context; // borrowed
    const struct mmul_plan *plan; // borrowed
    const struct mmul_plan_rank *me;
    const struct mmul_matmul *args; // borrowed
    struct mmul_run_layout layout;
    struct mmul_shared segment;
    struct mmul_team team;
    struct mmul_streams streams; // root's end
    struct mmul_worker worker;
    struct mmul_verifier verifier;
    void *round;             // owned: root's buffer of a round
    int64_t *sizes;          // owned: bytes of the present stream per node
    double begin;            // when the run began
    int replacements_before; // of the context's device
    struct mmul_report_rank mine;
};

// Collective. Allocates everything the plan asks for and warms the device up; on failure nothing
// is left. The output of args is not touched.
enum mmul_status mmul_run_create(struct mmul_context *context, const struct mmul_matmul *args,
                                 const struct mmul_plan *plan, struct mmul_run **run,
                                 struct mmul_error *err);

// Collective. Scatters, multiplies, checks, gathers into the output (not committed).
enum mmul_status mmul_run_steps(struct mmul_run *run, struct mmul_error *err);

// Collective. Makes the report while the result can still be taken back.
enum mmul_status mmul_run_report(struct mmul_run *run, struct mmul_report **report,
                                 struct mmul_error *err);

// Local. The last numbers, when the output file stands; `commit_seconds`: what that took.
void mmul_run_end_report(const struct mmul_run *run, double commit_seconds,
                         struct mmul_report *report);

// Local.
void mmul_run_destroy(struct mmul_run *run);
