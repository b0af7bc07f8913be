// SPDX-License-Identifier: MIT
// Work stealing between nodes: victim selection and the request and reply messages.
// exec/memory/stealing.c decides how many lines move, exec/tasks/work.c keeps track of their owner.
#include "exec/tasks/node_steal.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/integer.h"
#include "base/memory.h"
#include "exec/steps/product.h"
#include "exec/steps/rank_resources.h"

// Time until the same node is asked again: a steal that was not worth its cost may be worth it
// later, when the node has become slower.
static const double AGAIN_SECONDS = 0.01;

enum { LENT_MOST = 256 }; // lent rectangles that result streams can skip

// Indices of a question (FREE_NS: time until the borrower is idle), then of an answer.
enum { STAGE, RATE, NODE_RATE, LINES_MOST, ASKER, FREE_NS };
enum { RANK, TASK, LINE_BEGIN, LINE_END, LEFT_NS };

static const struct mmul_stolen_lines NOTHING = {.begin = 0, .end = 0};

struct mmul_victim_node {
    int leader;   // -1: nothing to lend
    double end;   // clock: end of the work that is not begun; INFINITY: not asked yet
    double again; // clock: earliest time of the next question
};

static struct mmul_stolen_lines lines_of(const int64_t *answer) {
    return (struct mmul_stolen_lines){(int)answer[RANK], answer[TASK], answer[LINE_BEGIN],
                                      answer[LINE_END]};
}

static void put_lines(const struct mmul_stolen_lines *lines, int64_t *answer) {
    answer[RANK] = lines->rank;
    answer[TASK] = lines->task;
    answer[LINE_BEGIN] = lines->begin;
    answer[LINE_END] = lines->end;
}

int mmul_node_leader_of_rank(const struct mmul_rank_resources *rank_resources, int rank) {
    return rank_resources->context->cluster->nodes[rank_resources->context->comm->rank_node[rank]]
        .leader;
}

bool mmul_node_steal_may_request(const struct mmul_rank_resources *rank_resources, int rank) {
    return rank_resources->steal_scope == MMUL_STEAL_VALUES
               ? mmul_node_leader_of_rank(rank_resources, rank) == rank
               : rank_resources->steal_scope == MMUL_STEAL_MAPPED &&
                     rank_resources->context->comm->rank_node[rank] == 0;
}

bool mmul_node_steal_is_possible(const struct mmul_stage *stage) {
    const struct mmul_mapped_matrices *m = &stage->product->mapped;
    const struct mmul_schedule *schedule = stage->schedule;
    // beta != 0 and C in the place of C_in: a stale result that is written there would become an
    // input.
    bool c_in_stays = schedule->problem.beta == 0 || (m->c_in != NULL && m->c_in != m->c);
    return schedule->problem.alpha != 0 && m->split != NULL && m->whole != NULL && m->c != NULL &&
           c_in_stays;
}

// ---------------------------------------------------------------------------------------- borrower

bool mmul_node_steal_take_request(struct mmul_rank_resources *rank_resources, int64_t *words) {
    struct mmul_steals *loans = rank_resources->loans;
    if (atomic_load(&loans->state) != MMUL_STEAL_WANTED)
        return false;
    const struct mmul_stage *stage = loans->requesting_stage;
    const struct mmul_stage_progress_rank *ranks = stage->progress->ranks;
    words[STAGE] = stage->index;
    words[RATE] = atomic_load(&ranks[stage->comm->node_rank].rate);
    words[NODE_RATE] = 0;
    for (int i = 0; i < stage->comm->node_size; i++)
        words[NODE_RATE] += atomic_load(&ranks[i].rate);
    words[LINES_MOST] = stage->lines_most;
    words[ASKER] = stage->comm->rank;
    words[FREE_NS] = (int64_t)(fmax(0, loans->free_at - mmul_clock_now()) * 1e9);
    atomic_store(&loans->state, MMUL_STEAL_REQUESTED);
    return true;
}

void mmul_node_steal_process_reply(struct mmul_rank_resources *rank_resources,
                                   const int64_t *words) {
    const struct mmul_stolen_lines lines = lines_of(words);
    mmul_steals_process_reply(rank_resources, &lines);
}

void mmul_node_steal_cancel_request(struct mmul_rank_resources *rank_resources) {
    const int state = atomic_load(&rank_resources->loans->state);
    if (state == MMUL_STEAL_WANTED || state == MMUL_STEAL_REQUESTED)
        mmul_steals_process_reply(rank_resources, &NOTHING);
}

// ------------------------------------------------------------------------------------------ root

enum mmul_status mmul_node_steal_init(struct mmul_node_steal *lending,
                                      struct mmul_rank_resources *rank_resources,
                                      struct mmul_stage *stages, struct mmul_error *err) {
    const struct mmul_comm *comm = rank_resources->context->comm;
    *lending = (struct mmul_node_steal){.stage = -1, .stages = stages};
    if (comm->rank != 0 || rank_resources->steal_scope == MMUL_STEAL_NOTHING)
        return MMUL_OK;
    enum mmul_status status = MMUL_ALLOCATE_ALL(
        "claims", err, MMUL_ARRAY(lending->lenders, comm->node_count),
        MMUL_ARRAY(lending->lent, LENT_MOST), MMUL_ARRAY(lending->wants, comm->size));
    if (status != MMUL_OK)
        return status;
    lending->rank_resources = rank_resources;
    if (rank_resources->steal_scope == MMUL_STEAL_MAPPED)
        stages[0].product->lent = lending->lent;
    return MMUL_OK;
}

void mmul_node_steal_fini(struct mmul_node_steal *lending) {
    MMUL_FREE_ALL(lending->lenders, lending->wants, lending->lent);
    *lending = (struct mmul_node_steal){0};
}

// Resets the candidates for another stage: none of them has been asked yet.
static void reset_candidates(struct mmul_node_steal *lending, int stage) {
    const struct mmul_comm *comm = lending->rank_resources->context->comm;
    if (lending->stage == stage)
        return;
    lending->stage = stage;
    for (int node = 0; node < comm->node_count; node++)
        lending->lenders[node].leader = -1;
    for (int rank = 0; rank < comm->size; rank++) {
        const struct mmul_schedule_rank *r =
            &mmul_schedule_ranks(lending->stages[stage].schedule)[rank];
        if (r->end > r->begin)
            lending->lenders[r->node] = (struct mmul_victim_node){
                .leader = mmul_node_leader_of_rank(lending->rank_resources, rank), .end = INFINITY};
    }
}

// Returns the node that would end last among those that may be asked now, or -1. *any: a node may
// be asked now or later.
static int choose_victim(const struct mmul_node_steal *lending, int own_node, bool *any) {
    const struct mmul_stage *stage = &lending->stages[lending->stage];
    const bool has_room =
        stage->steal_scope != MMUL_STEAL_MAPPED || stage->product->lent_count < LENT_MOST;
    const double now = mmul_clock_now();
    int last = -1;
    *any = false;
    for (int node = 0; has_room && node < lending->rank_resources->context->comm->node_count;
         node++) {
        const struct mmul_victim_node *lender = &lending->lenders[node];
        if (node == own_node || lender->leader < 0)
            continue;
        *any = true;
        if (lender->again <= now && (last < 0 || lender->end > lending->lenders[last].end))
            last = node;
    }
    return last;
}

static void reply_to_rank(struct mmul_node_steal *lending, int rank,
                          const struct mmul_stolen_lines *lines) {
    struct mmul_steal_request *want = &lending->wants[rank];
    lending->waiting -= want->waits;
    want->waits = false;
    if (rank == 0) {
        mmul_steals_process_reply(lending->rank_resources, lines);
        return;
    }
    want->is_answered = true;
    put_lines(lines, want->words);
}

void mmul_node_steal_add_request(struct mmul_node_steal *lending, int rank, const int64_t *words) {
    lending->waiting += !lending->wants[rank].waits; // a repeated request counts once
    lending->wants[rank].waits = true;
    memcpy(lending->wants[rank].words, words, sizeof lending->wants[rank].words);
}

// Returns the first stage in which a rank waits. Ranks in later stages would have to wait for this
// one in any case.
static int first_stage(const struct mmul_node_steal *lending) {
    int64_t first = INT_MAX;
    for (int rank = 0; rank < lending->rank_resources->context->comm->size; rank++)
        if (lending->wants[rank].waits)
            first = mmul_min(first, lending->wants[rank].words[STAGE]);
    return (int)first;
}

int mmul_node_steal_choose_victim(struct mmul_node_steal *lending, int64_t *question) {
    const struct mmul_comm *comm = lending->rank_resources->context->comm;
    bool any;
    if (lending->waiting == 0)
        return -1;
    reset_candidates(lending, first_stage(lending));
    for (int rank = 0; rank < comm->size; rank++) {
        const struct mmul_steal_request *want = &lending->wants[rank];
        if (!want->waits || want->words[STAGE] != lending->stage)
            continue;
        const int node = choose_victim(lending, comm->rank_node[rank], &any);
        if (!any)
            reply_to_rank(lending, rank, &NOTHING);
        else if (node >= 0) {
            memcpy(question, want->words, sizeof want->words);
            lending->asker = rank;
            lending->node = node;
            lending->leader = lending->lenders[node].leader;
            return lending->leader;
        }
    }
    return -1;
}

void mmul_node_steal_refuse_requests(struct mmul_node_steal *lending) {
    for (int rank = 0; lending->waiting > 0 && rank < lending->rank_resources->context->comm->size;
         rank++)
        if (lending->wants[rank].waits)
            reply_to_rank(lending, rank, &NOTHING);
}

// Marks lines as lent, so that results that the lender sends for them later are skipped.
static void skip_lent_results(struct mmul_node_steal *lending,
                              const struct mmul_stolen_lines *lines) {
    struct mmul_stage *stage = &lending->stages[lending->stage];
    struct mmul_product_stage *product = stage->product;
    const struct mmul_tasks tasks = mmul_tasks_of_schedule(stage->schedule, lines->rank, 0, false);
    const struct mmul_task task = mmul_tasks_at(&tasks, lines->task);
    lending->lent[product->lent_count++] =
        (struct mmul_stolen_block_lines){.rank = lines->rank,
                                         .pass = task.pass.index,
                                         .lines = {lines->begin, lines->end},
                                         .width = {task.begin, task.end}};
}

void mmul_node_steal_process_answer(struct mmul_node_steal *lending, const int64_t *answer) {
    struct mmul_victim_node *lender = &lending->lenders[lending->node];
    const struct mmul_stolen_lines lines = lines_of(answer);
    double now = mmul_clock_now();
    lending->is_asked = false;
    lender->end = now + (double)answer[LEFT_NS] * 1e-9;
    if (answer[LEFT_NS] == 0)
        lender->leader = -1;
    if (lines.begin == lines.end) {
        lender->again = now + AGAIN_SECONDS;
        return;
    }
    if (lending->rank_resources->steal_scope == MMUL_STEAL_MAPPED)
        skip_lent_results(lending, &lines);
    reply_to_rank(lending, lending->asker, &lines);
}

void mmul_node_steal_exclude_victim(struct mmul_node_steal *lending) {
    lending->lenders[lending->node].leader = -1;
}

// --------------------------------------------------------------------------------------- leaders

void mmul_node_steal_answer_question(struct mmul_rank_resources *rank_resources,
                                     struct mmul_stage *stages, const int64_t *question,
                                     int64_t *answer) {
    struct mmul_stage *stage = &stages[question[STAGE]];
    const struct mmul_thief borrower = {.rate = (double)question[RATE],
                                        .node_rate = (double)question[NODE_RATE],
                                        .max_lines = question[LINES_MOST],
                                        .rank = (int)question[ASKER],
                                        .until = (double)question[FREE_NS] * 1e-9};
    struct mmul_work work = {0};
    double seconds = 0;
    if (!mmul_failure_is_void(&rank_resources->failure))
        (void)mmul_works_give_lines(stage, &borrower, &work, &seconds);
    answer[LEFT_NS] = (int64_t)ceil(seconds * 1e9);
    const struct mmul_stolen_lines lines = {work.rank, work.index, work.line_begin, work.line_end};
    put_lines(&lines, answer);
}
