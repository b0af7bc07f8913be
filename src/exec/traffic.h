// SPDX-License-Identifier: MIT
//
// What the main thread of a node's leader does during a run: pieces come, panels come and go on to
// the next node, blocks of C leave. Each of the three is a cursor along the schedule that is moved
// when it can be; none waits for another, so they overlap each other and the computing.
#pragma once

#include "comm/exchange.h"
#include "exec/chain.h"
#include "exec/pipeline.h"
#include "exec/run.h"

// Root's own node: bytes [at, bytes) of a stream are left to be read from the files into the
// segment, or written from it.
struct mmul_own {
    struct mmul_stream stream;
    char *memory;
    int64_t at, bytes;
    int64_t next; // the transfer, load or step after this one
};

struct mmul_traffic {
    struct mmul_run *run; // borrowed
    bool is_root;
    bool has_team; // other nodes take part
    struct mmul_exchange scatter, gather;
    int64_t *scatter_bytes, *gather_bytes;            // per node, owned: of the transfer under way
    struct mmul_stream scatter_stream, gather_stream; // root: their contexts
    int64_t scatter_next;                             // transfer: round * 2, + 1 for C_in
    int64_t gather_next;                              // step
    struct mmul_chain chain;
    struct mmul_own pieces, panels, results;
};

// Local. Sizes are the plan's. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_traffic_init(struct mmul_traffic *traffic, struct mmul_run *run,
                                   struct mmul_error *err);
void mmul_traffic_fini(struct mmul_traffic *traffic);

// Moves what can be moved now. The first failure is kept in run->failure; traffic goes on, void,
// until everybody has what they wait for.
enum mmul_attention mmul_traffic_attend(struct mmul_traffic *traffic);
