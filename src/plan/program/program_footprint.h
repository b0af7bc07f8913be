// SPDX-License-Identifier: MIT
//
// What the steps of a program need beside the values, on every rank; and what a run has of that in all. Sizes alone,
// and pure: the run makes its rooms as large as these say.
//
// A run has for all of its steps, each as large as the largest of them wants it: its segment on every node
// (plan/lists/footprint.h); on every rank the check's vectors, two tiles of what is between fused operations, pieces of
// moves, buffers of channels; and what a single step has while it is carried out, such as the tile of a search.
#pragma once

#include "plan/lists/blocks.h"
#include "plan/lists/footprint.h"

// What the functions below need of a plan that has its places and steps: its ranks, with what tables say of them and
// what devices want and may have, and what is read again. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_footprint_prepare(struct mmul_program_plan *plan,
                                                const struct mmul_cluster *cluster,
                                                struct mmul_error *err);

// ------------------------------------------------------------------------------- values read again

// Do several products read what a place has in memory, and are its sums for the check kept for them? Not of what is in
// a file.
bool mmul_program_is_read_again(const struct mmul_program_plan *plan, int place);

// --------------------------------------------------------------------------------- sums of vectors

// Vectors of doubles that ranks add up in a step, in rounds, and where each of them ends.
enum { MMUL_SUMS_ROUNDS = 3 };
struct mmul_sums {
    int rounds; // 0: nothing
    int64_t ends[MMUL_SUMS_ROUNDS];
};

// Of the check of a product on the mesh (three rounds), of summands that are added up (one); else of nothing.
struct mmul_sums mmul_program_sums(const struct mmul_program_plan *plan,
                                   const struct mmul_program_step *step);

// Which memory of the run's segment a step has.
enum mmul_segment_user mmul_program_segment_user(const struct mmul_program_plan *plan,
                                                 const struct mmul_program_step *step);

// A vector of each rank of a node.
int64_t mmul_sums_bytes(const struct mmul_sums *sums, int ranks);

// Lines of a move's result whose sums are compared: sums of all, then sizes: of each row of parts, matrix and line.
struct mmul_sum_lines {
    bool by_cols;
    int64_t length, matrices, count;
};
struct mmul_sum_lines mmul_program_sum_lines(const struct mmul_move *move);

// A rank's place in the check of a product on the mesh.
struct mmul_grid_part {
    int64_t matrices, m, n, k;
    int col;                          // of the mesh
    struct mmul_panel cols;           // of its blocks of B and C
    struct mmul_panel b_rows, a_cols; // its share of k
};

// False: it has none, and all panels are empty.
bool mmul_program_grid_part(const struct mmul_program_plan *plan,
                            const struct mmul_program_step *step, int rank,
                            struct mmul_grid_part *part);

// The check's room, in either direction.
int64_t mmul_grid_part_most(const struct mmul_grid_part *part);

// ---------------------------------------------------------------------------------------- products

// Of a step that multiplies blocks, or searches: the rank's largest product along each side; m = 0: there is none.
struct mmul_block_sizes {
    int64_t m, n, k;
};
struct mmul_block_sizes mmul_program_block_sizes(const struct mmul_program_plan *plan,
                                                 const struct mmul_program_step *step, int rank);

// What the check of a step's products asks for, blocks' or (its plan is there) those of rows or columns.
struct mmul_check_need mmul_program_check_need(const struct mmul_program_plan *plan,
                                               const struct mmul_program_step *step, int rank);

// Elements of the memory that a search has: of a tile of the product, of the best of its rows, of a row.
struct mmul_search_size {
    int64_t rows, cols; // of a tile
    int64_t product, best, merged;
};
struct mmul_search_size mmul_program_search_size(const struct mmul_program_plan *plan,
                                                 const struct mmul_program_step *step,
                                                 int64_t rows_most);

// -------------------------------------------------------------------------------- fused operations

// What goes through the fused operations of a step next, of what a rank has: a block, or of many matrices all rows
// together.
// walk: of the step whose `made` is its result.
bool mmul_program_next_fused(struct mmul_block_walk *walk, struct mmul_region *part);

// Elements of the rank's part, and of a tile of it; tiles that are not of values in memory.
struct mmul_epilogue_size {
    int64_t all, tile;
    int tiles;
};
struct mmul_epilogue_size mmul_program_epilogue_size(const struct mmul_program_plan *plan,
                                                     const struct mmul_program_step *step,
                                                     int rank);

// ----------------------------------------------------------------------------------------- samples

// Elements that are read and written for a sample of what a device has made, at most; or one row of it.
enum { MMUL_SAMPLE_WORK = 1 << 16 };

// ------------------------------------------------------------------------------------ all of a run

// Of the node's segment for such a run; of a rank's own. Products without a schedule count nothing yet.
int64_t mmul_program_segment_bytes(const struct mmul_program_plan *plan, int node);
int64_t mmul_program_own_bytes(const struct mmul_program_plan *plan, int rank);
