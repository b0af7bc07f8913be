// SPDX-License-Identifier: MIT
// Units per rank: weights, clipped to what each node's memory holds. Pure.
#pragma once

#include "mpimatmul_local.h"

struct mmul_share_request {
    int64_t total; // units to give away
    int size, node_count;
    const double *weights;        // size
    const int *rank_node;         // size: each rank's node
    const int64_t *node_capacity; // node_count: most units a node holds, >= 0
    enum mmul_split_rule rule;
};

// Writes `size` counts that add up to total. A node whose share is above its capacity gets the
// capacity and the rest goes to the others by weight; clipped[node] says so (NULL: nobody asks).
// Fails with MMUL_ERR_USAGE (weights) or MMUL_ERR_SYSTEM (all capacities together are too small).
enum mmul_status mmul_share_units(const struct mmul_share_request *request, int64_t *counts,
                                  bool *clipped, struct mmul_error *err);
