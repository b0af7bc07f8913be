// SPDX-License-Identifier: MIT
//
// Predicted seconds of the parts of a program: moves and operations, one after the other. Pure,
// closed form: the same for two ranks and for thousands.
//
// Node i holds the part s_i of a value that is split (the sum of its ranks' shares), all of one that
// is whole there, nothing of a file that is elsewhere; T bytes move:
//
//     i to j   T has_i wants_j, i != j, where j has not all of it already; of copies one sends
//     handed on  the same from the ranks of one team to those of another (model/teams.h)
//     grid     to grid rows: its blocks to the other nodes of its row of the mesh; to grid cols
//              the same (mesh.h)
//     move     max over nodes of (bytes out, bytes in) / B_i + latency per stage (of a grid: per node of a row)
//              + T max wants_j / copy + T / file where one end is a file
//              + of summands what their check reads, and a sum of vectors (below)
//     matmul   max over ranks of (operations it does / its rate + bytes to and from its device); a
//              product that is wanted whole is shared by the ranks of each node
//              + max over ranks of the bytes that its check reads: of a grid a block of A, B and C each,
//              and three sums of vectors over the nodes: their bytes twice and 2 (nodes - 1) latencies
//              each, of short ones 2 log2 nodes
//     others   max over ranks of operations / a part of its rate, over nodes of bytes / memory's
//              what the ranks of a node make together, or move, waits for the last of them
//
// Nothing overlaps but the moves of a grid's blocks and their product: in P panels of the inner range
// that is max(M, matmul) + min(M, matmul) / P, M the links' time or that of packing, which go on at
// the same time; what stays on the node is copied before. So do the files that a product brings itself, and their
// product; M is the whole move.
#pragma once

#include "model/cluster.h"
#include "model/program.h"
#include "plan/parts/mesh.h"

struct mmul_program_costs {
    int size, node_count;
    int *rank_node; // size, owned
    double *shares; // size, owned: of every value that is split; add up to 1
    // Values that have so many groups of rows are split between them; 1: anywhere.
    int64_t groups;
    int64_t *group_offsets;         // size + 1, owned: groups of each rank
    double *node_shares;            // node_count, owned
    double (*flops)[2];             // size, owned: per second in float32, in float64
    double *transfer;               // size, owned: seconds per byte to or from its device; 0: none
    double *check_bytes_per_second; // size, owned: what its check reads
    double *
        map_bytes_per_second; // node_count, owned: what operations read and write, all ranks of it together
    struct mmul_mesh mesh; // of values that are grids; 1 x size until mmul_program_costs_mesh
    struct mmul_holders *holders;             // owned; of a team: who it is; NULL: all ranks
    double bytes_per_second, latency_seconds; // the slowest link
    double *node_bytes_per_second; // node_count, owned: of each; of root's node the fastest
    bool streams;                  // products are of rows or columns
    bool keeps_values;             // no product brings its files itself
};

// weights: of the ranks. Shares are what the ranks get of so many groups; of 1 group as the weights say. team: whose
// values they are; NULL: of all ranks. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_costs_init(struct mmul_program_costs *costs,
                                         const struct mmul_cluster *cluster, const double *weights,
                                         int64_t groups, const struct mmul_team *team,
                                         struct mmul_error *err);
void mmul_program_costs_fini(struct mmul_program_costs *costs);

// Takes the mesh with which a product of these, both grids, is over first.
void mmul_program_costs_mesh(struct mmul_program_costs *costs,
                             const struct mmul_operand_info *operands, struct mmul_shape result);

// Of a whole move; what a leader packs and unpacks goes on beside the traffic. bytes: over the network, all
// links together.
double mmul_program_move_seconds(const struct mmul_program_costs *costs,
                                 const struct mmul_value *value, enum mmul_placement_kind from,
                                 enum mmul_placement_kind to, double *bytes);

// Of values that one team hands on to another: from a placement over the first one's ranks to one over the other's.
double mmul_program_handing_seconds(const struct mmul_program_costs *from_costs,
                                    const struct mmul_program_costs *to_costs,
                                    const struct mmul_value *value, enum mmul_placement_kind from,
                                    enum mmul_placement_kind to, double *bytes);

// How a value that is in the placements of the set `have` (a bit per kind) gets into another one:
// from the nearest of them, directly or by way of rows.
struct mmul_program_path {
    enum mmul_placement_kind from;
    bool by_rows;
    double seconds;
};
struct mmul_program_path mmul_program_find_path(const struct mmul_program_costs *costs,
                                                const struct mmul_value *value, unsigned have,
                                                enum mmul_placement_kind to);

// The same of one that is handed on, from the nearest of them or by way of its team's rows; to rows, columns or whole
// matrices of the other team.
struct mmul_program_path mmul_program_find_handing(const struct mmul_program_costs *from_costs,
                                                   const struct mmul_program_costs *to_costs,
                                                   const struct mmul_value *value, unsigned have,
                                                   enum mmul_placement_kind to);

// Panels of an inner range, at most and of at least so much.
static inline int mmul_program_panels(int64_t k) {
    enum { PANELS_MOST = 16, PANEL_LEAST = 256 };
    int64_t panels = k / PANEL_LEAST;
    return panels < 1 ? 1 : panels > PANELS_MOST ? PANELS_MOST : (int)panels;
}

// Is a move of that kind carried out together with the product that it is for?
bool mmul_program_joins(enum mmul_placement_kind from, enum mmul_placement_kind to);

// What is saved because the operation begins before the moves of these operands have ended: blocks of a grid's, those
// from files of a product of rows or columns.
double mmul_program_joined_saving(const struct mmul_program_costs *costs,
                                  const struct mmul_program *program,
                                  const struct mmul_operation *operation,
                                  const struct mmul_rule *rule, const bool joined[MMUL_FACTORS]);

// Of a product: the check's share of the next one.
double mmul_program_check_seconds(const struct mmul_program_costs *costs,
                                  const struct mmul_program *program,
                                  const struct mmul_operation *operation,
                                  const struct mmul_rule *rule);

// Seconds in which operations read, or write, all of such a value.
double mmul_program_pass_seconds(const struct mmul_program_costs *costs,
                                 const struct mmul_value *value, enum mmul_placement_kind kind);

double mmul_program_operation_seconds(const struct mmul_program_costs *costs,
                                      const struct mmul_program *program,
                                      const struct mmul_operation *operation,
                                      const struct mmul_rule *rule);
