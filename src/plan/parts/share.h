// SPDX-License-Identifier: MIT
// Splitting a range by weights. The one entry is mmul_split_offsets of the public header; with
// total n, P parts and weights w_i normalised to p_i its rules are:
//
//   exact:   part i gets floor(n p_i), and what is left goes one by one to the largest fractions
//            of n p_i, ties to the lowest part. 4096 at 50/25/25 is 2048, 1024, 1024.
//   hundred: n is cut into min(n, 100) pieces, the first n mod 100 of them one element longer;
//            part i takes floor(100 p_i + 1e-9) pieces in order, the last part of non-zero weight
//            takes what is left as well. 4096 at 50/25/25 is 2050, 1025, 1021.
//
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
