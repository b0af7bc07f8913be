// SPDX-License-Identifier: MIT
//
// Carries a move out, or two that are the operands of one product: what stays on the node is copied by
// its ranks, the rest goes in messages between the leaders, packed into one of two lanes while the other
// one travels. Nothing is negotiated: both ends walk the same pieces (plan/parts/moves). Pieces that are one run
// of memory leave and come without a copy. Root's files are read and written as ends of a move, by its
// main thread alone.
#pragma once

#include "comm/message.h"
#include "exec/steps/site.h"

struct mmul_move_lane {
    struct mmul_message message;
    struct mmul_move_piece piece;
    int turn; // which panel it is of
    int peer; // rank at the other end
    double begun;
    char *staging;
    char *at; // the piece: in the value's memory where it is one run there, else in staging
};

// The pieces of one direction, in order; `begun` and `ended` count them.
struct mmul_move_cursor {
    bool outward;
    int index;             // which move
    int turn;              // panels before have been walked
    int round;             // peers of those before have been walked; 0: within the node
    struct mmul_move move; // the panel at hand of it
    struct mmul_move_walk walk;
    struct mmul_move_lane lanes[MMUL_MOVE_LANES];
    int64_t begun, ended;
    bool is_over; // nothing more to begin
};

// Of a leader's main thread, one move after the other.
struct mmul_move_traffic {
    struct mmul_site *site;   // borrowed
    struct mmul_stage *stage; // the one at hand
    const struct mmul_program_step *steps[MMUL_FACTORS];
    struct mmul_move moves[MMUL_FACTORS];
    int count;                  // of these
    struct mmul_move_walk here; // of a file of root's: what stays on its node
    bool is_here_over;
    struct mmul_move_cursor out[MMUL_FACTORS], in[MMUL_FACTORS]; // each at its own pace
    double busy_until[2]; // of what comes in and goes out: when the last piece had
    char *staging;        // owned: lanes of both directions, and one for what stays
};

extern const struct mmul_stage_kind mmul_move_kind;

// Local. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_move_init(struct mmul_move_traffic *traffic, struct mmul_site *site,
                                struct mmul_error *err);
void mmul_move_fini(struct mmul_move_traffic *traffic);

// Does it come from a file of root's? Then the compute threads have no half.
bool mmul_move_is_load(const struct mmul_stage *stage);

// The other half: begins when all ranks of the node have done theirs. A failure is kept in the run's,
// and the traffic ends all the same. advance: true when something happened; never waits.
void mmul_move_begin(struct mmul_move_traffic *traffic, struct mmul_stage *stage);
bool mmul_move_advance(struct mmul_move_traffic *traffic);
bool mmul_move_is_over(const struct mmul_move_traffic *traffic);

// Panels of which everything is here: of every node the turns that plan/parts/moves gives it.
int mmul_move_arrived(const struct mmul_move_traffic *traffic);
