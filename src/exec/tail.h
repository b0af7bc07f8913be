// SPDX-License-Identifier: MIT
//
// The dynamic tail: the last units of the split range are claimed at run time, so that a device
// that turns out slower than planned holds nobody up. A rank that has finished its own steps asks
// root's main thread, which grants a range in proportion to how fast that rank has been of late and
// how much is left; where pieces and C are not mapped, the claimed pieces come along, the block of
// C goes back, and the next claim is made while the last one is computed.
//
//   rank                           root
//   ask (how fast I am)   --->
//                         <---     grant [begin, end)     begin = end: nothing is left
//                         <---     pieces, C_in           unless the rank maps them
//   done [begin, end)     --->
//   block of C            --->                            unless the rank maps it
//
// Root's own rank does the same with itself. The whole operand must be on every node: the plan has
// a tail only then. Every word says whether its sender failed; root then grants nothing more.
#pragma once

#include <stdatomic.h>

#include "comm/message.h"
#include "exec/pipeline.h"
#include "exec/run.h"

enum { MMUL_CLAIMS = 2, MMUL_TAIL_WORDS = 5 };

enum mmul_claim_state {
    MMUL_CLAIM_IDLE,
    MMUL_CLAIM_ASKED,    // main thread: waits for the grant ...
    MMUL_CLAIM_ARRIVING, // ... for the pieces
    MMUL_CLAIM_READY,    // the compute thread may have it
    MMUL_CLAIM_COMPUTED, // the main thread may give it back ...
    MMUL_CLAIM_LEAVING,  // ... is doing so
    MMUL_CLAIM_NONE      // nothing is left
};

// One claimed range and its memory; owned by the thread that the state names.
struct mmul_claim {
    _Atomic int state; // enum mmul_claim_state
    struct mmul_range range;
    char *pieces; // owned: pieces, then C_in; NULL: mapped
    char *c;      // owned; NULL: mapped
    int64_t sent[MMUL_TAIL_WORDS], received[MMUL_TAIL_WORDS];
    MPI_Request send, receive;
    struct mmul_message data;
    bool failed; // what it holds means nothing
};

struct mmul_tail_root; // root's side: exec/tail_root.h

struct mmul_tail {
    struct mmul_run *run; // borrowed
    MPI_Comm mpi;         // owned: a duplicate of world; MPI_COMM_NULL: no tail
    int depth;            // claims at a time; 0: this rank takes no part
    struct mmul_claim claims[MMUL_CLAIMS];
    int64_t most_units;          // of a claim
    _Atomic int64_t rate;        // units per 1000 seconds, of late
    struct mmul_tail_root *root; // owned; on root
};

// Collective over world. Allocates what claims need; without a tail in the plan, nothing.
// Fails with MMUL_ERR_SYSTEM; agree afterwards.
enum mmul_status mmul_tail_init(struct mmul_tail *tail, struct mmul_run *run,
                                struct mmul_error *err);
// Collective over world.
void mmul_tail_fini(struct mmul_tail *tail);

// Main thread: asks, receives, gives back; on root also grants. Local. The first failure goes to
// run->failure.
enum mmul_attention mmul_tail_attend(struct mmul_tail *tail);

// Compute thread, after its own steps: computes claims until nothing is left. Local. A failure goes
// to run->failure.
void mmul_tail_compute(struct mmul_tail *tail);

// Bytes that one claim of `units` moves to a rank, and back; 0 where its node maps them.
int64_t mmul_claim_piece_bytes(const struct mmul_plan *plan, int node, int64_t units);
int64_t mmul_claim_c_in_bytes(const struct mmul_plan *plan, int node, int64_t units);
int64_t mmul_claim_c_bytes(const struct mmul_plan *plan, int node, int64_t units);
