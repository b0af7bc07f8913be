// SPDX-License-Identifier: MIT
//
// Ranks as a mesh of rows and columns, for values that are a grid: rank i * cols + j has the block of
// rows i and columns j; ranks beyond rows * cols have none. Blocks are uneven: row i is a share r_i of
// the height, column j a share c_j of the width, such that
//
//     max over ranks of r_i c_j / rate_ij   is least
//
// For given columns the best rows are r_i ~ min over j of rate_ij / c_j, and the other way round;
// taken in turn they do not get worse, and of several beginnings the best end is kept. Pure.
#pragma once

#include "mpimatmul_local.h"

// What a node has to do with a value that is a grid, as parts of the value.
struct mmul_mesh_node {
    double block;                // its blocks
    double rows, cols;           // the rows (columns) in which it has blocks, whole
    double row_sends, col_sends; // what it sends so that all have their rows (columns) whole
};

struct mmul_mesh {
    int rows, cols;
    double *row_shares, *col_shares; // owned, of `size` each; add up to 1
    struct mmul_mesh_node *nodes;    // owned
    double block_most;               // of a rank
    int row_nodes, col_nodes;        // of the row (column) that is on most nodes
    int *last_row, *last_col;        // owned: work space, one per node each
    double *row_rest, *col_rest;     // owned: work space
};

// Of the ranks; borrowed.
struct mmul_mesh_request {
    int size, node_count;
    const int *rank_node;
    const double *rates; // of ranks, relative to each other; 0: it gets nothing
};

// Room for every mesh of that many ranks; the mesh is 1 x size.
enum mmul_status mmul_mesh_init(struct mmul_mesh *mesh, const struct mmul_mesh_request *request,
                                struct mmul_error *err);
void mmul_mesh_fini(struct mmul_mesh *mesh);

// Shares and nodes of a mesh of so many rows and columns. `evenness`: 0 as above, 1 all alike, which
// moves least. Allocates nothing. False when no share of any rank would be more than 0.
bool mmul_mesh_set(struct mmul_mesh *mesh, const struct mmul_mesh_request *request, int rows,
                   int cols, double evenness);

// Where the part of a line of the mesh begins in a range of `total`, by these shares.
int64_t mmul_mesh_begin(const double *shares, int line, int64_t total);

// Is it worth a look? Meshes without idle ranks; with up to a quarter of them idle, or what there is,
// such that are nearly square.
bool mmul_mesh_is_candidate(int size, int rows);
