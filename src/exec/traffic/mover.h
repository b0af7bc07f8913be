// SPDX-License-Identifier: MIT
//
// The progress engine of a node's leader: during a run its main thread walks the node's lists of
// transfers (plan/lists/transfers.h), stage after stage, along the channels (comm/channel.h). On
// each channel the next transfer begins when its inputs are there, and raises its counter when it
// ends. Channels depend on each other only through these counters, so they overlap with each other
// and with computation.
//
// A stage may begin when the stage two before it is over on this node. Consecutive stages have
// lanes and slots of their own, so that one is loaded while the other is computed. Early moves
// (plan/program/program_early_moves.c) are in flight until they are due, several at a time.
#pragma once

#include "comm/channel.h"
#include "exec/steps/product.h"
#include "exec/steps/rank_resources.h"
#include "exec/steps/sums.h"
#include "exec/threads/compute_thread.h"
#include "exec/traffic/streams.h"
#include "plan/lists/transfers.h"

// A transfer in flight, for the trace.
struct mmul_mover_span {
    double begin;
    int stage;
    int64_t mark; // a relay's transfer has left when the channel's `left` has this value
    int64_t numbers[2];
    enum mmul_trace_kind kind;
};

// Counters of a stage on this node, and on each channel.
struct mmul_mover_stage {
    int64_t counters[MMUL_COUNTERS];
    int64_t marks[MMUL_ROUTES]; // offset added to the counts of its transfers, per channel
    unsigned is_on;  // bits of the channels on which the stage has transfers on this node
    bool is_carried; // the stage has traffic or sums
};

// One channel, and the lists of all stages that it carries in turn.
struct mmul_mover_route {
    struct mmul_channel channel;
    int stage; // stage of the current list
    struct mmul_transfers list;
    struct mmul_transfer next;
    bool has_next;
    // Stages before this one are counted completely.
    int counted;
    // Scatter, gather: bytes of the current transfer by node, owned.
    int64_t *node_bytes;
    struct mmul_stream streams[MMUL_CHANNEL_PACKETS + 1]; // ring: ends of the transfers in flight
    int64_t streams_begun;
    // Ring: transfers that have begun and not left.
    struct mmul_mover_span spans[MMUL_CHANNEL_PACKETS + 1];
    int64_t spans_begun, spans_ended;
    double busy_until; // clock: when the last transfer left
};

struct mmul_mover {
    struct mmul_rank_resources *rank_resources; // borrowed
    struct mmul_stage *stages;                  // borrowed from the run
    int stage_count;                            // number of stages
    struct mmul_mover_stage *moved;             // owned: counters of each stage; one more for marks
    // Number of stages that are over on this node, early moves that are not due excepted.
    int over;
    int ended;   // number of stages that are over without exception
    int summed;  // number of stages with no sums left
    int carried; // first stage from there on with is_carried
    struct mmul_mover_route routes[MMUL_ROUTES];
    char *staging;                 // owned: buffer for a piece of root's files; NULL: not needed
    struct mmul_sums_traffic sums; // sums of the stage that adds up now
};

// Local. Buffer sizes come from the plan. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_mover_init(struct mmul_mover *mover,
                                 struct mmul_rank_resources *rank_resources,
                                 struct mmul_stage *stages, int stage_count,
                                 struct mmul_error *err);
void mmul_mover_fini(struct mmul_mover *mover);

// Advances all transfers that can advance. The first failure is kept in rank_resources->failure.
// Traffic then continues, void, so that no rank waits forever.
enum mmul_poll_result mmul_mover_poll(struct mmul_mover *mover);
