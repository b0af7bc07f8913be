// SPDX-License-Identifier: MIT
//
// A move: a value that is placed in one way becomes placed in another. Pure: from node to node it is
// a list of pieces, computed as it is walked and never stored; sender and receiver walk the same
// one. A piece is a rectangle of one matrix that one holder has and another one needs.
//
// Every byte crosses the network at most once to each node that needs it. What a node has whole it
// takes from itself; where only some have it, each of the other nodes takes it from one of theirs. Of
// summands (partial) every node first adds up those of its own ranks; what arrives is added. Into
// summands nothing travels: each holder keeps its part as its summand, and the rest of it is 0. That is
// for placements of the same holders.
//
// All nodes walk in the order of stages: in stage s node i sends to node i + s and receives from node
// i - s, around; stage 0 is what stays on the node.
#pragma once

#include "model/placement.h"

struct mmul_move {
    struct mmul_shape shape;
    struct mmul_placement from, to;
    int size, node_count;
    const int *rank_node;      // size: node of each rank, borrowed; rank 0 is root
    struct mmul_region window; // of every matrix what is moved; no rows: all of it
};

// One of `panels` panels of a range of k, the `turn`-th of a node that begins with panel `first`: nodes
// that begin with different ones do not all ask the same owner.
struct mmul_panel {
    int64_t begin, end;
};
static inline struct mmul_panel mmul_move_panel(int64_t k, int panels, int first, int turn) {
    int64_t index = (first + turn) % panels;
    return (struct mmul_panel){k * index / panels, k * (index + 1) / panels};
}

struct mmul_move_piece {
    struct mmul_region region;
    int from_rank; // the holder; -1: the node's whole, or (is_sum) the sum of its ranks' summands
    int to_rank;   // -1: the node's whole, or root's file
    bool is_sum;   // to be added to what is there
};

// The pieces from one node to another, of at most `most_elements` each.
struct mmul_move_walk {
    const struct mmul_move *move;
    int from_node, to_node;
    int64_t most_elements;
    int from_rank, to_rank;  // holders at hand
    int64_t matrix;          // the next one
    struct mmul_region rest; // of the rectangle at hand: what has not been walked
    int64_t col;             // where the next piece of its first row begins
};

struct mmul_move_walk mmul_move_walk(const struct mmul_move *move, int from_node, int to_node,
                                     int64_t most_elements);

// False when there are no more pieces.
bool mmul_move_next(struct mmul_move_walk *walk, struct mmul_move_piece *piece);
