// SPDX-License-Identifier: MIT
// Who is asked, and what is said. How many lines is exec/memory/claims' business, whose they are exec/tasks/work's.
#include "exec/tasks/lending.h"

#include <math.h>

#include "base/clock.h"
#include "base/memory.h"
#include "exec/steps/product.h"
#include "exec/steps/site.h"
#include "exec/tasks/work.h"

// What was not worth a call now may be later, when a node has become slower.
static const double AGAIN_SECONDS = 0.02;

enum { LENT_MOST = 256 }; // rectangles that streams of results leave out

enum { RATE, NODE_RATE, LINES_MOST };               // of a question
enum { LEFT_NS, RANK, TASK, LINE_BEGIN, LINE_END }; // of an answer

struct mmul_lender {
    int leader;   // -1: nothing to lend
    double end;   // clock: when what it has not begun will be over; INFINITY: it was not asked yet
    double again; // clock: not to be asked before
};

static bool has_work_elsewhere(const struct mmul_stage *stage) {
    bool any = false;
    for (int node = 1; node < stage->is.schedule->node_count; node++)
        any |= mmul_schedule_nodes(stage->is.schedule)[node].result_bytes > 0;
    return any;
}

bool mmul_lending_has_borrowers(const struct mmul_stage *stage) {
    if (stage->site->lent != stage)
        return false;
    const struct mmul_mapped *m = &stage->product->mapped;
    const struct mmul_schedule *schedule = stage->is.schedule;
    // C over C_in: what comes from elsewhere and is not meant would be what is added to.
    bool c_in_stays = schedule->problem.beta == 0 || (m->c_in != NULL && m->c_in != m->c);
    return stage->comm->node_index == 0 && schedule->problem.alpha != 0 &&
           stage->product->me->end > stage->product->me->begin && m->split != NULL &&
           m->whole != NULL && m->c != NULL && c_in_stays && has_work_elsewhere(stage);
}

// ------------------------------------------------------------------------------------------ root

enum mmul_status mmul_lending_init(struct mmul_lending *lending, struct mmul_site *site,
                                   struct mmul_error *err) {
    const struct mmul_comm *comm = site->context->comm;
    struct mmul_stage *stage = site->lent;
    *lending = (struct mmul_lending){0};
    if (comm->rank != 0 || stage == NULL || !has_work_elsewhere(stage))
        return MMUL_OK;
    enum mmul_status status =
        MMUL_ALLOCATE_ALL("claims", err, MMUL_WANT(lending->lenders, comm->node_count),
                          MMUL_WANT(lending->lent, LENT_MOST));
    if (status != MMUL_OK)
        return status;
    lending->stage = stage;
    stage->product->files.lent = lending->lent;
    for (int rank = comm->size - 1; rank >= 0; rank--) {
        int node = comm->rank_node[rank];
        bool lends = node > 0 && mmul_schedule_nodes(stage->is.schedule)[node].result_bytes > 0;
        lending->lenders[node] = (struct mmul_lender){.leader = lends ? rank : -1, .end = INFINITY};
    }
    return MMUL_OK;
}

void mmul_lending_fini(struct mmul_lending *lending) {
    mmul_free(lending->lenders);
    mmul_free(lending->lent);
    *lending = (struct mmul_lending){0};
}

static struct mmul_loan *loan_of(const struct mmul_lending *lending, int node_rank) {
    return &lending->stage->progress->ranks[node_rank].loan;
}

// The node that would end last of those that may be asked now; -1: none. *any: some may be later.
static int find_lender(const struct mmul_lending *lending, bool *any) {
    double now = mmul_clock_now();
    int last = -1;
    *any = false;
    for (int node = 1; node < lending->stage->is.schedule->node_count; node++) {
        const struct mmul_lender *lender = &lending->lenders[node];
        bool lends = lender->leader >= 0 && lending->stage->product->files.lent_count < LENT_MOST;
        *any |= lends;
        if (lends && lender->again <= now && (last < 0 || lender->end > lending->lenders[last].end))
            last = node;
    }
    return last;
}

int mmul_lending_find(struct mmul_lending *lending, int64_t *question) {
    bool any;
    for (int i = 0; lending->stage != NULL && i < lending->stage->comm->node_size; i++) {
        if (atomic_load(&loan_of(lending, i)->state) != MMUL_LOAN_WANTED)
            continue;
        const struct mmul_stage_progress_rank *ranks = lending->stage->progress->ranks;
        int node = find_lender(lending, &any);
        if (!any)
            atomic_store(&loan_of(lending, i)->state, MMUL_LOAN_REFUSED);
        if (node < 0)
            continue;
        lending->borrower = i;
        lending->node = node;
        lending->leader = lending->lenders[node].leader;
        question[RATE] = atomic_load(&ranks[i].rate);
        question[LINES_MOST] = ranks[i].loan.lines_most;
        question[NODE_RATE] = 0;
        for (int j = 0; j < lending->stage->comm->node_size; j++)
            question[NODE_RATE] += atomic_load(&ranks[j].rate);
        return lending->leader;
    }
    return -1;
}

struct mmul_task mmul_lending_task(const struct mmul_stage *stage, const struct mmul_loan *loan) {
    const struct mmul_tasks tasks = mmul_tasks_of(stage->is.schedule, loan->rank, 0, false);
    return mmul_tasks_at(&tasks, loan->task);
}

void mmul_lending_end(struct mmul_lending *lending, const int64_t *answer) {
    struct mmul_lender *lender = &lending->lenders[lending->node];
    struct mmul_loan *loan = loan_of(lending, lending->borrower);
    double now = mmul_clock_now();
    lending->is_asked = false;
    lender->end = now + (double)answer[LEFT_NS] * 1e-9;
    if (answer[LEFT_NS] == 0)
        lender->leader = -1;
    if (answer[LINE_BEGIN] == answer[LINE_END]) {
        lender->again = now + AGAIN_SECONDS;
        return;
    }
    loan->rank = (int)answer[RANK];
    loan->task = answer[TASK];
    loan->line_begin = answer[LINE_BEGIN];
    loan->line_end = answer[LINE_END];
    struct mmul_files *files = &lending->stage->product->files;
    const struct mmul_task task = mmul_lending_task(lending->stage, loan);
    lending->lent[files->lent_count++] =
        (struct mmul_lent){.rank = loan->rank,
                           .pass = task.pass.index,
                           .lines = {loan->line_begin, loan->line_end},
                           .width = {task.begin, task.end}};
    atomic_store(&loan->state, MMUL_LOAN_GIVEN);
}

void mmul_lending_leave(struct mmul_lending *lending) {
    lending->lenders[lending->node].leader = -1;
}

// --------------------------------------------------------------------------------------- leaders

void mmul_lending_answer(struct mmul_site *site, const int64_t *question, int64_t *answer) {
    const struct mmul_borrower borrower = {.rate = (double)question[RATE],
                                           .node_rate = (double)question[NODE_RATE],
                                           .lines_most = question[LINES_MOST]};
    struct mmul_work work = {0};
    double seconds = 0;
    if (!mmul_failure_is_void(&site->failure))
        (void)mmul_works_lend(site->lent, &borrower, &work, &seconds);
    answer[LEFT_NS] = (int64_t)ceil(seconds * 1e9);
    answer[RANK] = work.rank;
    answer[TASK] = work.index;
    answer[LINE_BEGIN] = work.line_begin;
    answer[LINE_END] = work.line_end;
}
