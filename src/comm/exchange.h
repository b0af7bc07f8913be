// SPDX-License-Identifier: MIT
//
// Scatterv and Gatherv of matrices among a team, in chunks, beside other work. An exchange is one
// direction; it carries one transfer after another. A transfer is a stream of bytes between root
// and each member: root produces (scatter) or consumes (gather) it chunk by chunk, the members
// have theirs in memory. Two chunks are under way at a time, each in its lane, every piece with a
// checksum made at one end and compared at the other.
//
// Nothing here blocks: mmul_exchange_advance does what can be done now. A failing source or sink
// does not stop the traffic, which the other end waits for (comm/failure.h).
//
// Root's own bytes never pass through here.
#pragma once

#include "comm/message.h"
#include "comm/team.h"

// Root's end. Bytes [begin, end) of the stream of `node`.
struct mmul_stream_end {
    enum mmul_status (*produce)(void *context, int node, int64_t begin, int64_t end, void *to,
                                struct mmul_error *err);
    enum mmul_status (*consume)(void *context, int node, int64_t begin, int64_t end,
                                const void *from, struct mmul_error *err);
};

struct mmul_transfer {
    const int64_t *bytes; // per node index, the same on all members; borrowed
    char *mine;           // members but root: where theirs is; borrowed
    void *context;        // root: of the callbacks; borrowed
};

struct mmul_exchange_lane {
    MPI_Request requests[2];
    char *data;                    // root: owned
    int *counts, *displacements;   // per member, owned
    struct mmul_trailer *trailers; // per member, owned
    struct mmul_trailer trailer;   // a member's own
};

enum { MMUL_EXCHANGE_LANES = 2 };

struct mmul_exchange {
    const struct mmul_team *team; // borrowed
    MPI_Comm mpi;                 // borrowed: the team's for this direction
    bool inward;
    struct mmul_stream_end end; // root
    int64_t lane_bytes;
    struct mmul_exchange_lane lanes[MMUL_EXCHANGE_LANES];
    struct mmul_transfer transfer;
    int64_t chunk_bytes, chunks; // of the transfer: most bytes per member and chunk; how many
    int64_t begun, ended;        // chunks
};

// Local. lane_bytes: of root's buffers, the same on all members, <= 1 GiB.
// Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_exchange_init(struct mmul_exchange *exchange, const struct mmul_team *team,
                                    bool inward, struct mmul_stream_end end, int64_t lane_bytes,
                                    struct mmul_error *err);
void mmul_exchange_fini(struct mmul_exchange *exchange);

// Starts the next transfer: all members start the same ones in the same order, each when it is
// ready. Only when idle. Local.
void mmul_exchange_begin(struct mmul_exchange *exchange, struct mmul_transfer transfer);
bool mmul_exchange_is_idle(const struct mmul_exchange *exchange);

// Begins and ends what it can; true when something happened. Local.
bool mmul_exchange_advance(struct mmul_exchange *exchange);
