// SPDX-License-Identifier: MIT
//
// Discrete-event simulation of a job: walks the stages, and the lists of tasks and transfers, that a run walks,
// waiting for the same counters and slots, and says when everything begins and ends. Pure.
//
//     computing   a rank's tasks share the seconds of its passes (plan/cost/pass_cost.h) by their elements
//     root's link each direction is shared alike by what is under way in it: scatter and relay out,
//                 gather in; scatter and gather take each node's bytes one after another at its rate,
//                 when all who give or get have what they wait for; while bytes go both ways each
//                 direction has the part of its rate that was measured so (speed.duplex)
//     relay       a panel moves at the rate of the slowest hop, since few packets may be on their way; at
//                 each node it begins and ends later than at the one before by a packet and a latency
//     files       root's main thread reads and writes for its own node, at MMUL_FILE_BYTES_PER_SECOND
//     rounds      of many the first ones; the second half of these stands for those that are left out
//     CPU         while bytes come and go a leader computes slower by what they cost it (plan/cost/cost.h)
//
// Many ranks are simulated by those that stand for them (plan/replay/rank_classes.h). A rank does one stage after the
// other. On each channel the transfers of a product begin when those of the one before have begun, the product before
// that is over, and what they carry has been made. Stages without a schedule (other operations, moves) take the
// seconds that they are said to take, once those are through whom they wait for; early moves take them on the network,
// one after the other, when all ranks have begun them.
#pragma once

#include "plan/lists/transfers.h"
#include "plan/replay/rank_classes.h"

struct mmul_replay_rank {
    double compute_seconds; // of all its tasks, with what traffic takes from them
    double finish; // its last block is in the result, had it not to wait for those of other nodes
                   // to go with it; 0: it has nothing
};

struct mmul_replay {
    double seconds;                           // the last finish
    double root_out_seconds, root_in_seconds; // its link is busy for so long
    struct mmul_replay_rank *ranks;           // owned
    double *ends;                             // owned, of the stages: all ranks are through with it
};

// What has happened: a transfer, between nodes that stand for others, of one of the stages.
struct mmul_replay_event {
    int stage, node;
    const struct mmul_transfer *transfer;
    double begin, end;
};

struct mmul_replay_request {
    const struct mmul_cluster *cluster;
    const struct mmul_stage_plan *stages;
    int count;
    void (*tell)(void *context, const struct mmul_replay_event *event); // NULL: nobody listens
    void *context;
};

// Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_replay_make(const struct mmul_replay_request *request,
                                  struct mmul_replay **replay, struct mmul_error *err);
void mmul_replay_destroy(struct mmul_replay *replay);
