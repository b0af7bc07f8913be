// SPDX-License-Identifier: MIT
// Splits the leaders, and duplicates the result: collectives of the two directions begin in orders
// of their own. A finished run leaves nothing in flight there, so the next run of the same members
// reuses both communicators.
#include "comm/transport.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"

const struct mmul_transport MMUL_TRANSPORT_NONE = {.outward = MPI_COMM_NULL,
                                                   .inward = MPI_COMM_NULL};

// Collective over leaders. Creates, or reuses, the communicators of root and of nodes that have
// work. Returns MPI's code.
static int open_directions(const struct mmul_comm *comm, const bool *works) {
    struct mmul_traffic_comms *directions = comm->directions;
    bool is_same = directions->are_created;
    for (int node = 1; node < comm->node_count; node++)
        is_same = is_same && directions->members[node] == works[node];
    if (is_same)
        return MPI_SUCCESS;
    if (directions->are_created)
        mmul_traffic_comms_free(directions);
    const bool is_member = comm->rank == 0 || works[comm->node_index];
    directions->inward = MPI_COMM_NULL;
    int code = mmul_comm_split(comm->leaders, is_member ? 0 : MPI_UNDEFINED, comm->rank,
                               &directions->outward);
    if (code == MPI_SUCCESS && is_member)
        code = mmul_comm_duplicate(directions->outward, &directions->inward);
    if (code == MPI_SUCCESS)
        memcpy(directions->members, works, comm->node_count * sizeof *works);
    directions->are_created = code == MPI_SUCCESS;
    return code;
}

enum mmul_status mmul_transport_init(const struct mmul_comm *comm, const bool *works,
                                     struct mmul_failure *failure, struct mmul_transport *transport,
                                     struct mmul_error *err) {
    struct mmul_transport *t = transport;
    *t = MMUL_TRANSPORT_NONE;
    t->failure = failure;
    // A rank without memory still takes part in the collective split.
    enum mmul_status status = MMUL_ALLOCATE(t->sent_bytes, comm->node_count, "traffic", err);
    t->talk = (struct mmul_peers){comm->world, failure,     comm->rank_node,
                                  comm->rank,  comm->alarm, t->sent_bytes};
    if (comm->leaders == MPI_COMM_NULL)
        return status;
    t->leaders =
        (struct mmul_peers){comm->leaders, failure, NULL, comm->node_index, comm->alarm, NULL};
    int code = open_directions(comm, works);
    const bool member = code == MPI_SUCCESS && comm->directions->outward != MPI_COMM_NULL;
    if (member) {
        t->outward = comm->directions->outward;
        t->inward = comm->directions->inward;
        code = MPI_Comm_rank(t->outward, &t->rank);
    }
    if (code == MPI_SUCCESS && member)
        code = MPI_Comm_size(t->outward, &t->size);
    if (code != MPI_SUCCESS)
        return mmul_comm_check(code, "communicator set-up", err);
    if (status != MMUL_OK || !member)
        return status;
    int *nodes = NULL, members = 0;
    status = MMUL_ALLOCATE(nodes, t->size, "members", err);
    for (int node = 0; status == MMUL_OK && node < comm->node_count; node++)
        if (node == 0 || works[node])
            nodes[members++] = node;
    t->members =
        (struct mmul_peers){t->outward, failure, nodes, t->rank, comm->alarm, t->sent_bytes};
    return status;
}

void mmul_transport_fini(struct mmul_transport *transport) {
    mmul_free((void *)(uintptr_t)transport->members.nodes);
    mmul_free(transport->sent_bytes);
    *transport = MMUL_TRANSPORT_NONE;
}

int mmul_transport_member(const struct mmul_transport *transport, int node) {
    for (int member = 0; member < transport->size; member++)
        if (transport->members.nodes[member] == node)
            return member;
    return -1;
}
