// SPDX-License-Identifier: MIT
//
// How a product is carried out: who computes which part of it, cut into which rounds and panels, through which memory;
// and the passes that follow from that. A step of a plan has it (program_plan.h); plan/product/schedule_make.h makes
// it.
// It is one block of plain memory (header, then ranks, then nodes), so that sending it is sending bytes.
//
// The passes are one list, the same on all ranks, computed from the schedule alone. The sender of
// a panel and its receiver walk the same list, so nothing about order is ever negotiated.
//
//     for each round            (a piece of every rank's part of the split range)
//       for each panel          (of the whole operand: a range of the other axis of one matrix, that
//                                is columns of B when rows are split; or several whole matrices)
//         one pass: C[units of the rank's piece that use the panel's matrices, the panel's range]
//
// In core is one round; a small problem is one round of one panel.

#pragma once

#include "model/problem.h"
#include "plan/parts/budget.h"

// What goes over all links at once in a scatter or gather, through a buffer of root, at most.
enum { MMUL_CHUNK_BYTES = 8 << 20 };

struct mmul_schedule_rank {
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

// A node's shared segment is made of lanes and slots, used in turn (below: which when):
// lanes hold one round's pieces, slots one panel of the whole operand, or one pass's block of C.
struct mmul_schedule_node {
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
    int64_t result_slots; // 0; or as many as it has passes; or fewer
    int64_t result_slot_bytes;
    int64_t segment_bytes; // all lanes and slots
    int64_t private_bytes; // summed work space of its ranks
    int64_t network_bytes; // what crosses the network to it and from it; 0 for root's node
    int64_t memory_bytes;  // what the plan was allowed to use here
    int chain_place;       // of its leader among those that pass panels on: 1, 2, ...; 0: not there
    char host[64];
};

struct mmul_schedule {
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
    bool lends;         // rows of a late rank may be computed on other nodes, to which they move
    int64_t root_bytes; // through root's link, both ways
    int64_t rows_bytes_moved, cols_bytes_moved; // over the network, what the choice was made from
    double link_bytes_per_second;               // assumed where links are not measured
    double transfer_seconds;                    // predicted: links and files are busy for so long
    double predicted_seconds;                   // of the whole run, overlap included; 0: not known
    int last_rank; // the one that is predicted to end last, and what makes up its seconds:
    double compute_seconds, waiting_seconds; // computing; waiting for bytes
    char limits[96];                         // what the prediction says is the slow part
    char faster[160];                        // "" or "faster without rank 3: 4.1 s against 5.0 s"
    int64_t chunk_bytes; // of root's buffers for scatter and gather; 0 on one node
    int64_t bytes;       // of this block
};

// Of what mmul_schedule_make (plan/product/schedule_make.h) has made; NULL is legal.
void mmul_schedule_free(struct mmul_schedule *schedule);

const struct mmul_schedule_rank *mmul_schedule_ranks(const struct mmul_schedule *schedule);
const struct mmul_schedule_node *mmul_schedule_nodes(const struct mmul_schedule *schedule);

// Whether a node takes part in scatter and gather, for a plan that is one of several.
void mmul_schedule_set_member(struct mmul_schedule *schedule, int node, bool takes_part);

struct mmul_pass {
    int64_t index; // in the list
    int64_t round;
    int64_t panel;                    // in the round, 0 .. mmul_schedule_panels - 1
    int64_t matrix_begin, matrix_end; // of the whole operand
    int64_t begin, end;               // units of the other axis, inside each matrix
};

// Panels per round, and passes in all.
int64_t mmul_schedule_panels(const struct mmul_schedule *schedule);
int64_t mmul_schedule_passes(const struct mmul_schedule *schedule);
struct mmul_pass mmul_schedule_pass(const struct mmul_schedule *schedule, int64_t index);

// Units of `rank` in `round`; their union over the rounds is its part, in order.
struct mmul_range {
    int64_t begin, end;
};
struct mmul_range mmul_schedule_part(const struct mmul_schedule *schedule, int rank, int64_t round);

// The stretches of `range` that use the pass's matrices, in order:
//     for (walk = mmul_schedule_walk(schedule, range, pass); mmul_schedule_next(&walk, &stretch);)
struct mmul_walk {
    const struct mmul_schedule *schedule;
    struct mmul_range range;
    struct mmul_pass pass;
    int64_t index, count;
};
struct mmul_walk mmul_schedule_walk(const struct mmul_schedule *schedule, struct mmul_range range,
                                    struct mmul_pass pass);
bool mmul_schedule_next(struct mmul_walk *walk, struct mmul_stretch *stretch);

// Units that a rank computes in a pass; so many units x (pass.end - pass.begin) elements of C.
int64_t mmul_schedule_units(const struct mmul_schedule *schedule, int rank, struct mmul_pass pass);

// Steps in which a rank has work: all of them, or, with several whole matrices, those of its own.
int64_t mmul_schedule_passes_of(const struct mmul_schedule *schedule, int rank);

// Whether the pass's panel is put into the node's memory for this pass: a rank of it has work in
// it, the operand is not mapped there, and the panel is not there since an earlier round.
bool mmul_schedule_loads(const struct mmul_schedule *schedule, int node, struct mmul_pass pass);

// Where the whole operand is spread: the rows of the pass's panel, counted over its matrices, that a rank
// has; and the bytes of each.
struct mmul_range mmul_schedule_whole_rows(const struct mmul_schedule *schedule, int rank,
                                           struct mmul_pass pass);
int64_t mmul_schedule_whole_row_bytes(const struct mmul_schedule *schedule, struct mmul_pass pass);

// Bytes of the pass's panel of the whole operand; not 0 where a node maps it.
int64_t mmul_schedule_panel_bytes(const struct mmul_schedule *schedule, struct mmul_pass pass);

// The pass's rectangle of matrix `matrix` of the whole operand.
struct mmul_region mmul_pass_panel(const struct mmul_schedule *schedule, struct mmul_pass pass,
                                   int64_t matrix);
// A stretch's rectangle of C in a pass.
struct mmul_region mmul_pass_result(const struct mmul_schedule *schedule, struct mmul_pass pass,
                                    struct mmul_stretch stretch);
