// SPDX-License-Identifier: MIT
//
// Work stealing between nodes: victim selection and the messages for it. A rank sends a request
// only when it is idle, or shortly before.
//
//     a rank              root's main thread            the leader of another node
//     wants lines  --->   asks the node that    --->    takes lines that none of its ranks
//                         would end last                has begun (exec/tasks/work.h),
//     computes them <---  records, forwards     <---    and names them
//
// The leader takes lines by the same atomic word as the ranks of its node.
//
// Product between files that root's node maps: only ranks of that node may borrow. No data moves:
// they compute into the mapped file. The leader counts the lines that it gives away as finished,
// and results that arrive for them later are not written.
// Products of values, in programs: the leader of any node may borrow. Rows move there and back
// (exec/tasks/steals.h), and are finished when they are back.
//
// The messages travel with the heartbeat (exec/conduct/heartbeat.h), which ends only when no
// request is left.
//
// Without it a product takes 1.6 times as long if one of two hosts is slowed down half-way
// (bench/ledger.md).
#pragma once

#include "exec/tasks/steals.h"

// Length of every message: a rank's request, the question to a leader, its answer, the reply to the
// rank.
enum { MMUL_NODE_STEAL_WORDS = 6 };

struct mmul_victim_node;

// The request of one rank.
struct mmul_steal_request {
    bool waits, is_answered; // The rank waits for a reply. The reply is known and has to be sent.
    int64_t words[MMUL_NODE_STEAL_WORDS];
};

// State on root.
struct mmul_node_steal {
    struct mmul_rank_resources *rank_resources; // borrowed; NULL: no rank can borrow in this run
    struct mmul_stage *stages;                  // borrowed from the run
    struct mmul_victim_node *lenders;           // owned, by node: candidates in the current stage
    struct mmul_steal_request *wants;           // owned, by rank
    struct mmul_stolen_block_lines *lent; // owned: lines lent so far, in a stage with mapped files
    int waiting;                          // number of waiting ranks
    int stage;                            // stage that `lenders` describes; -1: none
    // Last question: rank that waits, node that was asked, leader of that node.
    int asker, node, leader;
    bool is_asked; // the leader has not answered yet
};

// Returns the leader of a rank's node.
int mmul_node_leader_of_rank(const struct mmul_rank_resources *rank_resources, int rank);

// may_request: returns true if a rank with this number may borrow at all in this run.
// is_possible: returns true if the ranks of this node may borrow in a stage with mapped files.
// Local, the same result on all ranks.
bool mmul_node_steal_may_request(const struct mmul_rank_resources *rank_resources, int rank);
bool mmul_node_steal_is_possible(const struct mmul_stage *stage);

// Writes the request of this rank's compute thread into words. Returns false if there is no new
// request.
bool mmul_node_steal_take_request(struct mmul_rank_resources *rank_resources, int64_t *words);
// process_reply: passes root's reply to the compute thread. cancel_request: refuses an open
// request, because no reply will come.
void mmul_node_steal_process_reply(struct mmul_rank_resources *rank_resources,
                                   const int64_t *words);
void mmul_node_steal_cancel_request(struct mmul_rank_resources *rank_resources);

// Local. Allocates memory on root only. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_node_steal_init(struct mmul_node_steal *lending,
                                      struct mmul_rank_resources *rank_resources,
                                      struct mmul_stage *stages, struct mmul_error *err);
void mmul_node_steal_fini(struct mmul_node_steal *lending);

// Root: records the request of a rank.
void mmul_node_steal_add_request(struct mmul_node_steal *lending, int rank, const int64_t *words);
// Root, after the run has failed: refuses all waiting requests. Lines that a leader still gives
// away are in flight, and their end is reported.
void mmul_node_steal_refuse_requests(struct mmul_node_steal *lending);
// Root, while no question is open: selects the leader to ask for lines, and writes the question.
// Returns -1 if no rank wants lines, or no leader has to be asked now.
int mmul_node_steal_choose_victim(struct mmul_node_steal *lending, int64_t *question);
// Processes the answer of the leader.
void mmul_node_steal_process_answer(struct mmul_node_steal *lending, const int64_t *answer);
// Excludes the selected leader from now on: it is not reachable and has nothing to lend.
void mmul_node_steal_exclude_victim(struct mmul_node_steal *lending);

// Writes the answer of a leader to a question. Local.
void mmul_node_steal_answer_question(struct mmul_rank_resources *rank_resources,
                                     struct mmul_stage *stages, const int64_t *question,
                                     int64_t *answer);
