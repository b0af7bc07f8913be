// SPDX-License-Identifier: MIT
//
// The schedule of a product: shares of the ranks, rounds and panels, memory, and the passes that
// follow from them. A step of a plan has one (program_plan.h); plan/product/schedule_make.h makes
// it. It is one block of plain memory (header, then ranks, then nodes), so that it can be sent as
// bytes.
//
// The passes are one list, the same on all ranks, computed from the schedule alone. Sender and
// receiver of a panel walk the same list, so order is never negotiated.
//
//     for each round         (a piece of every rank's part of the split range)
//       for each panel       (of the whole operand: a range of the other axis of one matrix, which
//                             is columns of B if rows are split; or several whole matrices)
//         one pass: C[units of the rank's piece that use the panel's matrices, the panel's range]
//
// In core is one round; a small problem is one round of one panel.
//
// Traffic of a product between files: root scatters the pieces of the split operand to the leaders.
// Panels of the whole operand are relayed from leader to leader, packet by packet. Blocks of C go
// back while later panels arrive. Root's node maps these files if it can, receives nothing, and
// begins at once. The number and width of panels, the rounds, the shares and the order of the
// leaders come from the cost model (plan/cost/cost.h).
//
// An operand that is a value is used in place on its ranks. If the whole operand is a value split
// by rows, no move needs to precede the product: the rows of each panel are relayed from their own
// node to all others (whole_is_distributed).
#pragma once

#include "model/problem.h"
#include "plan/parts/budget.h"

// Largest sum of bytes on all links at once in a scatter or gather, through a buffer of root.
enum { MMUL_CHUNK_BYTES = 8 << 20 };

struct mmul_schedule_rank {
    int64_t begin, end; // part of the split range; may be empty
    int node;
    double weight;             // as given or measured, not normalised
    int64_t steal_lines_least; // least lines or width of a stealable task (plan/lists/tasks.h)
    struct mmul_tile tile;     // zero sides if the part is empty
    int64_t host_bytes;        // parts of A or B, C and C_in, and private work space
    double compute_seconds;    // predicted; 0: speed not known
    // Rows of a spread whole operand, over all matrices.
    int64_t whole_begin, whole_end;
    // Predicted time from the first byte read to its last block in C; 0: not known.
    double finish_seconds;
    char why[64];    // "", or the reason for no or fewer rows
    char device[64]; // for printing
};

// Lanes and slots form a node's shared segment and are used in turn. A lane holds one round's
// pieces. A slot holds one panel of the whole operand, or one pass's block of C.
struct mmul_schedule_node {
    // Mapped matrices (enum mmul_maps), used in place and not in the segment.
    unsigned maps;
    int64_t piece_bytes;  // split operand of all its ranks and rounds
    int64_t c_in_bytes;   // C_in of all its ranks and rounds, float32; 0 if beta is 0
    int64_t result_bytes; // C of all its ranks and rounds, float32
    // All panels of the whole operand that it needs; 0: no work.
    int64_t whole_bytes;
    int piece_lanes;                           // 0, 1 (one round) or 2
    int64_t piece_lane_bytes, c_in_lane_bytes; // bytes of the largest round
    int64_t whole_slots;                       // 0; all panels it needs, which then stay; or fewer
    bool whole_stays;                          // every panel keeps its slot and arrives once
    // The node takes part in scatter and gather: a product of the run gives it work.
    bool participates;
    bool claims; // several of its ranks have work, and blocks may be stolen
    // Checks of its ranks project the whole operand, not their pieces (exec/worker/verify.h).
    bool checks_whole;
    int64_t whole_slot_bytes;
    int64_t result_slots; // 0; or one per pass; or fewer
    int64_t result_slot_bytes;
    int64_t segment_bytes; // all lanes and slots
    int64_t private_bytes; // private work space of all its ranks
    int64_t network_bytes; // network traffic to it and from it; 0 for root's node
    int64_t memory_bytes;  // memory that the plan may use here
    int chain_place;       // position of its leader in the relay chain: 1, 2, ...; 0: not in it
    char host[64];
};

struct mmul_schedule {
    struct mmul_problem problem;
    enum mmul_axis axis;
    bool axis_chosen; // chosen by bytes moved, not by the user
    enum mmul_split_rule rule;
    int64_t total; // units of the split range
    int size, node_count;
    int64_t rounds; // pieces of every rank's part, worked off one by one; 1: in core
    // Units of the whole operand per panel: columns of B by rows, rows of A by cols.
    int64_t panel_units;
    int64_t panel_matrices;    // matrices of the whole operand per panel; > 1: they are not cut
    bool whole_is_distributed; // ranks have rows of the whole operand; else root has it
    double claim_share;        // share of a block that is cut into stealable tasks; 0: none
    int64_t slice_terms; // least terms of the inner range summed at once in such a block; 0: all
    bool may_steal;      // other nodes may compute rows of a late rank, which move to them
    int64_t root_bytes;  // through root's link, both ways
    // Network traffic of both axes, from which the axis was chosen.
    int64_t rows_bytes_moved, cols_bytes_moved;
    double link_bytes_per_second; // assumed if links are not measured
    double transfer_seconds;      // predicted time that links and files are busy
    // Predicted for the whole run, overlap included; 0: not known.
    double predicted_seconds;
    // Rank predicted to end last; the next line splits its seconds.
    int last_rank;
    double compute_seconds, waiting_seconds; // computing; waiting for bytes
    char limits[96];                         // slow part according to the prediction
    char speed_hint[160];                    // "" or "faster without rank 3: 4.1 s against 5.0 s"
    int64_t chunk_bytes;                     // root's buffers for scatter and gather; 0 on one node
    int64_t bytes;                           // size of this block
};

// Creates a schedule in which all but the sizes is 0. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_schedule_create(int size, int node_count, struct mmul_schedule **schedule,
                                      struct mmul_error *err);

// NULL is legal.
void mmul_schedule_free(struct mmul_schedule *schedule);

const struct mmul_schedule_rank *mmul_schedule_ranks(const struct mmul_schedule *schedule);
const struct mmul_schedule_node *mmul_schedule_nodes(const struct mmul_schedule *schedule);

// Sets if a node takes part in scatter and gather. Used for a schedule that is one of several.
void mmul_schedule_set_participation(struct mmul_schedule *schedule, int node, bool participates);

struct mmul_pass {
    int64_t index; // position in the list
    int64_t round;
    int64_t panel;                    // index in the round, 0 .. mmul_schedule_panels - 1
    int64_t matrix_begin, matrix_end; // matrices of the whole operand
    int64_t begin, end;               // units of the other axis, within each matrix
};

// Return the panels per round, the number of all passes, and one pass by its index.
int64_t mmul_schedule_panels(const struct mmul_schedule *schedule);
int64_t mmul_schedule_passes(const struct mmul_schedule *schedule);
struct mmul_pass mmul_schedule_pass(const struct mmul_schedule *schedule, int64_t index);

// Returns the units of `rank` in `round`. Their union over the rounds is the rank's part, in order.
struct mmul_range {
    int64_t begin, end;
};
struct mmul_range mmul_schedule_part(const struct mmul_schedule *schedule, int rank, int64_t round);

// Iterates over the stretches of `range` that use the matrices of the pass, in order:
//     for (walk = mmul_schedule_walk(schedule, range, pass); mmul_schedule_next(&walk, &stretch);)
struct mmul_stretch_walk {
    const struct mmul_schedule *schedule;
    struct mmul_range range;
    struct mmul_pass pass;
    int64_t index, count;
};
struct mmul_stretch_walk mmul_schedule_walk(const struct mmul_schedule *schedule,
                                            struct mmul_range range, struct mmul_pass pass);
bool mmul_schedule_next(struct mmul_stretch_walk *walk, struct mmul_matrix_range *stretch);

// Returns the units that a rank computes in a pass. The block has units x (pass.end - pass.begin)
// elements of C.
int64_t mmul_schedule_units(const struct mmul_schedule *schedule, int rank, struct mmul_pass pass);

// Returns the number of passes in which a rank has work: all of them, or with several whole
// matrices those of its own matrices.
int64_t mmul_schedule_passes_of(const struct mmul_schedule *schedule, int rank);

// Returns true if the pass's panel is put into the node's memory for this pass. Then a rank of the
// node has work in the pass, the operand is not mapped there, and no earlier round left the panel
// there.
bool mmul_schedule_loads(const struct mmul_schedule *schedule, int node, struct mmul_pass pass);

// Return the rows of the pass's panel, counted over its matrices, that a rank has of a spread whole
// operand; and the bytes of each row.
struct mmul_range mmul_schedule_whole_rows(const struct mmul_schedule *schedule, int rank,
                                           struct mmul_pass pass);
int64_t mmul_schedule_whole_row_bytes(const struct mmul_schedule *schedule, struct mmul_pass pass);

// Returns the bytes of the pass's panel of the whole operand. The result is not 0 for a mapped
// operand.
int64_t mmul_schedule_panel_bytes(const struct mmul_schedule *schedule, struct mmul_pass pass);

// Returns the pass's rectangle of matrix `matrix` of the whole operand.
struct mmul_region mmul_pass_panel(const struct mmul_schedule *schedule, struct mmul_pass pass,
                                   int64_t matrix);
// Returns the rectangle of C of a stretch in a pass.
struct mmul_region mmul_pass_result(const struct mmul_schedule *schedule, struct mmul_pass pass,
                                    struct mmul_matrix_range stretch);
