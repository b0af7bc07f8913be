// SPDX-License-Identifier: MIT
//
// What a run moves bytes with: root and the leaders of nodes that have work are its members, channels
// (comm/channel.h) run between them, and words and messages (comm/message.h) between any two ranks. All
// of it fails in one way (comm/failure.h).
#pragma once

#include "comm/message.h"

struct mmul_transport {
    struct mmul_failure *failure; // borrowed
    struct mmul_peers talk;       // among all ranks
    struct mmul_peers leaders;    // among those of all nodes; for sums
    struct mmul_peers members;    // among members; members.nodes: owned, their node indexes
    // Borrowed of comm->directions; one each, so that orders cannot mix; MPI_COMM_NULL outside the team.
    MPI_Comm outward, inward;
    int rank, size; // among members; root is member 0
    int64_t *
        sent_bytes; // owned: what this rank has sent to each node, but for checksums, words and sums
};

extern const struct mmul_transport MMUL_TRANSPORT_NONE;

// Collective over leaders; other ranks may call it and get one without members. works[node] for all
// nodes, the same on all leaders. One at a time. Fails with MMUL_ERR_SYSTEM; agree afterwards.
enum mmul_status mmul_transport_init(const struct mmul_comm *comm, const bool *works,
                                     struct mmul_failure *failure, struct mmul_transport *transport,
                                     struct mmul_error *err);
void mmul_transport_fini(struct mmul_transport *transport);

// The member that leads a node; -1: none does.
int mmul_transport_member(const struct mmul_transport *transport, int node);
