// SPDX-License-Identifier: MIT
//
// Lines of other nodes' blocks for ranks with nothing left to do: who asks whom, in a few words, and only then.
//
//     a rank              root's main thread              the leader of another node
//     wants lines  --->   asks who would end last  --->   takes some that none of its ranks has begun,
//                                                         by the same word as they do (exec/tasks/work.h),
//     computes them <---  remembers, and says which <---  and says which
//
// Of a product between files that root's node maps those are ranks of that node, and nothing else moves: they compute
// into the mapped file, the leader counts what it gives as finished, and what comes for it later is not written. Of
// products of values, in programs, any node's leader may ask; rows move there and back (exec/tasks/loans.h), and are
// finished when they are back.
//
// The words travel with the signs of life (exec/conduct/heartbeat.h), which end only when nobody asks any more.
#pragma once

#include "exec/tasks/loans.h"

// Of what a rank asks, of the question to a leader, of its answer, of the answer to the rank.
enum { MMUL_LENDING_WORDS = 6 };

struct mmul_lender;

// What a rank wants.
struct mmul_want {
    bool waits, is_answered; // for an answer; it is there, and has to be sent
    int64_t words[MMUL_LENDING_WORDS];
};

// Root's.
struct mmul_lending {
    struct mmul_site *site;      // borrowed; NULL: nobody borrows here
    struct mmul_stage *stages;   // borrowed: the run's
    struct mmul_lender *lenders; // owned, by node: of the stage that was asked for last
    struct mmul_want *wants;     // owned, by rank
    struct mmul_lent *lent;      // owned: so far; of the files of a stage that is mapped
    int waiting;                 // how many wait
    int stage;                   // the lenders'; -1: none
    int asker, node, leader;     // the last: for whom, which node was asked, its leader
    bool is_asked;               // it has not answered yet
};

// Who leads a rank's node.
int mmul_lending_leader(const struct mmul_site *site, int rank);

// Whether a rank of that number may ask at all in the run, and one of this node in a stage that is mapped. Local, the
// same on all ranks.
bool mmul_lending_may_ask(const struct mmul_site *site, int rank);
bool mmul_lending_has_borrowers(const struct mmul_stage *stage);

// What this rank's compute thread wants, in words; false: nothing that was not asked yet.
bool mmul_lending_ask(struct mmul_site *site, int64_t *words);
// What has come of it; nothing will.
void mmul_lending_hear(struct mmul_site *site, const int64_t *words);
void mmul_lending_give_up(struct mmul_site *site);

// Local. On other ranks than root there is nothing in it. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_lending_init(struct mmul_lending *lending, struct mmul_site *site,
                                   struct mmul_stage *stages, struct mmul_error *err);
void mmul_lending_fini(struct mmul_lending *lending);

// Root: a rank asks.
void mmul_lending_want(struct mmul_lending *lending, int rank, const int64_t *words);
// Root, when the run has failed: nobody waits any more. What a leader gives all the same is on its way, and its end is
// heard of.
void mmul_lending_refuse(struct mmul_lending *lending);
// Root, when no leader is asked: the one to be asked for somebody's lines, and the question; -1: nobody
// wants any, or nobody has to be asked now.
int mmul_lending_find(struct mmul_lending *lending, int64_t *question);
// What it said.
void mmul_lending_end(struct mmul_lending *lending, const int64_t *answer);
// Who was found will not be heard any more, and has nothing to lend.
void mmul_lending_leave(struct mmul_lending *lending);

// A leader's answer. Local.
void mmul_lending_answer(struct mmul_site *site, struct mmul_stage *stages, const int64_t *question,
                         int64_t *answer);
