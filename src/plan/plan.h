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

// What goes over all links at once in a scatter or gather, through a buffer of root, at most.
enum { MMUL_CHUNK_BYTES = 8 << 20 };

struct mmul_plan_rank {
    int64_t begin, end; // part of the split range; empty is legal
    int node;
    double weight;          // as given or measured, not normalised
    int64_t claim_least;    // lines or width of a task that others may claim (plan/tasks.h)
    struct mmul_tile tile;  // zero sides when the part is empty
    int64_t host_bytes;     // its parts of A or B, C and C_in, and private work space
    double compute_seconds; // predicted; 0: speed not known
    int64_t whole_begin,
        whole_end;         // where that is spread: rows of the whole operand that it has, of
                           // all matrices one after the other
    double finish_seconds; // predicted, from the first byte read: its last block is in the result;
                           // 0: not known
    char why[64];          // "" or why it has no or fewer rows
    char device[64];       // for printing
};

// A node's shared segment is made of lanes and slots, used in turn (plan/schedule says which when):
// lanes hold one round's pieces, slots one panel of the whole operand, or one step's block of C.
struct mmul_plan_node {
    unsigned maps;        // enum mmul_maps: used where they lie, so not in the segment
    int64_t piece_bytes;  // split operand, of all its ranks and rounds
    int64_t c_in_bytes;   // float32, the same; 0 when beta is 0
    int64_t result_bytes; // float32, the same
    int64_t whole_bytes;  // whole operand, of all panels it needs; 0 when no rank of it has work
    int piece_lanes;      // 0, 1 (one round) or 2
    int64_t piece_lane_bytes, c_in_lane_bytes; // the largest round
    int64_t whole_slots;                       // 0; or all it needs, which then stay; or fewer
    bool whole_stays;                          // every panel keeps its slot and comes once
    bool
        takes_part; // in scatter and gather: it has work, in this product or in another one of the run
    bool claims;    // more than one of its ranks has work, and blocks may be claimed
    bool
        checks_whole; // its ranks' checks project the whole operand, not their pieces (exec/verify.h)
    int64_t whole_slot_bytes;
    int64_t result_slots; // 0; or as many as it has steps; or fewer
    int64_t result_slot_bytes;
    int64_t segment_bytes; // all lanes and slots
    int64_t private_bytes; // summed work space of its ranks
    int64_t network_bytes; // what crosses the network to it and from it; 0 for root's node
    int64_t memory_bytes;  // what the plan was allowed to use here
    int chain_place;       // of its leader among those that pass panels on: 1, 2, ...; 0: not there
    char host[64];
};

struct mmul_plan {
    struct mmul_problem problem;
    enum mmul_axis axis;
    bool axis_chosen; // by bytes moved, not by the user
    enum mmul_split_rule rule;
    int64_t total; // units of the split range
    int size, node_count;
    int64_t rounds;      // every rank's part is worked off in so many pieces; 1: it is in core
    int64_t panel_units; // of the whole operand per panel: columns of B by rows, rows of A by cols
    int64_t panel_matrices; // matrices of the whole operand per panel; > 1: then they are not cut
    bool whole_is_spread;   // over the ranks, which have rows of it; else root has it
    double claim_share;     // of a block, cut into tasks that others on the node may claim; 0: none
    int64_t slice_terms;    // of the inner range, that are added at once there, at least; 0: all
    int64_t root_bytes;     // through root's link, both ways
    int64_t rows_bytes_moved, cols_bytes_moved; // over the network, what the choice was made from
    double link_bytes_per_second;               // assumed where links are not measured
    double transfer_seconds;                    // predicted: links and files are busy for so long
    double predicted_seconds;                   // of the whole run, overlap included; 0: not known
    int last_rank; // the one that is predicted to end last, and what makes up its seconds:
    double compute_seconds, waiting_seconds; // computing; waiting for bytes
    uint64_t verify_seed;                    // drawn by root, so that all ranks check alike
    char limits[96];                         // what the prediction says is the slow part
    char faster[160];                        // "" or "faster without rank 3: 4.1 s against 5.0 s"
    int64_t chunk_bytes; // of root's buffers for scatter and gather; 0 on one node
    int64_t bytes;       // of this block
};

struct mmul_plan_request {
    const struct mmul_problem *problem;
    const struct mmul_cluster *cluster;
    const double *weights; // one per rank; NULL: such that all finish together
    const unsigned
        *node_maps; // enum mmul_maps per node; NULL: none. What is there as a value counts
                    // as mapped
    unsigned
        value_maps; // of these what is a value on every node: it stays so whatever memory there is
    const int64_t *offsets;       // size + 1: every rank's part, as it is; NULL: by weights
    const int64_t *whole_offsets; // size + 1: rows of the whole operand that every rank has (of all
                                  // matrices, one after the other); NULL: root has it
    enum mmul_split_choice split;
    enum mmul_split_rule rule;
    bool panels;         // may choose panels and rounds; else one round of one panel
    enum mmul_tail tail; // what of every block others may claim at run time
    double tail_share;   // MMUL_TAIL_SHARE: so much
    int64_t memory_limit_bytes, device_memory_limit_bytes; // 0: none
    const int64_t *taken_bytes; // per node: memory that something else of the run has; NULL: none
};

// Of a limit of a node's memory, which counts all of its ranks: what is left beside what they have already, and what
// libraries still take as they work (buffers of the BLAS, MPI's queues); negative: that is too much already.
int64_t mmul_plan_memory_left(const struct mmul_cluster *cluster, int node, int64_t limit);

// What a rank may use of its device: a limit for the device (0: none) or most of its memory, divided among the ranks of
// the node that share it.
int64_t mmul_plan_device_bytes(const struct mmul_cluster *cluster, int rank, int64_t limit);

// Fails: MMUL_ERR_USAGE (weights), MMUL_ERR_SYSTEM (does not fit, with the numbers).
enum mmul_status mmul_plan_make(const struct mmul_plan_request *request, struct mmul_plan **plan,
                                struct mmul_error *err);

const struct mmul_plan_rank *mmul_plan_ranks(const struct mmul_plan *plan);
const struct mmul_plan_node *mmul_plan_nodes(const struct mmul_plan *plan);

// Whether a node takes part in scatter and gather, for a plan that is one of several.
void mmul_plan_set_member(struct mmul_plan *plan, int node, bool takes_part);
