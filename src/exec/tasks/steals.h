// SPDX-License-Identifier: MIT
//
// A loan: lines that another node has stolen, after exec/tasks/node_steal.h has selected them. For
// products of values, rows of A travel to the borrower and rows of C travel back, in chunks. Chunks
// move while others are computed:
//
//     the leader of the lending node        the leader of the borrowing node
//     rows of A, chunk by chunk   ------->  buffer for them
//                                           its compute thread: product and check
//     counts them as finished,    <-------  buffer for rows of C
//     in their final place
//
// The main thread at each end moves them. It continues to the end after the run has failed: a
// message carries a flag that its content is void.
#pragma once

#include "comm/message.h"
#include "exec/steps/stage.h"
#include "exec/tasks/work.h"

enum mmul_steal_state {
    MMUL_STEAL_NONE,
    MMUL_STEAL_WANTED, // set by the compute thread, read by the main thread
    MMUL_STEAL_REQUESTED,
    MMUL_STEAL_GRANTED,
    MMUL_STEAL_REFUSED
};

// A range of lines of one task of a rank.
struct mmul_stolen_lines {
    int rank; // rank of the plan
    int64_t task, begin, end;
};

enum { MMUL_STEAL_CHUNKS = 16 }; // number of chunks that fill a borrower's buffer

// One end of a loan with rows in flight.
struct mmul_steal {
    struct mmul_stage *stage; // borrowed; NULL: unused
    struct mmul_stolen_lines lines;
    int peer, chunks;   // rank at the other end; number of chunks
    int begun;          // chunks that are being sent or are sent
    int sent, received; // chunks that are sent; chunks that have arrived
    int owner;          // lender: node rank that owns the lines
    struct mmul_message out[MMUL_STEAL_CHUNKS], in[MMUL_STEAL_CHUNKS];
};

enum { MMUL_STEALS_MOST = 8 }; // open loans of one node

struct mmul_steals {
    // Lines that this rank borrows. Its two threads communicate by these fields.
    _Atomic int state; // enum mmul_steal_state
    // Chunks of A that have arrived, chunks of C that are computed, chunks of C that are sent.
    _Atomic int came, made, left;
    struct mmul_stage *requesting_stage; // borrowed
    // Clock: time at which this rank will be idle; in the past: it is idle.
    double free_at;
    bool is_ahead;                  // compute thread: it has asked before it was idle
    struct mmul_stolen_lines given; // the reply
    int taken, chunks;              // compute thread: chunks that it has begun, chunks of the loan
    struct mmul_steal borrowed;     // main thread
    char *room;                     // owned: rows of A, then rows of C
    // Lines that this node lends, if this rank is its leader.
    struct mmul_steal lent[MMUL_STEALS_MOST];
};

// ---------------------------------------------------------------------------------- compute thread

// Sets the current work to lines of another node. Returns false if no node has lines that are worth
// moving, or the run was cancelled. Waits for the reply, and for rows in flight.
bool mmul_steals_take_lines(struct mmul_stage *stage);

// Requests lines this many seconds before the rank is idle, so that they have arrived by then. The
// rank must call mmul_steals_take_lines later.
void mmul_steals_request_ahead(struct mmul_stage *stage, double seconds);

// Records that the current, borrowed work is computed.
void mmul_steals_end_lines(struct mmul_stage *stage);

// ------------------------------------------------------------------------------------- main thread

// Processes the reply to this rank's request. begin == end: the request is refused. For products of
// values, receives of the rows begin.
void mmul_steals_process_reply(struct mmul_rank_resources *rank_resources,
                               const struct mmul_stolen_lines *lines);

// Products of values. can_move_rows: returns true if the rows of this node are contiguous.
// may_give: returns true if this node has a free loan entry.
bool mmul_steals_can_move_rows(const struct mmul_stage *stage);
bool mmul_steals_has_free_entry(const struct mmul_stage *stage);
// Starts a loan: rank `peer` of another node computes lines that belong to a rank of this node.
void mmul_steals_give_lines(struct mmul_stage *stage, const struct mmul_work *work, int peer);

// Advances all loans in flight. Never waits.
void mmul_steals_poll(struct mmul_rank_resources *rank_resources);
// Returns true if no request is open and no loan is in flight.
bool mmul_steals_are_over(const struct mmul_rank_resources *rank_resources);

// Local. bytes: the largest buffer that any stage needs (plan/lists/footprint.h). Fails with
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_steals_create(struct mmul_rank_resources *rank_resources, int64_t bytes,
                                    struct mmul_error *err);
// keeps: do not free the buffers, because a device or MPI may still access them.
void mmul_steals_destroy(struct mmul_rank_resources *rank_resources, bool keeps);
