// SPDX-License-Identifier: MIT
// Splits a range by weights, and clips units per rank to the memory of each node. Pure. The one
// entry for weights is mmul_split_offsets of the public header. For total n, P parts and weights
// w_i normalised to p_i its rules are:
//
//   exact:   part i gets floor(n p_i). The remainder goes one by one to the largest fractions of
//            n p_i, ties to the lowest part. 4096 at 50/25/25 is 2048, 1024, 1024.
//   hundred: n is cut into min(n, 100) pieces, the first n mod 100 of them one element longer.
//            Part i takes floor(100 p_i + 1e-9) pieces in order. The last part of non-zero weight
//            also takes the remainder. 4096 at 50/25/25 is 2050, 1025, 1021.
//
// Weights are chosen elsewhere: of a product in plan/product/schedule_shares.c; of a program in
// exec/job/program_plan.c, by speeds, and for root's node also by predictions.
#pragma once

#include "mpimatmul_local.h"

struct mmul_share_request {
    int64_t total; // units to distribute
    int size, node_count;
    const double *weights;        // size
    const int *rank_node;         // size: node of each rank
    const int64_t *node_capacity; // node_count: most units a node holds, >= 0
    enum mmul_split_rule rule;
};

// Writes `size` counts that add up to total. A node with a share above its capacity gets its
// capacity, and the other nodes share the rest by weight. clipped[node] marks such nodes; `clipped`
// may be NULL. Fails with MMUL_ERR_USAGE (weights) or MMUL_ERR_SYSTEM (the sum of all capacities is
// too small).
enum mmul_status mmul_share_units(const struct mmul_share_request *request, int64_t *counts,
                                  bool *clipped, struct mmul_error *err);
