// SPDX-License-Identifier: MIT
//
// What the files that make a schedule share; nobody else includes this. In the order of the story:
//
//     schedule_make.c     who is there, which axis, then the steps below, tiles
//     schedule_choose.c   how the work is cut, who takes part, how many units each gets: by sums in closed
//                         form, then the lists of the finalists are walked (plan/replay/replay.h)
//     schedule_memory.c   what a node needs for a cut, what it can hold, its lanes and slots
//     schedule_predict.c  seconds, limits and advice
#pragma once

#include "plan/cost/cost.h"
#include "plan/product/members.h"
#include "plan/product/schedule_make.h"
#include "plan/replay/replay.h"

// What a node needs room for at once.
struct mmul_node_need {
    int64_t round_units; // its ranks' units of a round, at most
    int64_t block_units; // of them in a pass, at most
    int64_t panels;      // of the whole operand
};

// One way to do the job, and what comes of it: nothing in it changes once it is scored.
struct mmul_candidate {
    struct mmul_cut cut;
    const bool *in;      // size: may have units; borrowed
    double seconds;      // predicted; 0: it does not fit
    double *units;       // size: shares as fractions
    int64_t *counts;     // size: whole shares, where weights are given, and of what is planned
    int64_t *capacity;   // node_count: most units that its memory holds
    int64_t *work_bytes; // node_count: private memory
    bool *clipped;       // node_count: its share is what its memory holds
};

// A cut that is worth walking its lists, by its seconds in closed form.
enum { MMUL_FINALISTS = 3 };
struct mmul_finalist {
    struct mmul_cut cut;
    double seconds;
};

// Work space of one call; everything but `request` is owned, the schedule until it is handed over. Set
// up at the beginning, but for the last lines.
struct mmul_planning {
    const struct mmul_schedule_request *request;
    struct mmul_schedule *schedule;
    struct mmul_schedule_rank *ranks; // of the schedule
    struct mmul_schedule_node *nodes;
    int root_node;
    bool automatic;               // shares such that all finish together
    bool speeds_known;            // of at least one rank: seconds mean something
    double *weights;              // size: as given, or the speeds
    double *assumed;              // size: operations per second where speeds are not measured
    bool *everybody;              // size: has a weight
    int *rank_node;               // size
    struct mmul_cost *cost;       // of whatever was scored last
    struct mmul_node_need *needs; // node_count: of what is planned
    unsigned *maps;               // node_count: what is mapped and stays so
    bool *members;                // size: whom the others are faster with
    enum mmul_absence *absence;   // size: why the others are not among them
    struct mmul_candidate trial;  // the one at hand
    struct mmul_candidate best;   // so far, then what is planned
    struct mmul_candidate walked; // the best of those whose lists were walked
    struct mmul_finalist finalists[MMUL_FINALISTS]; // the best first; 0 seconds: not there
    struct mmul_cut all_cut;                        // the best for everybody
    double all_seconds;                             // with everybody; 0: nobody was left out
    struct mmul_replay *replay;                     // of the lists that were walked last
};

// Bytes per unit of the split range: of the split operand, of C (float32; C_in is as large).
int64_t mmul_planning_piece_bytes(const struct mmul_planning *p);
int64_t mmul_planning_result_bytes(const struct mmul_planning *p);
int64_t mmul_planning_whole_bytes(const struct mmul_problem *problem, enum mmul_axis axis);

// --------------------------------------------------------------------------------- schedule_memory.c

// Root's buffers for scatter and gather, each twice.
void mmul_planning_size_chunk(struct mmul_planning *p);

// What a rank may use of its device.
int64_t mmul_planning_device_bytes(const struct mmul_planning *p, int rank);

// Work space of one rank beside the segment.
int64_t mmul_planning_private_bytes(const struct mmul_planning *p, const struct mmul_cut *cut,
                                    int rank);

// Fills work_bytes and capacity for the cut and those who are in; returns the sum of the capacities.
double mmul_planning_measure(const struct mmul_planning *p, struct mmul_candidate *c);

// Lanes and slots of all nodes for what is planned. False when root's node cannot hold
// what passes through it.
bool mmul_planning_fit(struct mmul_planning *p);

// Under an explicit limit a node that would touch more than that by mapping stops mapping: true
// when there is one.
bool mmul_planning_stop_mapping(struct mmul_planning *p);

// "cannot fit ...", with the numbers.
enum mmul_status mmul_planning_fail_memory(const struct mmul_planning *p, struct mmul_error *err);

// --------------------------------------------------------------------------------- schedule_choose.c

// The best candidate, and what may be claimed of it, into p and the schedule.
enum mmul_status mmul_planning_choose(struct mmul_planning *p, struct mmul_error *err);

// Is there a cut at all, for everybody? The lists of none are walked. Fails as the schedule does.
enum mmul_status mmul_planning_try(struct mmul_planning *p, struct mmul_error *err);

// Counts by `weights` within its capacities.
enum mmul_status mmul_planning_share(const struct mmul_planning *p, const double *weights,
                                     struct mmul_candidate *c, struct mmul_error *err);

// All of a candidate into the memory of another.
void mmul_planning_copy(const struct mmul_planning *p, const struct mmul_candidate *from,
                        struct mmul_candidate *to);

// Writes what is planned (`best`, with whole shares) into the schedule, with lanes and slots, and walks its
// lists: its seconds become those of the replay; 0: it does not fit.
enum mmul_status mmul_planning_walk(struct mmul_planning *p, struct mmul_error *err);

// -------------------------------------------------------------------------------- schedule_predict.c

// Seconds, limits and advice, when all the rest stands.
enum mmul_status mmul_planning_predict(struct mmul_planning *p, struct mmul_error *err);
