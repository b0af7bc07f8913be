// SPDX-License-Identifier: MIT
//
// The third noun: who computes what. plan_make.h makes it.
//
// The plan is one block of plain memory (header, then ranks, then nodes), so that sending it is
// sending bytes; see mmul_plan_bytes.
#pragma once

#include "model/problem.h"
#include "plan/parts/budget.h"

// What goes over all links at once in a scatter or gather, through a buffer of root, at most.
enum { MMUL_CHUNK_BYTES = 8 << 20 };

struct mmul_plan_rank {
    int64_t begin, end; // part of the split range; empty is legal
    int node;
    double weight;          // as given or measured, not normalised
    int64_t claim_least;    // lines or width of a task that others may claim (plan/lists/tasks.h)
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

// A node's shared segment is made of lanes and slots, used in turn (plan/lists/schedule says which when):
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
        checks_whole; // its ranks' checks project the whole operand, not their pieces (exec/worker/verify.h)
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

struct mmul_program_plan;

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
    char limits[96];                         // what the prediction says is the slow part
    char faster[160];                        // "" or "faster without rank 3: 4.1 s against 5.0 s"
    int64_t chunk_bytes;           // of root's buffers for scatter and gather; 0 on one node
    struct mmul_program_plan *job; // of which it is a product; NULL: not known. Not sent
    int64_t bytes;                 // of this block
};

// Of what mmul_plan_make (plan/plan_make.h) has made; NULL is legal.
void mmul_plan_free(struct mmul_plan *plan);

const struct mmul_plan_rank *mmul_plan_ranks(const struct mmul_plan *plan);
const struct mmul_plan_node *mmul_plan_nodes(const struct mmul_plan *plan);

// Whether a node takes part in scatter and gather, for a plan that is one of several.
void mmul_plan_set_member(struct mmul_plan *plan, int node, bool takes_part);
