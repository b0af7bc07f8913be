// SPDX-License-Identifier: MIT
//
// Signs of life while a run is under way. Every rank's main thread, which tests and naps whatever its
// device does, sends root a few words each second, and root sends rank 1 some; who has not been heard
// of for ten seconds is named, and again after twice that time, and so on. A rank that is slow is not
// one that does not move: its main thread is there all the same.
// The same words say how far a rank is (exec/conduct/standing.h) and what it computes again by plain loops, and root's
// answer ends a run for all ranks at once, wherever they are in it; and they ask for lines of other nodes
// (exec/tasks/lending.h), and give them: words that must not be lost.
#pragma once

#include "exec/conduct/run.h"
#include "exec/conduct/standing.h"
#include "exec/tasks/lending.h"

struct mmul_heartbeat_peer;

struct mmul_heartbeat {
    struct mmul_run *run; // borrowed
    struct mmul_heartbeat_peer
        *peers; // owned: those this rank hears; of root by rank, else one: root
    int peer_count;
    struct mmul_heartbeat_peer *own;      // what this rank would say; owned with the peers
    struct mmul_lending lending;          // root's
    bool lends, is_asked;                 // another rank: may ask or be asked; an answer is due
    int64_t question[MMUL_LENDING_WORDS]; // the same
    unsigned turn;                        // root: whom it hears next
    double interval;                      // between words
    double looked_at;                     // clock of the last look
    double sent_at;                       // ... of the last words
    double told_at;                       // ... root: of the last line about plain loops
    bool is_over, has_cancelled, has_ended;
    struct mmul_standing_watch watch;
    struct mmul_standing mine; // as of the last words
};

// Fails with MMUL_ERR_SYSTEM; agree over world afterwards.
enum mmul_status mmul_heartbeat_init(struct mmul_heartbeat *heartbeat, struct mmul_run *run,
                                     struct mmul_error *err);

// When all have succeeded, and before the ranks go their ways. Local.
void mmul_heartbeat_begin(struct mmul_heartbeat *heartbeat);

// Local, never waits, costs nothing most of the time: for the main thread, all the time.
void mmul_heartbeat_attend(struct mmul_heartbeat *heartbeat);

// Root: how far a rank is, as it said last; root itself as of now. False: it has said nothing in this run.
bool mmul_heartbeat_standing(struct mmul_heartbeat *heartbeat, int rank, double now,
                             struct mmul_standing *standing);

// Collective over world. Waits, with signs of life, until every rank has come here.
void mmul_heartbeat_end(struct mmul_heartbeat *heartbeat);

void mmul_heartbeat_fini(struct mmul_heartbeat *heartbeat);
