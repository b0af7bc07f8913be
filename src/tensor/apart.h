// SPDX-License-Identifier: MIT
//
// What nodes do apart: turns of a function, on a copy of a state that every node has for itself. Root reads the
// function once for each node and turn; a node's program is built, and held from, like a job (tensor/jobs.h), but what
// it makes every node has under the same number.
#pragma once

#include "tensor/evaluator.h"

// The node whose program is made at the moment.
struct mmul_apart {
    int node, nodes;
    const double *shares;                       // of all nodes: what each can do of all
    int64_t *windows;                           // that batches have given each of them so far
    struct mmul_left_out *marked, *last_marked; // of the program that is being made
};

// Of the node at hand: sums (1 x n) has a number for each matrix of the argument, finite as they are.
enum mmul_status mmul_apart_mark(struct mmul_evaluator *e, const struct mmul_node *at,
                                 const struct mmul_argument *gradient,
                                 const struct mmul_object *sums);

// Of the node at hand: sums (1 x n) has a number for each matrix of the argument, finite as they are.
enum mmul_status mmul_apart_mark(struct mmul_evaluator *e, const struct mmul_node *at,
                                 const struct mmul_argument *gradient,
                                 const struct mmul_object *sums);

// Of `count` windows, or rows, those of the node at hand. Fails where there are fewer than nodes that take part.
enum mmul_status mmul_apart_cut(struct mmul_evaluator *e, const struct mmul_node *at, int64_t count,
                                int64_t *begin, int64_t *end);
