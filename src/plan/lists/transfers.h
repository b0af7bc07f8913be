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
// To add an algorithm that moves values (a ring, a tree), change these. Today each node sends to
// the next, then to the one after it, and so on. Summands that are needed whole on all nodes are
// sent whole to each node, or first added part by part (reduce-scatter) and then gathered
// (all-gather): mmul_program_find_path of plan/cost/program_cost.c chooses. A ring sends as many
// bytes as these two, but to one partner.
//
//     choice                      mmul_program_path, a field of the step (program_plan.h),
//                                 bring_value in plan/program/program_make.c.
//     pieces and their two ends   plan/parts/moves.c.
//     their order and waits       transfers.c: a send may wait for a counter, as a relay does.
//     cost                        plan/cost/program_cost.c.
//     start, counters             exec/traffic/mover.c, exec/memory/progress.h: they count panels.
//     reading, adding, writing    exec/traffic/move.c, streams.c (is_sum adds on arrival).
//     memory of running sums      plan/program/program_memory.c; buffers: program_footprint.c.
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

// Counters of a node. One counts the passes of a product that all its ranks have computed. Each
// route has two: mmul_arrived_counter counts arrivals here (gather, store: departures), and
// mmul_sent_counter counts what was also sent on to the next node. The unit is rounds (scatter,
// read), passes (the other routes of a product) or panels of moved values.
enum mmul_counter {
    MMUL_PASSES_DONE,
    MMUL_ARRIVED_COUNTERS,
    MMUL_SENT_COUNTERS = MMUL_ARRIVED_COUNTERS + MMUL_ROUTES,
    MMUL_COUNTERS = MMUL_SENT_COUNTERS + MMUL_ROUTES
};

static inline enum mmul_counter mmul_arrived_counter(enum mmul_route route) {
    return (enum mmul_counter)(MMUL_ARRIVED_COUNTERS + (int)route);
}

static inline enum mmul_counter mmul_sent_counter(enum mmul_route route) {
    return (enum mmul_counter)(MMUL_SENT_COUNTERS + (int)route);
}

// A value of a counter that a transfer waits for; 0: it waits for nothing.
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
    bool from_file;               // value: the source is a file of root's
    int move;                     // value: index among the moves that run together
    struct mmul_move_piece piece; // value: the piece
    struct mmul_count waits[MMUL_TRANSFER_WAITS];
    int64_t reached; // value of both counters of the route when it has arrived, or was sent on
};

// Largest piece of a value.
enum { MMUL_PART_BYTES = 1 << 20 };

// Bytes that a channel to a file passes at once. The channel has no buffer of its own.
enum { MMUL_FILE_STRETCH_BYTES = 4 << 20 };

// A step that moves a value, or two such steps that bring one product its operands.
struct mmul_move_set {
    const struct mmul_program_plan *plan;                // borrowed; NULL: no move
    const struct mmul_program_step *steps[MMUL_FACTORS]; // borrowed
    int count;                                           // number of steps
    int panels;
};

struct mmul_transfers {
    // Takes the next transfer; false: there is none. NULL: the list is empty.
    bool (*take)(struct mmul_transfers *transfers, struct mmul_transfer *transfer);
    // Value of both counters of the route when all transfers taken so far are complete, and when
    // all are. Before the first it is 0, unless the list begins later.
    int64_t reached, total;
    int64_t buffer_bytes;                 // buffer of the route, equal on all nodes
    bool ends_in_values;                  // the bytes come from values on the ranks, or go there
    const struct mmul_schedule *schedule; // borrowed, for a product
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

// Returns what has arrived, and left, of a product at a node, from the counters of its routes.
struct mmul_product_arrivals {
    int64_t rounds_loaded;  // pieces and C_in are here
    int64_t passes_loaded;  // panels are here
    int64_t results_stored; // blocks of C have left
};
struct mmul_product_arrivals mmul_product_arrivals(const struct mmul_schedule *schedule, int node,
                                                   const int64_t counters[static MMUL_COUNTERS]);

// Writes the bytes that every node receives or sends in a scatter or gather; root's own node has 0.
// bytes: (node_count).
void mmul_transfer_node_bytes(const struct mmul_schedule *schedule,
                              const struct mmul_transfer *transfer, int64_t *bytes);

// Returns the bytes of a content for all ranks of a node; pieces and C_in of the pass's round. Not
// 0 for mapped matrices, which are never transferred.
int64_t mmul_content_bytes(const struct mmul_schedule *schedule, enum mmul_content content,
                           int node, struct mmul_pass pass);
