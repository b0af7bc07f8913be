// SPDX-License-Identifier: MIT
//
// A loan: lines that another node has stolen, after exec/tasks/lending.h has selected them. For
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

enum mmul_loan_state {
    MMUL_LOAN_NONE,
    MMUL_LOAN_WANTED, // set by the compute thread, read by the main thread
    MMUL_LOAN_ASKED,
    MMUL_LOAN_GIVEN,
    MMUL_LOAN_REFUSED
};

// A range of lines of one task of a rank.
struct mmul_loan_lines {
    int rank; // rank of the plan
    int64_t task, begin, end;
};

enum { MMUL_LOAN_CHUNKS = 16 }; // number of chunks that fill a borrower's buffer

// One end of a loan with rows in flight.
struct mmul_loan {
    struct mmul_stage *stage; // borrowed; NULL: unused
    struct mmul_loan_lines lines;
    int peer, chunks;   // rank at the other end; number of chunks
    int begun;          // chunks that are being sent or are sent
    int sent, received; // chunks that are sent; chunks that have arrived
    int owner;          // lender: node rank that owns the lines
    struct mmul_message out[MMUL_LOAN_CHUNKS], in[MMUL_LOAN_CHUNKS];
};

enum { MMUL_LOANS_MOST = 8 }; // open loans of one node

struct mmul_loans {
    // Lines that this rank borrows. Its two threads communicate by these fields.
    _Atomic int state; // enum mmul_loan_state
    // Chunks of A that have arrived, chunks of C that are computed, chunks of C that are sent.
    _Atomic int came, made, left;
    struct mmul_stage *asked_by; // borrowed
    // Clock: time at which this rank will be idle; in the past: it is idle.
    double free_at;
    bool is_ahead;                // compute thread: it has asked before it was idle
    struct mmul_loan_lines given; // the reply
    int taken, chunks;            // compute thread: chunks that it has begun, chunks of the loan
    struct mmul_loan borrowed;    // main thread
    char *room;                   // owned: rows of A, then rows of C
    // Lines that this node lends, if this rank is its leader.
    struct mmul_loan lent[MMUL_LOANS_MOST];
};

// ---------------------------------------------------------------------------------- compute thread

// Sets the current work to lines of another node. Returns false if no node has lines that are worth
// moving, or the run was cancelled. Waits for the reply, and for rows in flight.
bool mmul_loans_borrow(struct mmul_stage *stage);

// Requests lines this many seconds before the rank is idle, so that they have arrived by then. The
// rank must call mmul_loans_borrow later.
void mmul_loans_ask_ahead(struct mmul_stage *stage, double seconds);

// Records that the current, borrowed work is computed.
void mmul_loans_made(struct mmul_stage *stage);

// ------------------------------------------------------------------------------------- main thread

// Processes the reply to this rank's request. begin == end: the request is refused. For products of
// values, receives of the rows begin.
void mmul_loans_answer(struct mmul_site *site, const struct mmul_loan_lines *lines);

// Products of values. can_move: returns true if the rows of this node are contiguous. may_give:
// returns true if this node has a free loan entry.
bool mmul_loans_can_move(const struct mmul_stage *stage);
bool mmul_loans_may_give(const struct mmul_stage *stage);
// Starts a loan: rank `peer` of another node computes lines that belong to a rank of this node.
void mmul_loans_give(struct mmul_stage *stage, const struct mmul_work *work, int peer);

// Advances all loans in flight. Never waits.
void mmul_loans_attend(struct mmul_site *site);
// Returns true if no request is open and no loan is in flight.
bool mmul_loans_are_over(const struct mmul_site *site);

// Local. bytes: the largest buffer that any stage needs (plan/lists/footprint.h). Fails with
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_loans_create(struct mmul_site *site, int64_t bytes, struct mmul_error *err);
// keeps: do not free the buffers, because a device or MPI may still access them.
void mmul_loans_destroy(struct mmul_site *site, bool keeps);
