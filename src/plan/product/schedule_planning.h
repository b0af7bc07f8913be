// SPDX-License-Identifier: MIT
//
// Declarations that the files which make a schedule share. No other file includes this header. In
// the order of the story:
//
//     schedule_make.c     ranks and nodes, the axis, then the steps below, tiles
//     schedule_choose.c   the cut and the members
//     schedule_shares.c   the units of each rank for a cut, by replays of the lists
//                         (plan/replay/replay.h)
//     schedule_memory.c   memory that a node needs for a cut, its capacity, its lanes and slots
//     schedule_predict.c  seconds, limits and advice
#pragma once

#include "plan/cost/cost.h"
#include "plan/product/participants.h"
#include "plan/product/schedule_make.h"
#include "plan/replay/replay.h"

// Needs of a node for memory at one time.
struct mmul_node_need {
    int64_t round_units; // most units of its ranks in a round
    int64_t block_units; // most of these units in one pass
    int64_t panels;      // panels of the whole operand
};

// A candidate is one way to do the job, and its score.
struct mmul_candidate {
    struct mmul_cut cut;
    const bool *in;      // size: may have units; borrowed
    double seconds;      // predicted; 0: the candidate does not fit
    int64_t *counts;     // size: units
    int64_t *capacity;   // node_count: most units that the node's memory holds
    int64_t *work_bytes; // node_count: private memory
    bool *clipped;       // node_count: memory limits the node's share
};

// Units of a rank in a replay, and its end.
struct mmul_share_end {
    double units, finish;
};

// Work space of one call. All but `request` is owned; the schedule is owned until it is handed
// over. All but the last lines are set at the beginning.
struct mmul_planning {
    const struct mmul_schedule_request *request;
    struct mmul_schedule *schedule;
    struct mmul_schedule_rank *ranks; // part of the schedule, like nodes
    struct mmul_schedule_node *nodes;
    int root_node;
    // Bytes per unit of the split range: of the split operand, of C_in, of C.
    int64_t piece_bytes, c_in_bytes, result_bytes;
    int64_t whole_bytes;            // bytes of the whole operand
    bool automatic;                 // shares let all ranks finish together
    bool speeds_known;              // speeds of all ranks are measured: seconds are meaningful
    double *weights;                // size: as given, or the speeds
    double *assumed;                // size: operations per second of unmeasured ranks
    bool *everybody;                // size: has a weight
    int *rank_node;                 // size
    struct mmul_cost *cost;         // model of the trial
    struct mmul_node_need *needs;   // node_count: needs of the trial
    unsigned *maps;                 // node_count: maps that stay mapped
    bool *members;                  // size: the ranks that take part
    enum mmul_exclusion *absence;   // size: reason of the absence of the others
    double *units;                  // size: shares of the trial before rounding
    double *slopes;                 // size: seconds by which a rank ends later per unit
    struct mmul_share_end *before;  // size: as of the replay before; 0 units: none
    struct mmul_candidate trial;    // current candidate; the schedule describes it
    struct mmul_candidate best;     // best so far, then the final plan
    struct mmul_candidate previous; // best of the members before
    double all_seconds;             // seconds with all ranks; 0: no rank was left out
    bool only_fits;                 // a candidate that fits is good enough; nothing is replayed
    struct mmul_replay *replay;     // latest replay of the trial
};

// ------------------------------------------------------------------------------- schedule_memory.c

// Sizes root's buffers for scatter and gather; each exists twice.
void mmul_planning_size_chunk(struct mmul_planning *p);

// Returns the bytes of a rank's work space beside the segment.
int64_t mmul_planning_private_bytes(const struct mmul_planning *p, const struct mmul_cut *cut,
                                    int rank);

// Fills work_bytes and capacity for the candidate's cut and members. Returns the sum of the
// capacities.
double mmul_planning_compute_capacity(const struct mmul_planning *p, struct mmul_candidate *c);

// Computes lanes and slots of all nodes for the final plan. Returns false if root's node cannot
// hold the bytes that pass through it.
bool mmul_planning_size_segments(struct mmul_planning *p);

// Under an explicit limit, stops mapping on nodes whose mapped pages would exceed the limit.
// Returns true if there is such a node.
bool mmul_planning_stop_mapping(struct mmul_planning *p);

// Fails with "cannot fit ...", with the numbers.
enum mmul_status mmul_planning_fail_memory(const struct mmul_planning *p, struct mmul_error *err);

// ------------------------------------------------------------------------------- schedule_choose.c

// Chooses the best candidate and its stealable share, and writes both to p and the schedule.
// only_fits: any candidate that fits, for all ranks. Fails if there is none.
enum mmul_status mmul_planning_choose(struct mmul_planning *p, bool only_fits,
                                      struct mmul_error *err);

// ------------------------------------------------------------------------------- schedule_shares.c

// Finds the shares of the trial, whose cut and members are set. It becomes the best candidate if it
// takes less than `share` of the seconds of the best so far.
enum mmul_status mmul_planning_score(struct mmul_planning *p, double share, struct mmul_error *err);

// Computes the trial's counts by `weights` within its capacities.
enum mmul_status mmul_planning_share(struct mmul_planning *p, const double *weights,
                                     struct mmul_error *err);

// Copies a candidate into the memory of another.
void mmul_planning_copy(const struct mmul_planning *p, const struct mmul_candidate *from,
                        struct mmul_candidate *to);

// Writes the trial, with its counts, to the schedule, with lanes and slots, and replays its lists.
// Its seconds become those of the replay; 0: it does not fit.
enum mmul_status mmul_planning_replay(struct mmul_planning *p, struct mmul_error *err);

// ------------------------------------------------------------------------------ schedule_predict.c

// Predicts seconds, limits and advice, after all other fields are final.
enum mmul_status mmul_planning_predict(struct mmul_planning *p, struct mmul_error *err);
