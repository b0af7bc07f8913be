// SPDX-License-Identifier: MIT
//
// Lines of other nodes' blocks for ranks of root's node, when these have nothing left to do: they map A, B
// and C, so nothing moves but a few words, and those only then.
//
//     a rank of root's node      root's main thread             the leader of another node
//     wants lines (progress.h)   asks who would end last  --->  takes some that none of its ranks has begun,
//                                                               by the same word as they do (exec/tasks/work.h),
//     computes them into the     remembers them: what     <---  counts them as finished, and says which
//     mapped file                comes for them later
//                                is not written
//
// The words travel with the signs of life (exec/conduct/heartbeat.h), which end only when nobody asks any more. Not
// where root's node does not map all of a product's matrices, nor in programs of several stages.
#pragma once

#include "exec/steps/stage.h"

enum { MMUL_LENDING_WORDS = 6 }; // of a question, of its answer

struct mmul_lender;

// Root's.
struct mmul_lending {
    struct mmul_stage *stage;    // borrowed; NULL: nobody borrows here
    struct mmul_lender *lenders; // owned, by node
    struct mmul_lent *lent;      // owned: so far; of the stage's files, too
    int borrower, node, leader;  // the last: for which node rank, which node was asked, its leader
    bool is_asked;               // it has not answered yet
};

// May ranks of this node borrow? Local, the same on all of them.
bool mmul_lending_has_borrowers(const struct mmul_stage *stage);

// Whose lines were lent: the task as on the node that lends.
struct mmul_task mmul_lending_task(const struct mmul_stage *stage, const struct mmul_loan *loan);

// Local. On other ranks than root there is nothing in it. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_lending_init(struct mmul_lending *lending, struct mmul_site *site,
                                   struct mmul_error *err);
void mmul_lending_fini(struct mmul_lending *lending);

// Root, when nobody is asked: the rank to be asked for somebody's lines, and the question; -1: nobody
// wants any, or nobody has to be asked now.
int mmul_lending_find(struct mmul_lending *lending, int64_t *question);
// What it said.
void mmul_lending_end(struct mmul_lending *lending, const int64_t *answer);
// Who was found will not be heard any more, and has nothing to lend.
void mmul_lending_leave(struct mmul_lending *lending);

// Another node: may it be asked (not where lines of the product go through fused operations), and what its leader says.
// Local.
void mmul_lending_answer(struct mmul_site *site, const int64_t *question, int64_t *answer);
