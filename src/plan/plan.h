// SPDX-License-Identifier: MIT
//
// The third noun: who computes what. A pure function of a problem, a cluster and the user's wishes:
// no MPI, no OpenCL, no files. Root computes it and sends it, so mixed machines cannot disagree.
//
// The plan is one block of plain memory (header, then ranks, then nodes), so that sending it is
// sending bytes; see mmul_plan_bytes.
#pragma once

#include "model/cluster.h"
#include "model/problem.h"
#include "plan/budget.h"

// Most bytes per round of a scatter or gather in root's buffer.
enum { MMUL_ROUND_BYTES = 64 << 20 };

struct mmul_plan_rank {
    int64_t begin, end; // part of the split range; empty is legal
    int node;
    double weight;          // as given or measured, not normalised
    struct mmul_tile tile;  // zero sides when the part is empty
    int64_t host_bytes;     // its parts of A or B, C and C_in, and private work space
    double compute_seconds; // predicted; 0: speed not known
    char why[64];           // "" or why it has no or fewer rows
    char device[64];        // for printing
};

struct mmul_plan_node {
    int64_t piece_bytes;   // split operand, of all its ranks
    int64_t c_in_bytes;    // float32; 0 when beta is 0
    int64_t result_bytes;  // float32
    int64_t whole_bytes;   // whole operand, once per node; 0 when no rank of it has work
    int64_t segment_bytes; // the shared segment that holds all four
    int64_t private_bytes; // summed work space of its ranks
    int64_t network_bytes; // what crosses the network to it and from it; 0 for root's node
    int64_t memory_bytes;  // what the plan was allowed to use here
    char host[64];
};

struct mmul_plan {
    struct mmul_problem problem;
    enum mmul_axis axis;
    bool axis_chosen; // by bytes moved, not by the user
    enum mmul_split_rule rule;
    int64_t total; // units of the split range
    int size, node_count;
    int64_t rows_bytes_moved, cols_bytes_moved; // over the network, what the choice was made from
    double link_bytes_per_second;               // assumed for the prediction
    double compute_seconds, transfer_seconds;   // predicted; compute 0: speeds not known
    uint64_t verify_seed;                       // drawn by root, so that all ranks check alike
    char limits[96];                            // what the prediction says is the slow part
    int64_t round_bytes;                        // of root's buffer; 0 on one node
    int64_t bytes;                              // of this block
};

struct mmul_plan_request {
    const struct mmul_problem *problem;
    const struct mmul_cluster *cluster;
    const double *weights; // one per rank; NULL: the ranks' speeds
    enum mmul_split_choice split;
    enum mmul_split_rule rule;
    int64_t memory_limit_bytes, device_memory_limit_bytes; // 0: none
};

// Fails: MMUL_ERR_USAGE (weights), MMUL_ERR_SYSTEM (does not fit, with the numbers).
enum mmul_status mmul_plan_make(const struct mmul_plan_request *request, struct mmul_plan **plan,
                                struct mmul_error *err);

const struct mmul_plan_rank *mmul_plan_ranks(const struct mmul_plan *plan);
const struct mmul_plan_node *mmul_plan_nodes(const struct mmul_plan *plan);
