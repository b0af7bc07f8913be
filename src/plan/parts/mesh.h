// SPDX-License-Identifier: MIT
//
// A mesh arranges ranks in rows and columns, for values that are a grid. Rank i * cols + j has the
// block of rows i and columns j. Ranks beyond rows * cols have no block. Blocks are uneven: row i
// is a share r_i of the height, column j a share c_j of the width. The shares minimise
//
//     max over ranks of r_i c_j / rate_ij
//
// For given columns the best rows are r_i ~ min over j of rate_ij / c_j, and likewise for columns.
// Alternating between both never makes the result worse. The search starts from several points and
// keeps the best result. Pure.
//
// A product of two grids moves rows of the first operand along the rows of the mesh, and columns of
// the second one along its columns (SUMMA), in panels of the inner range. A rank multiplies each
// panel when it has arrived. Nodes begin with different panels (mmul_move_panel), so that all
// owners send at once. The ranks of a node share what they have alike.
#pragma once

#include "mpimatmul_local.h"

// Load of a node for a value that is a grid, as fractions of the value.
struct mmul_mesh_node {
    double block;      // blocks of the node
    double rows, cols; // rows (columns) in which the node has blocks, as a whole
    // Sent by the node so that all nodes have their whole rows (columns).
    double row_sends, col_sends;
};

struct mmul_mesh {
    int rows, cols;
    double *row_shares, *col_shares;   // owned, `size` each; sum to 1
    struct mmul_mesh_node *nodes;      // owned
    double block_most;                 // largest block of a rank
    int row_nodes, col_nodes;          // number of nodes of the row (column) that is on most nodes
    int *last_row, *last_col;          // owned work space, one per node each
    double *row_scratch, *col_scratch; // owned work space
};

// Ranks of a mesh. All pointers are borrowed.
struct mmul_mesh_request {
    int size, node_count;
    const int *rank_node;
    const double *rates; // speed of each rank, relative; 0: the rank gets nothing
};

// Allocates room for every mesh of `request->size` ranks. The mesh is 1 x size afterwards.
enum mmul_status mmul_mesh_init(struct mmul_mesh *mesh, const struct mmul_mesh_request *request,
                                struct mmul_error *err);
void mmul_mesh_fini(struct mmul_mesh *mesh);

// Computes shares and nodes of a mesh of `rows` x `cols`. `evenness` 0 gives the shares above, 1
// gives equal shares, which move the fewest bytes. Allocates nothing. Returns false if every rank's
// share would be 0.
bool mmul_mesh_set(struct mmul_mesh *mesh, const struct mmul_mesh_request *request, int rows,
                   int cols, double evenness);

// Returns the begin of a mesh line's part in a range of `total`, by these shares.
int64_t mmul_mesh_begin(const double *shares, int line, int64_t total);

// Returns true if a mesh of `rows` rows is worth an evaluation: it leaves no rank idle, or it is
// nearly square and leaves at most a quarter of the ranks idle.
bool mmul_mesh_is_candidate(int size, int rows);
