// SPDX-License-Identifier: MIT
//
// The communicators of a run. Members are root and the leaders of nodes that have work. Channels
// (comm/channel.h) connect the members; words and messages (comm/message.h) connect any two ranks.
// All of them report to one failure (comm/failure.h).
#pragma once

#include "comm/message.h"

struct mmul_transport {
    struct mmul_failure *failure; // borrowed
    struct mmul_peers talk;       // all ranks
    struct mmul_peers leaders;    // leaders of all nodes; used for sums
    struct mmul_peers members;    // members only; members.nodes: owned, their node indexes
    // Borrowed from comm->directions, one for each direction, so that the orders of collectives
    // cannot mix. MPI_COMM_NULL on ranks that are not members.
    MPI_Comm outward, inward;
    int rank, size; // among members; root is member 0
    // Owned: bytes sent from this rank to each node, without checksums, words and sums.
    int64_t *sent_bytes;
};

extern const struct mmul_transport MMUL_TRANSPORT_NONE;

// Collective over leaders; other ranks may call it, and become no members. works[node]: true if the
// node has work, for all nodes, the same on all leaders. Only one transport may exist at a time.
// Fails with MMUL_ERR_SYSTEM; agree afterwards.
enum mmul_status mmul_transport_init(const struct mmul_comm *comm, const bool *works,
                                     struct mmul_failure *failure, struct mmul_transport *transport,
                                     struct mmul_error *err);
void mmul_transport_fini(struct mmul_transport *transport);

// Returns the member that leads a node, or -1.
int mmul_transport_member(const struct mmul_transport *transport, int node);
