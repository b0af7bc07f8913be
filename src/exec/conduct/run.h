// SPDX-License-Identifier: MIT
//
// A run owns every buffer of one job and carries out its stages. On every rank one thread computes
// stage after stage. The main thread keeps the traffic moving (exec/traffic/mover). Traffic may be
// one stage ahead, and early moves may still be under way behind. The threads wait for each other's
// counters (exec/memory/progress.h).
//
// A program is one run. Each of its steps is a stage of one kind (exec/steps/stage.h):
//   - A product that is split by rows or columns has a schedule. It reads and writes files itself
//     if no other step needs them (plan/program/program_absorb_moves.c).
//   - Any other operation computes the rank's blocks from values in memory.
//   - A move is copied within a node by its ranks, and carried between nodes by the leaders.
//
// A rank waits for other ranks only if a stage reads their work. Its own part of a split value is
// ready as soon as it has made it; a value that is whole on the node, when all ranks of the node
// have made their parts. Instead of waiting, a rank computes lines of earlier products that no rank
// has begun, if they may be stolen.
//
// On each channel the transfers of a product begin when all of the product before it have begun,
// and the product before that is over: its lanes and slots are then free. So panels of the next
// product travel while this one is multiplied.
//
// The ranks copy their part of an early move and go on, the leaders carry it beside the
// computation, and its first reader waits for it. Several may be in flight, in one order on all
// nodes. Their operands keep their memory until then. If that does not fit, the plan is made again
// with moves that begin when they are read (exec/job/program_plan.c).
//
// A failure makes all later traffic void, to the end of the run, where all ranks agree on it.
#pragma once

#include <stdatomic.h>

#include "exec/steps/rank_resources.h"
#include "exec/steps/stage.h"

struct mmul_run {
    struct mmul_rank_resources rank_resources;
    const struct mmul_job_calls *calls; // borrowed
    struct mmul_report_part *parts; // owned: what this rank did in each stage; NULL: not recorded
    struct mmul_stage *stages;      // owned
    bool caches_segment;            // keep the segment for a later run that needs the same size
    int stage_count;
    // Compute thread: the current stage, and the number of stages it knows to be over on this node.
    int current_stage, stages_over;
    // Compute thread: the earlier stage in which it is helping other ranks; NULL: none.
    struct mmul_stage *helped_stage;
    // Clock times; 0: not yet. This rank had nothing left to compute; all ranks of its node had
    // finished their own stages; the node's result blocks had all left.
    double computed, node_computed, stored;
    _Atomic bool compute_thread_has_ended; // the compute thread has ended
};

struct mmul_run_request {
    const struct mmul_job_options *options;
    const struct mmul_job_calls *calls;
    const struct mmul_stage_request *stages;
    int stage_count;
    struct mmul_values *values;
};

// Creates a run: allocates everything the plans ask for and warms up the device. Collective. On
// failure nothing is left. Does not touch outputs.
enum mmul_status mmul_run_create(struct mmul_context *context,
                                 const struct mmul_run_request *request, struct mmul_run **run,
                                 struct mmul_error *err);

// Moves, computes and checks until all results are in place. Collective. Does not commit outputs.
enum mmul_status mmul_run_execute(struct mmul_run *run, struct mmul_error *err);

// Creates the report of a program that has not been run: the plan's figures and a description of
// every rank. Local; an agreement must follow. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_report_create(const struct mmul_context *context,
                                    const struct mmul_program_plan *plan,
                                    struct mmul_report **report, struct mmul_error *err);

// Adds the measurements of the run to `report`. Collective. Call it while results can still be
// rolled back.
enum mmul_status mmul_run_fill_report(struct mmul_run *run, struct mmul_report *report,
                                      struct mmul_error *err);

// Fills in the last times, once the outputs are committed. Local. begin: clock at the begin of the
// run; committing: clock at the begin of the commit.
void mmul_report_finish(struct mmul_report *report, double begin, double committing);

// Measure what this rank does in one stage. Compute thread. mmul_run_begin_record opens the first
// record. mmul_run_end_record stores the record of `stage` and opens the next one in `part`.
struct mmul_report_part mmul_run_begin_record(struct mmul_run *run);
void mmul_run_end_record(struct mmul_run *run, int stage, struct mmul_report_part *part);

// Creates this rank's trace recorder if the job asks for one. Its capacity depends on the number of
// ranks alone. Collective.
enum mmul_status mmul_run_create_trace(struct mmul_rank_resources *rank_resources,
                                       struct mmul_error *err);

// Releases the run. Local.
void mmul_run_destroy(struct mmul_run *run);
