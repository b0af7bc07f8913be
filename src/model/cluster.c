// SPDX-License-Identifier: MIT
// The cluster as data. Finds nothing itself: exec/setup/discover fills it in.
#include "model/cluster.h"

#include <string.h>

#include "base/memory.h"

enum mmul_status mmul_cluster_create(int size, int node_count, int device_count,
                                     struct mmul_cluster **cluster, struct mmul_error *err) {
    struct mmul_cluster *made = NULL;
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "the cluster", err);
    if (status != MMUL_OK)
        return status;
    *made =
        (struct mmul_cluster){.size = size, .node_count = node_count, .device_count = device_count};
    status = MMUL_ALLOCATE(made->ranks, size, "ranks", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(made->nodes, node_count, "nodes", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(made->devices, device_count, "devices", err);
    if (status == MMUL_OK)
        *cluster = made;
    else
        mmul_cluster_destroy(made);
    return status;
}

void mmul_cluster_destroy(struct mmul_cluster *cluster) {
    if (cluster == NULL)
        return;
    mmul_free(cluster->ranks);
    mmul_free(cluster->nodes);
    mmul_free(cluster->devices);
    mmul_free(cluster);
}

int mmul_cluster_next_rank(const struct mmul_cluster *cluster, int rank) {
    const struct mmul_rank_info *own = &cluster->ranks[rank];
    if (own->node_rank + 1 >= cluster->nodes[own->node].rank_count)
        return -1;
    for (int next = rank + 1; next < cluster->size; next++)
        if (cluster->ranks[next].node == own->node)
            return next;
    return -1;
}
