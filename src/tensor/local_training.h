// SPDX-License-Identifier: MIT
//
// Local training with apart(): each node runs several iterations of a function on its own copy of a
// state. Root evaluates the function once per node and iteration. A node's program is built and its
// results are held like those of a job (tensor/jobs.h), but every node holds them under the same
// number.
#pragma once

#include "tensor/evaluator.h"

// The node for which a program is being built.
struct mmul_local_node {
    int node, nodes;
    const double *shares; // each node's share of the compute power; they add up to 1
    int64_t *windows;     // windows that batch() gave each node so far
    struct mmul_skipped_step *marked, *last_marked; // records of the program being built
};

// Marks a gradient of the current node that may be non-finite. sums (1 x n): one number per matrix
// of the argument, finite if and only if the matrix is.
enum mmul_status mmul_local_mark_gradient(struct mmul_evaluator *e, const struct mmul_node *at,
                                          const struct mmul_argument *gradient,
                                          const struct mmul_object *sums);
