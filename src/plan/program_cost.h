// SPDX-License-Identifier: MIT
//
// Predicted seconds of the parts of a program: moves and operations, one after the other. Pure,
// closed form: the same for two ranks and for thousands.
//
// Node i holds the part s_i of a value that is split (the sum of its ranks' shares), all of one that
// is whole there, nothing of a file that is elsewhere; T bytes move:
//
//     i to j   T has_i wants_j, i != j, where j has not all of it already
//     move     max over nodes of (bytes out, bytes in) / B + latency per stage
//              + T max wants_j / copy + T / file where one end is a file
//     matmul   max over ranks of (operations it does / its rate); a product that is wanted whole is
//              shared by the ranks of each node
//     others   the same with the bytes they touch
//
// It knows no overlap yet: neither does the run.
#pragma once

#include "model/cluster.h"
#include "model/program.h"

struct mmul_program_costs {
    int size, node_count;
    int *rank_node;      // size, owned
    double *shares;      // size, owned: of every value that is split; add up to 1
    double *node_shares; // node_count, owned
    double *flops;       // size, owned: per second
    double bytes_per_second, latency_seconds; // the slowest link
};

// weights: of the ranks. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_costs_init(struct mmul_program_costs *costs,
                                         const struct mmul_cluster *cluster, const double *weights,
                                         struct mmul_error *err);
void mmul_program_costs_fini(struct mmul_program_costs *costs);

// bytes: over the network, all links together.
double mmul_program_move_seconds(const struct mmul_program_costs *costs, struct mmul_shape shape,
                                 enum mmul_placement_kind from, enum mmul_placement_kind to,
                                 double *bytes);

double mmul_program_operation_seconds(const struct mmul_program_costs *costs,
                                      const struct mmul_program *program,
                                      const struct mmul_operation *operation,
                                      const struct mmul_rule *rule);
