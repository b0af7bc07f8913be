// SPDX-License-Identifier: MIT
//
// Where a value is: which rank or node holds which part of it. Pure.
//
//     file       whole, with root: on its disk or in its caller's memory
//     rows       rank r holds units [o_r, o_r+1) of the rows of all matrices, one after the other
//     cols       the same of the columns
//     grid       rank i * col_parts + j holds rows [r_i, r_i+1) of those and columns [c_j, c_j+1) of
//                every matrix
//     replicate  whole, once on every node, shared by its ranks
//     partial    a summand as large as the value on every rank; the value is their sum
//     grid rows  rank i * col_parts + j holds rows [r_i, r_i+1) whole: the ranks of a row of the mesh
//                hold copies, which those of one node share
//     grid cols  columns [c_j, c_j+1) of every matrix, in the same way
//
// A value may be on some of the ranks only, its holders: the others have no part of rows or columns and no summand,
// and nodes without one have no copy. Not of grids, nor of files.
//
// Parts are uneven, empty ones legal. Whoever holds a part holds of every matrix at most one
// rectangle, and of consecutive matrices: a part is these rectangles one after the other, each in C
// order (or all of them transposed, which is the business of whoever owns the memory).
#pragma once

#include "mpimatmul_local.h"

enum { MMUL_PLACEMENTS = MMUL_PLACE_GRID_COLS + 1 };

struct mmul_holders {
    const bool *ranks; // of each: is it one?
    const bool *near;  // ... has its node one, and with it what is whole there?
    const bool *nodes; // of each: has it one?
    int first, count;  // of these
    int size;          // of all ranks
};

struct mmul_placement {
    enum mmul_placement_kind kind;
    int row_parts, col_parts;           // of what is split, or of the mesh; 1 where it is not
    const int64_t *row_offsets;         // row_parts + 1, borrowed; NULL: not split by rows
    const int64_t *col_offsets;         // col_parts + 1, borrowed; NULL: not split by columns
    const struct mmul_holders *holders; // borrowed; NULL: all ranks
};

// Has every holder all of it (file, replicate, partial)?
bool mmul_placement_is_whole(enum mmul_placement_kind kind);

// Is it over a mesh of ranks (grid, grid rows, grid cols)?
bool mmul_placement_is_mesh(enum mmul_placement_kind kind);

// The first rank that has anything of what is whole.
int mmul_placement_first(const struct mmul_placement *placement);

// Has a node all of what is whole on the nodes of its holders?
bool mmul_placement_is_on(const struct mmul_placement *placement, int node);

// Who has the same part as `rank`: rank `first`, then every `step` ranks, `count` in all. Not for what is
// whole.
struct mmul_part_copies {
    int first, step, count;
};
struct mmul_part_copies mmul_placement_copies(const struct mmul_placement *placement, int rank);

// The ranks of a node share the memory of their copies: the first of those on `node` that have the same
// part as `rank`, which stands for all of them; -1: the node has none. rank_node: of every rank.
int mmul_placement_first_copy(const struct mmul_placement *placement, const int *rank_node,
                              int rank, int node);

// "rows", "cols", "grid", ... ; "rows 0 2050 3075 4096", "grid 0 5 7 x 0 3 9"; with many parts
// "rows in 16 parts". Returns `text`.
const char *mmul_placement_name(enum mmul_placement_kind kind);
char *mmul_placement_format(const struct mmul_placement *placement, char text[static 96]);

// The part that `rank` holds: matrices [matrix_begin, matrix_end). rank -1: of what is whole all of it, whoever it is.
struct mmul_part_range {
    int64_t matrix_begin, matrix_end;
    int64_t elements;
};
struct mmul_part_range mmul_placement_part(const struct mmul_placement *placement,
                                           struct mmul_shape shape, int rank);

// The rectangle of one of those matrices, and how many elements of the part come before it.
struct mmul_region mmul_placement_region(const struct mmul_placement *placement,
                                         struct mmul_shape shape, int rank, int64_t matrix,
                                         int64_t *offset);
