// SPDX-License-Identifier: MIT
//
// What moves in a run: per node and channel one list, computed from the plan alone, of all transfers
// that carry anything. All who take part in a channel walk the same list, so nothing about order is
// negotiated; what a transfer waits for and what it brings about are counters that only grow.
//
// Of a product with a schedule:
//
//     pieces, C_in of a round    scatter: from root's files to the nodes    read: to root's own node
//     panel of a pass            relay: from node to node, root first       load: to root's own node
//     rows of a spread panel     relay: from node to node, theirs first     load: to their own node
//     block of C of a pass       gather: from the nodes to root's file      store: of root's own node
//
// Of values that get another placement, in panels (of a product that takes them so; else one), piece by piece
// (plan/parts/moves.h); what stays on a node its ranks copy, which is in no list:
//
//     piece of a value           send, receive: from node to node           copy: root's own, from or to a file
#pragma once

#include "plan/lists/program_plan.h"
#include "plan/lists/schedule.h"

enum mmul_route {
    MMUL_ROUTE_SCATTER,
    MMUL_ROUTE_RELAY,
    MMUL_ROUTE_GATHER,
    MMUL_ROUTE_READ,
    MMUL_ROUTE_LOAD,
    MMUL_ROUTE_STORE,
    MMUL_ROUTE_SEND,
    MMUL_ROUTE_RECEIVE,
    MMUL_ROUTE_COPY,
    MMUL_ROUTES
};

enum mmul_content {
    MMUL_CONTENT_PIECES, // of a round, as stored
    MMUL_CONTENT_C_IN,   // of a round, float32
    MMUL_CONTENT_PANEL,  // of a pass, as stored; the same for every node
    MMUL_CONTENT_RESULT, // of a pass, float32
    MMUL_CONTENT_PART    // of a value
};

// Of a node.
enum mmul_counter {
    MMUL_NOTHING,
    MMUL_PASSES_DONE,      // computed by all of its ranks
    MMUL_ROUNDS_LOADED,    // their pieces and C_in are here
    MMUL_PASSES_LOADED,    // their panels are here; of a spread operand: what this node has of them
    MMUL_PASSES_RELAYED,   // of a spread operand: what the other nodes have of them is here
    MMUL_RESULTS_STORED,   // passes whose blocks of C have left
    MMUL_ROUNDS_SENT,      // root: scattered
    MMUL_PASSES_SENT,      // their panels have gone on to the next node
    MMUL_RESULTS_GATHERED, // root: passes whose blocks of C have come from the others
    MMUL_PANELS_SENT,      // of values that move
    MMUL_PANELS_RECEIVED,  // the same
    MMUL_PANELS_COPIED,    // the same, on root's node
    MMUL_COUNTERS
};

struct mmul_count {
    enum mmul_counter counter;
    int64_t value;
};

enum { MMUL_TRANSFER_WAITS = 2 };

struct mmul_transfer {
    enum mmul_route route;
    enum mmul_content content;
    struct mmul_pass pass; // pieces, C_in: the first one of the round
    int64_t bytes;         // that this node gets or gives; 0: it only takes part, with others
    int64_t slot;          // here, of the content's kind (of a round: its lane); -1: none
    int64_t offset;        // bytes into the panel, of rows of a spread one
    int from, to;          // relay: nodes; -1: it begins here, ends here
    bool in_place;         // store: C is mapped, the block lies in the file already
    int move;              // of a value: which of those that move together,
    struct mmul_move_piece piece; // ... and what of it
    struct mmul_count waits[MMUL_TRANSFER_WAITS];
    struct mmul_count brings; // when it is here (gather, store: when it has left)
    struct mmul_count frees;  // relay, send: when it has gone on, too
};

// Of a piece of a value, at most.
enum { MMUL_PART_BYTES = 1 << 20 };

// A step that moves a value, or two that bring one product its operands.
struct mmul_moving {
    const struct mmul_program_plan *plan;                // borrowed; NULL: nothing
    const struct mmul_program_step *steps[MMUL_FACTORS]; // borrowed
    int count;                                           // of these
    int panels;
};

struct mmul_transfers {
    const struct mmul_schedule *schedule; // borrowed; NULL: of what is moving
    enum mmul_route route;
    int node;
    int64_t next,
        end; // positions: rounds * 2, + 1 for C_in; else passes, times the parts of a panel
    // Of panels: passes that have been looked at, and how many of them are loaded here; the pass whose slot
    // is taken next, and how many that are loaded come before it.
    int64_t seen, loaded, oldest, before_oldest;
    // Of values: the next piece, and where the walk is: the panel, the move, the round, in which the peer is so many
    // nodes ahead of the sender.
    struct mmul_moving moving;
    struct mmul_move_piece piece;
    bool has_piece, is_open; // is_open: there is a walk
    int panel, move, round;
    struct mmul_move window; // what moves between the two in this panel
    struct mmul_move_walk walk;
};

// The list of a channel at a node; empty where it takes no part.
struct mmul_transfers mmul_transfers_make(const struct mmul_schedule *schedule, int node,
                                          enum mmul_route route);
struct mmul_transfers mmul_transfers_of_moving(const struct mmul_moving *moving, int node,
                                               enum mmul_route route);

// False at the end of the list.
bool mmul_transfers_next(struct mmul_transfers *transfers, struct mmul_transfer *transfer);

// What those taken so far have brought about when all of them are here; before the first, 0 unless the
// list begins later.
int64_t mmul_transfers_reached(const struct mmul_transfers *transfers);

// What a channel at a node brings about; and, when it has gone on, frees. plan: NULL: not a product's.
enum mmul_counter mmul_route_brings(const struct mmul_schedule *schedule, enum mmul_route route,
                                    int node);
enum mmul_counter mmul_route_frees(enum mmul_route route);

// Scatter, gather: what every node gets or gives; root's own node 0. bytes: (node_count).
void mmul_transfer_bytes(const struct mmul_schedule *schedule, const struct mmul_transfer *transfer,
                         int64_t *bytes);

// Of all of a node's ranks together; pieces and C_in of the pass's round. Not 0 where the node maps
// them: what is mapped, nobody moves.
int64_t mmul_content_bytes(const struct mmul_schedule *schedule, enum mmul_content content,
                           int node, struct mmul_pass pass);
