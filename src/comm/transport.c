// SPDX-License-Identifier: MIT
// Splits the leaders once, and duplicates what came of it: collectives of the two directions are
// begun in orders of their own.
#include "comm/transport.h"

#include "base/memory.h"
#include "base/status.h"

const struct mmul_transport MMUL_TRANSPORT_NONE = {.outward = MPI_COMM_NULL,
                                                   .inward = MPI_COMM_NULL};

enum mmul_status mmul_transport_init(const struct mmul_comm *comm, const bool *works,
                                     struct mmul_failure *failure, struct mmul_transport *transport,
                                     struct mmul_error *err) {
    struct mmul_transport *t = transport;
    *t = MMUL_TRANSPORT_NONE;
    t->failure = failure;
    // Who has no memory splits with the others all the same.
    enum mmul_status status = MMUL_ALLOCATE(t->sent_bytes, comm->node_count, "traffic", err);
    t->talk = (struct mmul_peers){comm->world, failure,     comm->rank_node,
                                  comm->rank,  comm->alarm, t->sent_bytes};
    if (comm->leaders == MPI_COMM_NULL)
        return status;
    t->leaders =
        (struct mmul_peers){comm->leaders, failure, NULL, comm->node_index, comm->alarm, NULL};
    bool member = comm->rank == 0 || works[comm->node_index];
    int code = MPI_Comm_split(comm->leaders, member ? 0 : MPI_UNDEFINED, comm->rank, &t->outward);
    if (code == MPI_SUCCESS && member)
        code = MPI_Comm_dup(t->outward, &t->inward);
    if (code == MPI_SUCCESS && member)
        code = MPI_Comm_rank(t->outward, &t->rank);
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
    bool is_broken = mmul_alarm_is_raised(transport->members.alarm); // collectives are under way
    if (transport->outward != MPI_COMM_NULL && !is_broken)
        MPI_Comm_free(&transport->outward);
    if (transport->inward != MPI_COMM_NULL && !is_broken)
        MPI_Comm_free(&transport->inward);
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
