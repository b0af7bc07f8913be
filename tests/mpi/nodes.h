// SPDX-License-Identifier: MIT
// Splits one machine into several nodes by communicators, so that everything crosses MPI. 0 nodes:
// keeps the real nodes.
#pragma once

#include "exec/setup/context.h"
#include "tap.h"

static int rank, size;

// Ranks with the same rank % nodes share a node.
static inline void split_comm(struct mmul_comm *comm, int nodes) {
    MPI_Comm_free(&comm->node);
    if (comm->leaders != MPI_COMM_NULL)
        MPI_Comm_free(&comm->leaders);
    MPI_Comm_split(comm->world, rank % nodes, rank, &comm->node);
    MPI_Comm_rank(comm->node, &comm->node_rank);
    MPI_Comm_size(comm->node, &comm->node_size);
    MPI_Comm_split(comm->world, rank < nodes ? 0 : MPI_UNDEFINED, rank, &comm->leaders);
    comm->node_index = rank % nodes;
    comm->node_count = nodes;
    for (int i = 0; i < size; i++)
        comm->rank_node[i] = i % nodes;
}

static inline struct mmul_cluster *split_cluster(const struct mmul_cluster *one, int nodes) {
    struct mmul_cluster *made = NULL;
    struct mmul_error err;
    mmul_cluster_create(size, nodes, 0, &made, &err);
    for (int i = 0; i < size; i++) {
        made->ranks[i] = one->ranks[i];
        made->ranks[i].node = i % nodes;
        made->ranks[i].node_rank = i / nodes;
        made->ranks[i].device_index = -1;
    }
    for (int i = 0; i < nodes; i++) {
        made->nodes[i] = one->nodes[0];
        made->nodes[i].leader = i;
        made->nodes[i].rank_count = (size - i + nodes - 1) / nodes;
    }
    return made;
}

static inline struct mmul_context *make_context(int nodes,
                                                const struct mmul_context_options *options) {
    struct mmul_context *context = NULL;
    struct mmul_error err;
    if (mmul_context_create(MPI_COMM_WORLD, options, &context, &err) != MMUL_OK)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (nodes == 0)
        return context;
    struct mmul_cluster *one = context->cluster;
    context->cluster = split_cluster(one, nodes);
    mmul_cluster_destroy(one);
    split_comm(context->comm, nodes);
    return context;
}
