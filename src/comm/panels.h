// SPDX-License-Identifier: MIT
//
// Matrices on the network: once per node, in rounds, checksummed at both ends.
//
// Only a team talks: root and the leaders of nodes that have work. What root sends to one node is
// a stream of bytes that root produces piece by piece (straight from files) and the leader
// receives into the node's shared segment; results are streams the other way. Root's own stream
// goes from the source to the segment (and from the segment to the sink) without MPI.
//
// A failing source or sink does not stop the collective calls: the first error is kept, the rest
// of the rounds run, and the caller agrees over world afterwards. So nobody is left waiting.
#pragma once

#include "comm/comm.h"

struct mmul_team {
    MPI_Comm mpi; // owned; MPI_COMM_NULL outside the team
    int rank, size;
    int *nodes;                  // size, owned: node index of each member; root is member 0
    int *counts, *displacements; // size, owned: of the round that is under way
    uint64_t *hashes;            // size, owned
};

// Collective over leaders; other ranks may call it and get an empty team. works[node] for all
// nodes, the same on all leaders.
enum mmul_status mmul_team_create(const struct mmul_comm *comm, const bool *works,
                                  struct mmul_team *team, struct mmul_error *err);
void mmul_team_destroy(struct mmul_team *team);

// Root's end of the streams. Bytes [begin, end) of the stream of `node` (member's node index).
struct mmul_stream_end {
    enum mmul_status (*produce)(void *context, int node, int64_t begin, int64_t end, void *to,
                                struct mmul_error *err);
    enum mmul_status (*consume)(void *context, int node, int64_t begin, int64_t end,
                                const void *from, struct mmul_error *err);
    void *context;
};

struct mmul_stream_args {
    const struct mmul_team *team;
    const int64_t *bytes;              // per node index; the same on all members
    void *mine;                        // this node's part of the segment
    const struct mmul_stream_end *end; // root only
    void *round;                       // root: round_bytes of buffer
    int64_t round_bytes;               // the same on all members, <= 1 GiB
};

// Collective over the team (others return at once). Fails with what produce or consume said, or
// MMUL_ERR_SYSTEM (MPI, or bytes that changed on the way).
enum mmul_status mmul_panels_scatter(const struct mmul_stream_args *args, struct mmul_error *err);
enum mmul_status mmul_panels_gather(const struct mmul_stream_args *args, struct mmul_error *err);

// Collective over the team: one stream, the same for all, produced on root as node -1. bytes[0]
// is its size. `mine` NULL: this member only passes it on (root without work of its own).
enum mmul_status mmul_panels_broadcast(const struct mmul_stream_args *args, struct mmul_error *err);
