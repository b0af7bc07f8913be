// SPDX-License-Identifier: MIT
//
// A move changes the placement of a value. Pure. The move from node to node is a list of pieces,
// computed during the walk and never stored. Sender and receiver walk the same list. A piece is a
// rectangle of one matrix that one holder has and another holder needs.
//
// Every byte crosses the network at most once per node that needs it. A node that has the whole
// value takes it from itself. If only some nodes have it, each other node takes it from one of
// them. Summands (partial) are added up within each node first; the receiver adds what arrives. A
// move into summands sends nothing: each holder keeps its part as its summand, and the rest of the
// summand is 0. This case requires placements with the same holders.
//
// All nodes walk in stages. In stage s node i sends to node i + s and receives from node i - s,
// both modulo the number of nodes. Stage 0 is the part that stays on the node.
//
// The pieces here also decide how summands cross the network; plan/lists/transfers.c decides their
// order. Vectors of checks are summed in comm/message.c instead. plan/cost/program_cost.c has the
// cost of both.
#pragma once

#include "model/placement.h"

struct mmul_move {
    struct mmul_shape shape;
    struct mmul_placement from, to;
    int size, node_count;
    const int *rank_node;      // node of each rank (size), borrowed; rank 0 is root
    struct mmul_region window; // part of every matrix that is moved; no rows: all of it
};

// Returns one of `panels` panels of a range of k: the `turn`-th panel of a node that begins with
// panel `first`. Nodes begin with different panels, so that they do not all ask the same owner.
struct mmul_panel {
    int64_t begin, end;
};
static inline struct mmul_panel mmul_move_panel(int64_t k, int panels, int first, int turn) {
    int64_t index = (first + turn) % panels;
    return (struct mmul_panel){k * index / panels, k * (index + 1) / panels};
}

struct mmul_move_piece {
    struct mmul_region region;
    int from_rank; // holder; -1: the node's whole value, or (is_sum) the sum of its ranks' summands
    int to_rank;   // -1: the node's whole value, or root's file
    bool is_sum;   // the receiver adds the piece to its memory
};

// Iterates over the pieces from one node to another, of at most `most_elements` each.
struct mmul_move_walk {
    const struct mmul_move *move;
    int from_node, to_node;
    int64_t most_elements;
    int from_rank, to_rank;  // current holders
    int64_t matrix;          // next matrix
    int64_t pair;            // next pair of rectangles, one of each holder, in that matrix
    struct mmul_region rest; // unwalked rows of the current rectangle
    int64_t col;             // begin of the next piece within the first row of `rest`
};

struct mmul_move_walk mmul_move_walk(const struct mmul_move *move, int from_node, int to_node,
                                     int64_t most_elements);

// Returns false if there are no more pieces.
bool mmul_move_next(struct mmul_move_walk *walk, struct mmul_move_piece *piece);
