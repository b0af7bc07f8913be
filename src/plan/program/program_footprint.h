// SPDX-License-Identifier: MIT
//
// Sizes of the memory that the steps of a program need beside the values, per rank, and their total
// for a run. Pure: the run allocates its memory with these sizes.
//
// A run allocates most of this once, as large as its largest step needs it. Each node has a segment
// (plan/lists/footprint.h). Each rank has the check's vectors, two tiles for results between fused
// operations, pieces of moves and buffers of channels. A single step adds memory while it runs,
// such as the tile of a search.
#pragma once

#include "plan/lists/blocks.h"
#include "plan/lists/footprint.h"

// Prepares a plan with places and steps for the functions below: names and device limits of its
// ranks, and the values that several products read. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_footprint_prepare(struct mmul_program_plan *plan,
                                                const struct mmul_cluster *cluster,
                                                struct mmul_error *err);

// ------------------------------------------------------------------------------- values read again

// Returns true if several products read the memory of a place and its sums for the check are cached
// for them. False for a place in a file.
bool mmul_program_is_shared_operand(const struct mmul_program_plan *plan, int place);

// --------------------------------------------------------------------------------- sums of vectors

// Vectors of doubles that ranks sum in a step, in rounds, and the end of each round's part.
enum { MMUL_SUMS_ROUNDS = 3 };
struct mmul_sums {
    int rounds; // 0: no sums
    int64_t ends[MMUL_SUMS_ROUNDS];
};

// Returns the sums of a step: three rounds for the check of a product on the mesh, one for a move
// of summands, else none.
struct mmul_sums mmul_program_sums(const struct mmul_program_plan *plan,
                                   const struct mmul_program_step *step);

// Returns the kind of segment memory that a step uses.
enum mmul_segment_user mmul_program_segment_user(const struct mmul_program_plan *plan,
                                                 const struct mmul_program_step *step);

// Returns the bytes of one vector per rank of a node.
int64_t mmul_sums_bytes(const struct mmul_sums *sums, int ranks);

// Lines of a move's result with sums to compare: the sums of all lines, then their sizes, for each
// part, matrix and line. A part is a row of the mesh; or, if the result has few long rows that are
// split by columns, the columns of a rank. Else there is one.
struct mmul_sum_lines {
    bool by_cols;
    int64_t parts, matrices, length, count;
};
struct mmul_sum_lines mmul_program_sum_lines(const struct mmul_move *move);

// Part of a rank in the check of a product on the mesh.
struct mmul_grid_part {
    int64_t matrices, m, n, k;
    int col;                          // column of the mesh
    struct mmul_panel cols;           // columns of its blocks of B and C
    struct mmul_panel b_rows, a_cols; // share of k
};

// Returns false if the rank has no part. Then all panels are empty.
bool mmul_program_grid_part(const struct mmul_program_plan *plan,
                            const struct mmul_program_step *step, int rank,
                            struct mmul_grid_part *part);

// Returns the largest panel of a part, which sizes the check in either direction.
int64_t mmul_grid_part_largest_panel(const struct mmul_grid_part *part);

// ---------------------------------------------------------------------------------------- products

// The rank's largest product along each side, in a step that multiplies blocks or searches. m = 0:
// there is none.
struct mmul_block_sizes {
    int64_t m, n, k;
};
struct mmul_block_sizes mmul_program_block_sizes(const struct mmul_program_plan *plan,
                                                 const struct mmul_program_step *step, int rank);

// Return the size of the check of a step that multiplies blocks of these sizes, and of a product.
struct mmul_check_need mmul_program_block_check_need(const struct mmul_program_plan *plan,
                                                     const struct mmul_program_step *step,
                                                     struct mmul_block_sizes sizes);
struct mmul_check_need mmul_program_product_check_need(const struct mmul_program_plan *plan,
                                                       const struct mmul_program_step *step,
                                                       int rank);

// Elements of the memory of a search: of a tile of the product, of the best of its rows, of a
// merged row.
struct mmul_search_size {
    int64_t rows, cols; // sides of a tile
    int64_t product, best, merged;
};
struct mmul_search_size mmul_program_search_size(const struct mmul_program_plan *plan,
                                                 const struct mmul_program_step *step,
                                                 int64_t rows_most);

// -------------------------------------------------------------------------------- fused operations

// Writes the rank's next part for the fused operations of a step: a block, or with by_rows the rows
// of many matrices together. walk: blocks of the step with `made` set to its result. Returns false
// if there are no more parts.
bool mmul_program_next_fused_part(struct mmul_block_walk *walk, struct mmul_region *part);

// Elements of the rank's part and of a tile of it, and the number of tiles that hold no value in
// memory.
struct mmul_fusion_size {
    int64_t all, tile;
    int tiles;
};
struct mmul_fusion_size mmul_program_fusion_size(const struct mmul_program_plan *plan,
                                                 const struct mmul_program_step *step, int rank);

// ----------------------------------------------------------------------------------------- samples

// Most elements read and written for a sample of a device's result; or one row of it.
enum { MMUL_SAMPLE_WORK = 1 << 16 };

// ------------------------------------------------------------------------------------ all of a run

// Return the bytes of a node's segment, and of a rank's private memory, for a whole run. Products
// without a schedule count nothing yet.
int64_t mmul_program_segment_bytes(const struct mmul_program_plan *plan, int node);
int64_t mmul_program_rank_private_bytes(const struct mmul_program_plan *plan, int rank);
