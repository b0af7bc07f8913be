// SPDX-License-Identifier: MIT
//
// Discrete-event simulation of a job. It walks the same stages, tasks and transfers as a run, waits
// for the same counters and slots, and computes the begin and end of every event. Pure.
//
//     computing   a rank's tasks share the seconds of its passes (plan/cost/pass_cost.h) by
//                 their elements
//     root's link transfers in flight share each direction equally: scatter and relay out,
//                 gather in. Scatter and gather serve one node after another at its rate, when all
//                 nodes with bytes have what they wait for. While bytes go both ways, each
//                 direction has the measured fraction of its rate (speed.duplex)
//     relay       a panel moves at the rate of the slowest hop, since few packets are in flight; at
//                 each node it begins and ends a packet and a latency later than at the one before
//     files       root's main thread reads and writes for its own node, at
//                 MMUL_FILE_BYTES_PER_SECOND
//     rounds      of many the first ones; the second half of these also represents the omitted ones
//     CPU         while bytes come and go, their CPU cost slows a leader down (plan/cost/cost.h)
//
// Many ranks are simulated by representatives (plan/replay/rank_classes.h). A rank does one stage
// after the other. On each channel the transfers of a product begin when three conditions hold:
// those of the product before have begun, the product before that is over, and the bytes to send
// exist. Any other stage (another operation, a move) takes its given seconds once the ranks that it
// waits for are ready. Early moves take their seconds on the network, one after the
// other, when all ranks have begun them.
#pragma once

#include "plan/lists/transfers.h"
#include "plan/replay/rank_classes.h"

struct mmul_replay_rank {
    double compute_seconds; // sum over its tasks, including the slowdown by traffic
    // Time when its last block is in the result, without waiting for blocks of other nodes to go
    // with it. 0: it has none.
    double finish;
};

struct mmul_replay {
    double seconds;                           // latest finish
    double root_out_seconds, root_in_seconds; // busy time of root's link
    struct mmul_replay_rank *ranks;           // owned
    double *ends;                             // owned, by stage: all ranks have finished it
};

// A transfer that has ended, between representative nodes, in one of the stages.
struct mmul_replay_event {
    int stage, node;
    const struct mmul_transfer *transfer;
    double begin, end;
};

struct mmul_replay_request {
    const struct mmul_cluster *cluster;
    const struct mmul_stage_plan *stages;
    const struct mmul_product_plan *products; // in the order of their stages
    int count, product_count;
    // Called for every event; NULL: none.
    void (*tell)(void *context, const struct mmul_replay_event *event);
    void *context;
};

// Simulates a job. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_replay_make(const struct mmul_replay_request *request,
                                  struct mmul_replay **replay, struct mmul_error *err);
void mmul_replay_destroy(struct mmul_replay *replay);
