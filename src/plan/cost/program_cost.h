// SPDX-License-Identifier: MIT
//
// The cost model of a program: predicted seconds of moves and operations, one after the other.
// Pure, closed form: the same for two ranks and for thousands.
//
// Node i holds the part s_i of a split value (the sum of its ranks' shares), all of a value that is
// whole there, and nothing of a file on another node. T bytes move:
//
//     i to j   T has_i wants_j, i != j, unless j has all of it; one of several copies is sent
//     handed on  the same, from the ranks of one group to those of another (model/rank_groups.h)
//     grid     to grid rows: the blocks go to the other nodes of their row of the mesh; to grid
//              cols likewise (mesh.h)
//     move     max over nodes of (bytes out, bytes in) / B_i + latency per stage (of a grid: per
//              node of a row) + T max wants_j / copy + T / file if one end is a file
//              + for summands the bytes that their check reads, and a sum of vectors (below)
//     matmul   max over ranks of (its operations / its rate + bytes to and from its device);
//              the ranks of a node share a product that is wanted whole
//              + max over ranks of the bytes that its check reads: for a grid a block of A, B and C
//              each, and three sums of vectors over the nodes, which cost their bytes twice and
//              2 (nodes - 1) latencies each, or 2 log2 nodes if short
//     others   max over ranks of operations / a part of its rate, over nodes of bytes / memory's
//
// A step that the ranks of a node make together, or a move, waits for the last rank.
//
// Only two things overlap. The moves of a grid's blocks overlap with their product: in P panels of
// the inner range both take max(M, matmul) + min(M, matmul) / P. M is the larger of the links' time
// and packing, which overlap too; the copies within a node come before. A product overlaps likewise
// with the files that it reads itself; then M is the whole move.
#pragma once

#include "model/cluster.h"
#include "model/program.h"
#include "plan/parts/mesh.h"

struct mmul_program_costs {
    int size, node_count;
    int *rank_node; // size, owned
    double *shares; // size, owned: shares of every split value; sum to 1
    // Values with this many groups of rows are split between groups; 1: at any row.
    int64_t groups;
    int64_t *group_offsets;         // size + 1, owned: groups of each rank
    double *node_shares;            // node_count, owned
    double (*flops)[2];             // size, owned: per second in float32, in float64
    double *transfer;               // size, owned: seconds per byte to or from its device; 0: none
    double *check_bytes_per_second; // size, owned: bytes that its check reads
    // Node_count, owned: bytes that operations read and write, all ranks of the node together.
    double *map_bytes_per_second;
    // Columns of a block of cyclic values; 0: the program has none, and no rule uses them.
    int64_t block_cols;
    // For values that are grids; 1 x size until mmul_program_costs_mesh.
    struct mmul_mesh mesh;
    struct mmul_holders *holders;             // owned; members of a group; NULL: all ranks
    double bytes_per_second, latency_seconds; // slowest link
    // node_count, owned: link of each node; for root's node the fastest.
    double *node_bytes_per_second;
    bool streams;      // products are split by rows or columns
    bool keeps_values; // no product reads its files itself
};

// Computes costs and shares. weights: one per rank. With groups > 1 the shares are the groups that
// the ranks get; with 1 group they follow the weights. group: holders of the values; NULL: all
// ranks. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_costs_init(struct mmul_program_costs *costs,
                                         const struct mmul_cluster *cluster, const double *weights,
                                         int64_t groups, const struct mmul_rank_group *rank_group,
                                         struct mmul_error *err);
void mmul_program_costs_fini(struct mmul_program_costs *costs);

// Chooses the mesh with which the product of these operands, both grids, ends first.
void mmul_program_costs_mesh(struct mmul_program_costs *costs,
                             const struct mmul_operand_info *operands, struct mmul_shape result);

// Returns the seconds of a whole move. A leader packs and unpacks beside the traffic. Writes the
// sum of the bytes on all links to `bytes`.
double mmul_program_move_seconds(const struct mmul_program_costs *costs,
                                 const struct mmul_value *value, enum mmul_placement_kind from,
                                 enum mmul_placement_kind to, double *bytes);

// Returns the seconds in which one group hands a value on to another: from a placement on its ranks
// to one on the other group's ranks.
double mmul_program_rank_group_move_seconds(const struct mmul_program_costs *from_costs,
                                            const struct mmul_program_costs *to_costs,
                                            const struct mmul_value *value,
                                            enum mmul_placement_kind from,
                                            enum mmul_placement_kind to, double *bytes);

// A path of a value from one of the placements in the set `have` (a bit per kind) to another
// placement: from the nearest of them, directly or by way of rows. A value with fewer rows than
// ranks goes by way of columns instead. Summands that every node needs take this way if it is
// shorter: the nodes add up a part each, and then send it to all others.
struct mmul_program_path {
    enum mmul_placement_kind from, by; // equal: directly
    double seconds;
};
struct mmul_program_path mmul_program_find_path(const struct mmul_program_costs *costs,
                                                const struct mmul_value *value, unsigned have,
                                                enum mmul_placement_kind to);

// Finds the path of a value that is handed on to another group: from the nearest placement, or by
// way of its own group's rows. It ends in rows, columns or whole matrices of the other group.
struct mmul_program_path mmul_program_find_rank_group_path(
    const struct mmul_program_costs *from_costs, const struct mmul_program_costs *to_costs,
    const struct mmul_value *value, unsigned have, enum mmul_placement_kind to);

// Returns the number of panels of an inner range: at most PANELS_MOST, each of at least PANEL_LEAST
// terms.
static inline int mmul_program_panels(int64_t k) {
    enum { PANELS_MOST = 16, PANEL_LEAST = 256 };
    int64_t panels = k / PANEL_LEAST;
    return panels < 1 ? 1 : panels > PANELS_MOST ? PANELS_MOST : (int)panels;
}

// Returns true if a move of that kind is carried out together with its product.
bool mmul_program_is_joined_move(enum mmul_placement_kind from, enum mmul_placement_kind to);

// Returns the seconds saved because the operation begins before the moves of these operands end:
// blocks of a grid, or files of a product split by rows or columns.
double mmul_program_overlap_saving(const struct mmul_program_costs *costs,
                                   const struct mmul_program *program,
                                   const struct mmul_operation *operation,
                                   const struct mmul_rule *rule, const bool joined[MMUL_FACTORS]);

// Returns the check's part of mmul_program_operation_seconds, for a product.
double mmul_program_check_seconds(const struct mmul_program_costs *costs,
                                  const struct mmul_program *program,
                                  const struct mmul_operation *operation,
                                  const struct mmul_rule *rule);

// Returns the seconds in which operations read, or write, a whole value.
double mmul_program_scan_seconds(const struct mmul_program_costs *costs,
                                 const struct mmul_value *value, enum mmul_placement_kind kind);

double mmul_program_operation_seconds(const struct mmul_program_costs *costs,
                                      const struct mmul_program *program,
                                      const struct mmul_operation *operation,
                                      const struct mmul_rule *rule);
