// SPDX-License-Identifier: MIT
//
// Heartbeat messages during a run. The main thread of every rank sends root a short message every
// half second (less often with more than 250 ranks), even while its device computes. Root sends
// some to rank 1. A rank silent for ten seconds is named in a notice, and again each time the
// silence has doubled. A rank silent for --stall-timeout ends the job (base/stall.h). A slow rank
// is not silent, because its main thread still sends. The messages also carry the rank's progress
// (exec/conduct/rank_status.h) and its work in plain loops. Root's reply can cancel the run on all
// ranks at any point. Requests for lines of other nodes and their grants (exec/tasks/node_steal.h)
// travel the same way; those must not be lost.
#pragma once

#include "exec/conduct/rank_status.h"
#include "exec/conduct/run.h"
#include "exec/tasks/node_steal.h"

struct mmul_heartbeat_peer;

struct mmul_heartbeat {
    struct mmul_run *run; // borrowed
    // owned: on root one per other rank, by rank; elsewhere root alone
    struct mmul_heartbeat_peer *peers;
    int peer_count;
    struct mmul_heartbeat_peer *own; // this rank's own message data; owned with the peers
    struct mmul_node_steal lending;  // used on root only
    // non-root: this rank may request lines or be asked for some; a reply is due
    bool may_steal, is_asked;
    int64_t question[MMUL_NODE_STEAL_WORDS]; // non-root: the question to be answered
    unsigned turn;                           // root: index of the peer to be polled next
    double interval;                         // seconds between messages
    double looked_at;                        // clock of the last look
    double sent_at;                          // clock of the last message
    double late;                             // seconds for which the current task has been late
    double last_notice_at;                   // root: clock of the last notice about plain loops
    bool is_over, has_cancelled, has_ended;
    struct mmul_rank_status_tracker watch;
    struct mmul_rank_status mine; // as of the last message
};

// Allocates the state and prepares work stealing. Fails with MMUL_ERR_SYSTEM; agree over world
// afterwards.
enum mmul_status mmul_heartbeat_init(struct mmul_heartbeat *heartbeat, struct mmul_run *run,
                                     struct mmul_error *err);

// Starts receiving. Call it after mmul_heartbeat_init has succeeded on all ranks, before their work
// differs. Local.
void mmul_heartbeat_begin(struct mmul_heartbeat *heartbeat);

// Receives and sends what is due. Local, never waits. The main thread calls it all the time; most
// calls cost nothing.
void mmul_heartbeat_poll(struct mmul_heartbeat *heartbeat);

// Root: returns the last reported progress of a rank, and root's own as of `now`. False: no message
// came in this run.
bool mmul_heartbeat_rank_status(struct mmul_heartbeat *heartbeat, int rank, double now,
                                struct mmul_rank_status *standing);

// Collective over world. Waits until every rank has come here; the heartbeat goes on meanwhile.
void mmul_heartbeat_end(struct mmul_heartbeat *heartbeat);

void mmul_heartbeat_fini(struct mmul_heartbeat *heartbeat);
