// SPDX-License-Identifier: MIT
//
// The lists of transfers in a run: one list per node and channel, computed from the plan alone, of
// all transfers that carry bytes. All members of a channel walk the same list, so order is never
// negotiated. A transfer waits for counters and advances counters; counters only grow.
//
// A product with a schedule:
//
//     pieces, C_in of a round   scatter: from root's files to the nodes   read: to root's own node
//     panel of a pass           relay: from node to node, root first      load: to root's own node
//     rows of a spread panel    relay: from node to node, theirs first    load: to their own node
//     block of C of a pass      gather: from the nodes to root's file     store: of root's own node
//
// Values that get another placement move piece by piece (plan/parts/moves.h), in panels if a
// product takes them so, else in one. Pieces that stay on a node are copied by its ranks and are in
// no list.
//
//     piece of a value          send, receive: from node to node
//                               copy: root's own, from or to a file
//
// To add an algorithm that moves values (a ring, a tree), change these.
//
//     pieces and their two ends   plan/parts/moves.c.
//     their order and waits       transfers.c: a send may wait for a counter, as a relay does.
//     cost                        plan/cost/program_cost.c.
//     start, counters             exec/traffic/mover.c, exec/memory/progress.h.
//     reading, adding, writing    exec/traffic/move.c, streams.c (is_sum adds on arrival).
//     memory of running sums      plan/program/program_memory.c.
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
    MMUL_CONTENT_PIECES, // pieces of a round, as stored
    MMUL_CONTENT_C_IN,   // C_in of a round, float32
    MMUL_CONTENT_PANEL,  // panel of a pass, as stored; the same for every node
    MMUL_CONTENT_RESULT, // block of C of a pass, float32
    MMUL_CONTENT_PART    // piece of a value
};

// Counters of a node. Passes and rounds are counted.
enum mmul_counter {
    MMUL_NO_COUNTER,
    MMUL_PASSES_DONE,      // computed by all ranks of the node
    MMUL_ROUNDS_LOADED,    // pieces and C_in have arrived
    MMUL_PASSES_LOADED,    // panels have arrived; of a spread operand: this node's own rows
    MMUL_PASSES_RELAYED,   // rows of a spread operand from the other nodes have arrived
    MMUL_RESULTS_STORED,   // blocks of C have left
    MMUL_ROUNDS_SENT,      // root: rounds scattered
    MMUL_PASSES_SENT,      // panels have been sent to the next node
    MMUL_RESULTS_GATHERED, // root: passes with blocks of C from the other nodes
    MMUL_PANELS_SENT,      // panels of moved values: sent
    MMUL_PANELS_RECEIVED,  // panels of moved values: received
    MMUL_PANELS_COPIED,    // panels of moved values: copied on root's node
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
    struct mmul_pass pass; // pieces, C_in: first pass of the round
    int64_t bytes;         // received or sent by this node; 0: other nodes only
    // Slot of the content's kind on this node (of a round: its lane); -1: none.
    int64_t slot;
    int64_t offset;               // bytes into the panel, for rows of a spread one
    int from, to;                 // relay: nodes; -1: the relay begins (ends) here
    bool in_place;                // store: C is mapped, the block is in the file already
    int move;                     // value: index among the moves that run together
    struct mmul_move_piece piece; // value: the piece
    struct mmul_count waits[MMUL_TRANSFER_WAITS];
    struct mmul_count brings; // counter advanced on arrival (gather, store: on departure)
    struct mmul_count frees;  // relay, send: counter advanced when it has been sent on
};

// Largest piece of a value.
enum { MMUL_PART_BYTES = 1 << 20 };

// A step that moves a value, or two such steps that bring one product its operands.
struct mmul_move_set {
    const struct mmul_program_plan *plan;                // borrowed; NULL: no move
    const struct mmul_program_step *steps[MMUL_FACTORS]; // borrowed
    int count;                                           // number of steps
    int panels;
};

struct mmul_transfers {
    const struct mmul_schedule *schedule; // borrowed; NULL: the list is of `moving`
    enum mmul_route route;
    int node;
    // Positions: 2 * round, + 1 for C_in; else passes times the parts of a panel.
    int64_t next, end;
    // Panels: passes that were examined, and the number of them loaded here. `oldest` is the pass
    // whose slot is taken next; before_oldest counts the loaded passes before it.
    int64_t seen, loaded, oldest, before_oldest;
    // Values: the next piece, and the position of the walk: panel, move and round. In a round the
    // receiver is `round` nodes after the sender.
    struct mmul_move_set moving;
    struct mmul_move_piece piece;
    bool has_piece, is_open; // is_open: `walk` is valid
    int panel, move, round;
    struct mmul_move window; // the part of the move between the two nodes in this panel
    struct mmul_move_walk walk;
};

// Returns the list of a channel at a node; empty if the node takes no part.
struct mmul_transfers mmul_transfers_make(const struct mmul_schedule *schedule, int node,
                                          enum mmul_route route);
struct mmul_transfers mmul_transfers_of_moves(const struct mmul_move_set *moving, int node,
                                              enum mmul_route route);

// Returns false at the end of the list.
bool mmul_transfers_next(struct mmul_transfers *transfers, struct mmul_transfer *transfer);

// Returns the counter value that is reached when all transfers taken so far are complete. Before
// the first it is 0, unless the list begins later.
int64_t mmul_transfers_counter_value(const struct mmul_transfers *transfers);

// Returns the counter that a channel at a node advances on arrival, and when a transfer has been
// sent on. schedule NULL: not a product's channel.
enum mmul_counter mmul_route_arrival_counter(const struct mmul_schedule *schedule,
                                             enum mmul_route route, int node);
enum mmul_counter mmul_route_sent_counter(enum mmul_route route);

// Writes the bytes that every node receives or sends in a scatter or gather; root's own node has 0.
// bytes: (node_count).
void mmul_transfer_node_bytes(const struct mmul_schedule *schedule,
                              const struct mmul_transfer *transfer, int64_t *bytes);

// Returns the bytes of a content for all ranks of a node; pieces and C_in of the pass's round. Not
// 0 for mapped matrices, which are never transferred.
int64_t mmul_content_bytes(const struct mmul_schedule *schedule, enum mmul_content content,
                           int node, struct mmul_pass pass);
