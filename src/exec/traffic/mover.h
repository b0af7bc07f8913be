// SPDX-License-Identifier: MIT
//
// What the main thread of a node's leader does during a run: it walks the node's lists of transfers
// (plan/lists/transfers.h), stage after stage, along the channels (comm/channel.h). On each channel the next transfer
// begins when what it waits for is there, and raises its counter when it ends. No channel waits for
// another but through these counters, so they overlap each other and the computing.
//
// A stage may begin when the one before the last is over on this node: stages that follow each other have
// lanes and slots of their own, so that one is brought while the other one is computed. Early moves
// (plan/program/program_early.c) are under way until they are due, several at a time.
#pragma once

#include "comm/channel.h"
#include "exec/setup/pipeline.h"
#include "exec/steps/product.h"
#include "exec/steps/site.h"
#include "exec/steps/sums.h"
#include "exec/traffic/streams.h"
#include "plan/lists/transfers.h"

// Of a transfer that has begun, for the trace.
struct mmul_mover_span {
    double begin;
    int stage;
    int64_t mark; // of a relay: it has left when its channel's `left` is that far
    int64_t numbers[2];
    enum mmul_trace_kind kind;
};

// What a stage counts on this node, and on each channel.
struct mmul_mover_stage {
    int64_t counters[MMUL_COUNTERS];
    int64_t marks[MMUL_ROUTES]; // of its transfers: these are added to what they bring
    bool is_on[MMUL_ROUTES];    // it has transfers there
    bool is_carried;            // something of it moves, or is added up
};

// One channel, and the lists that go over it, one stage's after the other's.
struct mmul_mover_route {
    struct mmul_channel channel;
    int stage; // whose list it is
    struct mmul_transfers list;
    struct mmul_transfer next;
    bool has_next;
    int counted;         // stages before that one have been counted to their ends
    int64_t *node_bytes; // scatter, gather: of the transfer under way, owned
    struct mmul_stream
        streams[MMUL_CHANNEL_PACKETS + 1]; // of transfers under way, a ring: where they end
    int64_t streams_begun;
    struct mmul_mover_span spans[MMUL_CHANNEL_PACKETS + 1]; // begun and not yet left, a ring
    int64_t spans_begun, spans_ended;
    double busy_until; // when the last of them left
};

struct mmul_mover {
    struct mmul_site *site;         // borrowed
    struct mmul_stage *stages;      // borrowed: those of the run
    int stage_count;                // of these
    struct mmul_mover_stage *moved; // owned: what moves of each
    int over;    // so many stages are, on this node, but for early moves that are not due
    int ended;   // so many are, without exception
    int summed;  // so many have nothing left to be added up
    int carried; // the first of the others that is_carried
    struct mmul_mover_route routes[MMUL_ROUTES];
    char *staging; // owned: of a piece of root's files that is copied; NULL: there is none
    struct mmul_sums_traffic sums; // of the stage whose ranks add up
};

// Local. Sizes are the plan's. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_mover_init(struct mmul_mover *mover, struct mmul_site *site,
                                 struct mmul_stage *stages, int stage_count,
                                 struct mmul_error *err);
void mmul_mover_fini(struct mmul_mover *mover);

// Moves what can be moved now. The first failure is kept in site->failure; traffic goes on, void, until
// everybody has what they wait for.
enum mmul_attention mmul_mover_attend(struct mmul_mover *mover);
