// SPDX-License-Identifier: MIT
//
// Lines that another node computes, once it is said which (exec/tasks/lending.h). Where they are values rows of A go
// there and those of C come back, in chunks, some of which move while others are computed:
//
//     the leader of the node that lends     the leader of one that borrows
//     rows of A, chunk by chunk   ------->  room for them
//                                           its compute thread: product and check
//     counts them as finished,    <-------  room for those of C
//     where they belong
//
// Each end's main thread moves them, and goes on with that to the end when the run has failed: what is void says so.
#pragma once

#include "comm/message.h"
#include "exec/steps/stage.h"
#include "exec/tasks/work.h"

enum mmul_loan_state {
    MMUL_LOAN_NONE,
    MMUL_LOAN_WANTED, // by the compute thread; the main thread asks:
    MMUL_LOAN_ASKED,
    MMUL_LOAN_GIVEN,
    MMUL_LOAN_REFUSED
};

// Which lines of which task of a rank.
struct mmul_loan_lines {
    int rank; // of the plan
    int64_t task, begin, end;
};

enum { MMUL_LOAN_CHUNKS = 16 }; // that all lines come in for which a rank has room

// One end of lines that move.
struct mmul_loan {
    struct mmul_stage *stage; // borrowed; NULL: there is none
    struct mmul_loan_lines lines;
    int peer, chunks;   // the other end's rank; in so many
    int begun;          // chunks on the way out, ...
    int sent, received; // ... those that have left, that are here
    int owner;          // lender: node rank, whose they are
    struct mmul_message out[MMUL_LOAN_CHUNKS], in[MMUL_LOAN_CHUNKS];
};

enum { MMUL_LOANS_MOST = 8 }; // that a node gives at a time

struct mmul_loans {
    // What this rank borrows: its threads tell each other by these.
    _Atomic int state;            // enum mmul_loan_state
    _Atomic int came, made, left; // chunks of A that are here, of C that are made, that have left
    struct mmul_stage *asked_by;  // borrowed
    double free_at; // clock: when it will have nothing else to do; before now: it has not
    bool is_ahead;  // compute thread: it has asked before it was idle
    struct mmul_loan_lines given; // the answer
    int taken, chunks;         // compute thread, while there is one: so many of these it has begun
    struct mmul_loan borrowed; // main thread
    char *room;                // owned: rows of A, then of C
    // What its node lends, where this rank leads that.
    struct mmul_loan lent[MMUL_LOANS_MOST];
};

// ---------------------------------------------------------------------------------- compute thread

// Sets what is at hand to lines of another node; false: nobody has any that would be worth it, or the run was
// cancelled. Waits for the answer, and for rows that come.
bool mmul_loans_borrow(struct mmul_stage *stage);

// Asks for them so many seconds before they are wanted, so that they are here by then. It has to borrow some later.
void mmul_loans_ask_ahead(struct mmul_stage *stage, double seconds);

// What is at hand was borrowed, and is made.
void mmul_loans_made(struct mmul_stage *stage);

// ------------------------------------------------------------------------------------- main thread

// The answer to what this rank has asked for; begin == end: nobody has any. Values' rows are on their way.
void mmul_loans_answer(struct mmul_site *site, const struct mmul_loan_lines *lines);

// Of values: do their rows lie so that they can move? May this node give some away at the moment?
bool mmul_loans_can_move(const struct mmul_stage *stage);
bool mmul_loans_may_give(const struct mmul_stage *stage);
// A rank of another node will compute them, which belong to a rank of this one.
void mmul_loans_give(struct mmul_stage *stage, const struct mmul_work *work, int peer);

// Moves on what moves. Never waits.
void mmul_loans_attend(struct mmul_site *site);
// Is nothing asked for or on its way?
bool mmul_loans_are_over(const struct mmul_site *site);

// Local. bytes: of the largest room that a stage wants (plan/lists/footprint.h). Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_loans_create(struct mmul_site *site, int64_t bytes, struct mmul_error *err);
// keeps: a device, or MPI, may still read and write what is borrowed.
void mmul_loans_destroy(struct mmul_site *site, bool keeps);
