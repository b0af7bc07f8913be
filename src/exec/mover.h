// SPDX-License-Identifier: MIT
//
// What the main thread of a node's leader does during a run: it walks the node's lists of transfers
// (plan/transfers.h), stage after stage, along the lines (comm/line.h). On each line the next transfer
// begins when what it waits for is there, and raises its counter when it ends. No line waits for
// another but through these counters, so they overlap each other and the computing.
//
// A stage is open when the one before the last is over on this node: stages that follow each other have
// lanes and slots of their own, so that one is brought while the other one is computed.
#pragma once

#include "comm/line.h"
#include "exec/move.h"
#include "exec/pipeline.h"
#include "exec/run.h"
#include "exec/sums.h"
#include "plan/transfers.h"

// Of a transfer that has begun, for the trace.
struct mmul_mover_span {
    double begin;
    int stage;
    int64_t mark; // of a relay: it has left when its line's `left` is that far
    int64_t numbers[2];
    enum mmul_content content;
};

// What a stage counts on this node, and on each line.
struct mmul_mover_stage {
    int64_t counters[MMUL_COUNTERS];
    int64_t marks[MMUL_ROUTES]; // of its transfers: these are added to what they bring
    bool is_on[MMUL_ROUTES];    // it has transfers there
};

// One line, and the lists that go over it, one stage's after the other's.
struct mmul_mover_route {
    struct mmul_line line;
    int stage; // whose list it is
    struct mmul_transfers list;
    struct mmul_transfer next;
    bool has_next;
    int counted;               // stages before that one have been counted to their ends
    int64_t *node_bytes;       // scatter, gather: of the transfer under way, owned
    struct mmul_stream stream; // of the transfer under way: the files' end
    struct mmul_mover_span spans[MMUL_LINE_PACKETS + 1]; // begun and not yet left, a ring
    int64_t spans_begun, spans_ended;
    double busy_until; // when the last of them left
};

struct mmul_mover {
    struct mmul_run *run;            // borrowed
    struct mmul_mover_stage *stages; // owned
    int over;                        // so many stages are, on this node
    struct mmul_mover_route routes[MMUL_ROUTES];
    struct mmul_move_traffic move; // of the stage that is being moved
    struct mmul_sums_traffic sums; // of the stage whose ranks add up
};

// Local. Sizes are the plan's. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_mover_init(struct mmul_mover *mover, struct mmul_run *run,
                                 struct mmul_error *err);
void mmul_mover_fini(struct mmul_mover *mover);

// Moves what can be moved now. The first failure is kept in run->failure; traffic goes on, void, until
// everybody has what they wait for.
enum mmul_attention mmul_mover_attend(struct mmul_mover *mover);
