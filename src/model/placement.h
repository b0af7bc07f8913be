// SPDX-License-Identifier: MIT
//
// Placement of a value: the parts of it that ranks or nodes hold. Pure.
//
//     file       whole, on root: on its disk or in its caller's memory
//     rows       rank r holds units [o_r, o_r+1) of the consecutive rows of all matrices
//     cols       the same for columns
//     grid       rank i * col_parts + j holds rows [r_i, r_i+1) of those and columns
//                [c_j, c_j+1) of every matrix
//     replicate  whole, once on every node, shared by its ranks
//     partial    a summand as large as the value on every rank; the value is their sum
//     grid rows  rank i * col_parts + j holds rows [r_i, r_i+1) whole: the ranks of a row of the
//                mesh hold copies, which those of one node share
//     grid cols  columns [c_j, c_j+1) of every matrix, in the same way
//
//     cyclic     rank r holds some blocks of columns of every matrix (plan/parts/deal.h)
//
// A cyclic value is split by columns in another order: its parts are stored as if the columns of
// the matrix stood rank after rank, the blocks of a rank in their own order. Operations that treat
// all columns alike work on these **stored columns**, of which a part has one range. Only moves,
// and readers of parts, need the columns of the matrix.
//
// A value may be on some of the ranks only, its holders. The other ranks then have no rows, columns
// or summand, and nodes without a holder have no copy. Not for grids or files.
//
// Parts are uneven, empty ones legal. A part has at most one stored rectangle of every matrix, and
// of consecutive matrices. It is stored as these rectangles one after the other, each in C order,
// or all of them transposed, which only the owner of the memory knows.
//
// To add a placement: its name in include/mpimatmul_local.h, its parts in placement.c, then
//     offsets                 plan/program/program_make.c
//     its bit in the search             plan/program/program_choose.c (placement_bits)
//     on some of the ranks    model/rank_groups.c
//     pieces of its moves     plan/parts/moves.c
//     cost of its moves       plan/cost/program_cost.c
//     blocks of a rank        plan/lists/blocks.c
//     memory                  plan/program/program_memory.c, exec/memory/values.c
//     rules                   model/operation.c
//     requests of users       tensor/placement_requests.c, io/placement_file.c, Python's
//                             _placements.py
// `grep -r MMUL_PLACE_` finds the remaining places.
#pragma once

#include "mpimatmul_local.h"

enum { MMUL_PLACEMENTS = MMUL_PLACE_CYCLIC + 1, MMUL_BLOCK_COLS = 64 };

struct mmul_holders {
    const bool *ranks; // for each rank: it is a holder
    // for each rank: its node has a holder, and with it a copy of replicated values
    const bool *ranks_of_nodes;
    const bool *nodes; // for each node: it has a holder
    int first, count;  // first holder and number of holders
    int size;          // number of all ranks
};

// Blocks of columns by rank: rank r holds blocks[first[r]] to blocks[first[r + 1] - 1], which
// ascend. Block b has columns [b * cols, (b + 1) * cols); the last one may be narrower.
struct mmul_dealt_blocks {
    int64_t cols;
    const int64_t *first, *blocks; // borrowed
};

struct mmul_placement {
    enum mmul_placement_kind kind;
    int row_parts, col_parts;           // parts of a split value, or of the mesh; 1 if not split
    const int64_t *row_offsets;         // row_parts + 1, borrowed; NULL: not split by rows
    const int64_t *col_offsets;         // col_parts + 1, borrowed; NULL: not split by columns
    const struct mmul_holders *holders; // borrowed; NULL: all ranks
    // cyclic: the blocks behind col_offsets, which count stored columns
    struct mmul_dealt_blocks dealt;
};

// Returns true if every holder has all of it (file, replicate, partial).
bool mmul_placement_is_whole(enum mmul_placement_kind kind);

// Returns true for placements on a mesh of ranks (grid, grid rows, grid cols).
bool mmul_placement_is_mesh(enum mmul_placement_kind kind);

// Returns the first rank that has any part of a whole value.
int mmul_placement_first(const struct mmul_placement *placement);

// Returns true if a node has all of a value that is whole on the nodes of its holders.
bool mmul_placement_covers_node(const struct mmul_placement *placement, int node);

// Ranks that have the same part as `rank`: rank `first`, then every `step` ranks, `count` in all.
// Not for whole values.
struct mmul_part_copies {
    int first, step, count;
};
struct mmul_part_copies mmul_placement_copies(const struct mmul_placement *placement, int rank);

// Returns the first rank on `node` with the same part as `rank`; the node's ranks share its memory.
// -1: the node has none. rank_node: node of every rank.
int mmul_placement_first_copy(const struct mmul_placement *placement, const int *rank_node,
                              int rank, int node);

// Format "rows", "cols", "grid", ... ; "rows 0 2050 3075 4096", "grid 0 5 7 x 0 3 9", "cyclic 64
// 0 128 192"; with many parts "rows in 16 parts". Returns `text`.
const char *mmul_placement_name(enum mmul_placement_kind kind);
char *mmul_placement_format(const struct mmul_placement *placement, char text[static 96]);

// The part that `rank` holds: matrices [matrix_begin, matrix_end). rank -1: all of a whole value,
// for any rank.
struct mmul_part_range {
    int64_t matrix_begin, matrix_end;
    int64_t elements;
};
struct mmul_part_range mmul_placement_part(const struct mmul_placement *placement,
                                           struct mmul_shape shape, int rank);

// Returns the stored rectangle of one of those matrices, and the number of elements of the part
// before it. Columns of a cyclic part are stored columns.
struct mmul_region mmul_placement_region(const struct mmul_placement *placement,
                                         struct mmul_shape shape, int rank, int64_t matrix,
                                         int64_t *offset);

// Returns the number of rectangles of the part in each of those matrices, in the columns of the
// matrix: 1, or the rank's blocks.
int64_t mmul_placement_rectangles(const struct mmul_placement *placement, int rank);

// Returns one of these rectangles; they ascend.
struct mmul_region mmul_placement_rectangle(const struct mmul_placement *placement,
                                            struct mmul_shape shape, int rank, int64_t matrix,
                                            int64_t index);

// Converts the columns of a region to stored columns. The region lies inside one rectangle.
struct mmul_region mmul_placement_stored(const struct mmul_placement *placement, int rank,
                                         struct mmul_region region);
