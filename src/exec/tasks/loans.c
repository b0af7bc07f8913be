// SPDX-License-Identifier: MIT
// Requests, buffers and chunks of loans, at both ends. Does not select lender or lines
// (exec/tasks/lending.c, exec/tasks/work.c). MPI delivers messages of one tag between two ranks in
// order, so the chunks of successive loans arrive in order, too.
#include "exec/tasks/loans.h"

#include "base/bell.h"
#include "base/clock.h"
#include "base/integer.h"
#include "base/memory.h"
#include "exec/steps/product.h"
#include "exec/steps/site.h"
#include "exec/tasks/lending.h"
#include "plan/lists/footprint.h"

enum { TAG_A = 9003, TAG_C = 9005 }; // Each tag uses the following one, too.

static const double NAP_SECONDS = 200e-6;

static bool is_cancelled(const struct mmul_site *site) {
    return atomic_load(&site->progress->cancelled) != 0;
}

// Bytes of a line of A, and of C below.
static int64_t a_line_bytes(const struct mmul_stage *stage) {
    const struct mmul_problem *p = &stage->is.schedule->problem;
    return p->k * (int64_t)mmul_dtype_bytes(p->a_dtype);
}

static int64_t c_line_bytes(const struct mmul_stage *stage) {
    const struct mmul_problem *p = &stage->is.schedule->problem;
    return p->c.cols * mmul_problem_result_each(p);
}

// Returns the lines of a chunk, relative to the loan. Chunks after the last one are empty.
static struct mmul_range chunk_lines(const struct mmul_loan *loan, int index) {
    const int64_t lines = loan->lines.end - loan->lines.begin;
    return (struct mmul_range){lines * index / loan->chunks, lines * (index + 1) / loan->chunks};
}

static struct mmul_loan make_loan(struct mmul_stage *stage, const struct mmul_loan_lines *lines,
                                  int borrower, int peer) {
    const int64_t room = mmul_schedule_loan_lines(stage->is.schedule, borrower);
    const int64_t least = mmul_divide_up(room, MMUL_LOAN_CHUNKS), count = lines->end - lines->begin;
    return (struct mmul_loan){
        .stage = stage, .lines = *lines, .peer = peer, .chunks = (int)mmul_divide_up(count, least)};
}

// --------------------------------------------------------------------------------------- borrowing

// Addresses of a borrowed line in the buffer: its row of A, then its row of C.
static char *a_address(const struct mmul_stage *stage, int64_t line) {
    return stage->site->loans->room + line * a_line_bytes(stage);
}

static char *c_address(const struct mmul_stage *stage, int64_t line) {
    return a_address(stage, mmul_schedule_loan_lines(stage->is.schedule, stage->comm->rank)) +
           line * c_line_bytes(stage);
}

static void set_at_hand(struct mmul_stage *stage, const struct mmul_loan_lines *lines,
                        struct mmul_brought brought) {
    const struct mmul_tasks tasks = mmul_tasks_of(stage->is.schedule, lines->rank, 0, false);
    stage->works->at_hand = (struct mmul_work){.owner = -1,
                                               .rank = lines->rank,
                                               .task = mmul_tasks_at(&tasks, lines->task),
                                               .index = lines->task,
                                               .line_begin = lines->begin,
                                               .line_end = lines->end,
                                               .end = tasks.terms,
                                               .brought = brought};
}

// Drops cached copies of this memory on the device and in the verifier: its content has changed.
static void invalidate_memory(struct mmul_stage *stage, const char *begin, int64_t bytes) {
    mmul_worker_forget_memory(&stage->site->worker, begin, begin + bytes);
    mmul_verifier_forget_memory(&stage->site->verifier_room, begin, begin + bytes);
}

// Sets the current work to the chunks that have arrived: the first chunk alone, then all chunks
// that arrived meanwhile. Waiting and packing both stay short.
static bool set_work_to_arrived(struct mmul_stage *stage) {
    struct mmul_loans *loans = stage->site->loans;
    const struct mmul_loan *loan = &loans->borrowed;
    while (atomic_load(&loans->came) == loans->taken && !is_cancelled(stage->site))
        mmul_clock_nap(NAP_SECONDS);
    if (is_cancelled(stage->site))
        return false;
    const int64_t begin = chunk_lines(loan, loans->taken).begin;
    loans->taken = atomic_load(&loans->came);
    const int64_t end = chunk_lines(loan, loans->taken).begin;
    const int64_t first =
        mmul_schedule_ranks(stage->is.schedule)[loan->lines.rank].begin + loan->lines.begin;
    const struct mmul_loan_lines lines = {loan->lines.rank, loan->lines.task,
                                          loan->lines.begin + begin, loan->lines.begin + end};
    const struct mmul_brought brought = {a_address(stage, begin), c_address(stage, begin),
                                         first + begin, first + end};
    invalidate_memory(stage, brought.a, (end - begin) * a_line_bytes(stage));
    invalidate_memory(stage, brought.c, (end - begin) * c_line_bytes(stage));
    mmul_verifier_forget(&stage->verifier);
    set_at_hand(stage, &lines, brought);
    return true;
}

static bool may_borrow(const struct mmul_stage *stage) {
    return stage->lends != MMUL_LENDS_NOTHING &&
           mmul_lending_may_ask(stage->site, stage->comm->rank) &&
           stage->product->me->end > stage->product->me->begin &&
           (stage->lends == MMUL_LENDS_VALUES
                ? mmul_schedule_loan_lines(stage->is.schedule, stage->comm->rank) > 0
                : mmul_lending_has_borrowers(stage));
}

static bool awaits_reply(const struct mmul_loans *loans) {
    const int state = atomic_load(&loans->state);
    return state == MMUL_LOAN_WANTED || state == MMUL_LOAN_ASKED;
}

// Does nothing in a cancelled run: a rank that does not wait for its answer would ask twice.
static void post_request(struct mmul_stage *stage, double free_at) {
    struct mmul_loans *loans = stage->site->loans;
    if (is_cancelled(stage->site))
        return;
    loans->asked_by = stage;
    loans->free_at = free_at;
    atomic_store(&loans->state, MMUL_LOAN_WANTED);
}

// Returns false if the request was refused, or the run was cancelled.
static bool wait_for_reply(struct mmul_stage *stage) {
    struct mmul_loans *loans = stage->site->loans;
    while (awaits_reply(loans) && !is_cancelled(stage->site))
        mmul_clock_nap(NAP_SECONDS);
    return atomic_load(&loans->state) == MMUL_LOAN_GIVEN && !is_cancelled(stage->site);
}

static bool is_buffer_free(const struct mmul_loans *loans) {
    return atomic_load(&loans->left) == loans->chunks;
}

// Returns true if a hanging device may still write into the buffer.
static bool is_buffer_lost(const struct mmul_stage *stage) {
    return stage->lends == MMUL_LENDS_VALUES && stage->site->watchdog.has_abandoned;
}

void mmul_loans_ask_ahead(struct mmul_stage *stage, double seconds) {
    struct mmul_loans *loans = stage->site->loans;
    if (stage->lends != MMUL_LENDS_VALUES || !may_borrow(stage) || !is_buffer_free(loans) ||
        loans->is_ahead || is_buffer_lost(stage))
        return;
    post_request(stage, mmul_clock_now() + seconds);
    loans->is_ahead = true;
}

static bool request_lines(struct mmul_stage *stage) {
    struct mmul_loans *loans = stage->site->loans;
    while (!is_buffer_free(loans) && !is_cancelled(stage->site))
        mmul_clock_nap(NAP_SECONDS);
    if (is_buffer_lost(stage))
        return false;
    post_request(stage, 0);
    return wait_for_reply(stage);
}

bool mmul_loans_borrow(struct mmul_stage *stage) {
    struct mmul_loans *loans = stage->site->loans;
    if (!may_borrow(stage))
        return false;
    mmul_stopwatch_enter(&stage->site->watch, NULL);
    // Until the reply arrives, the main thread owns all other fields.
    bool has_some = loans->is_ahead ? wait_for_reply(stage) : loans->taken < loans->chunks;
    loans->is_ahead = false;
    if (!has_some && !request_lines(stage))
        return false;
    if (stage->lends == MMUL_LENDS_VALUES)
        return set_work_to_arrived(stage);
    set_at_hand(stage, &loans->given, (struct mmul_brought){0});
    return true;
}

void mmul_loans_made(struct mmul_stage *stage) {
    struct mmul_site *site = stage->site;
    if (stage->lends != MMUL_LENDS_VALUES)
        return;
    atomic_store(&site->loans->made, site->loans->taken);
    mmul_bell_ring(&site->progress->ranks[stage->comm->node_rank].attending);
}

// ------------------------------------------------------------------------------------- main thread

// Begins the receives of all chunks at once, so that no chunk waits for a main thread in between.
static void receive_all(const struct mmul_peers *peers, struct mmul_loan *loan, int tag, char *to,
                        int64_t line_bytes) {
    for (int i = 0; i < loan->chunks; i++) {
        const struct mmul_range chunk = chunk_lines(loan, i);
        mmul_message_receive(peers, loan->peer, tag, to + chunk.begin * line_bytes,
                             (chunk.end - chunk.begin) * line_bytes, &loan->in[i]);
    }
}

void mmul_loans_answer(struct mmul_site *site, const struct mmul_loan_lines *lines) {
    struct mmul_loans *loans = site->loans;
    const struct mmul_comm *comm = site->context->comm;
    const bool any = lines->begin < lines->end;
    loans->given = *lines;
    if (any && loans->asked_by->lends == MMUL_LENDS_VALUES) {
        loans->borrowed =
            make_loan(loans->asked_by, lines, comm->rank, mmul_lending_leader(site, lines->rank));
        receive_all(&site->transport.talk, &loans->borrowed, TAG_A, a_address(loans->asked_by, 0),
                    a_line_bytes(loans->asked_by));
        loans->taken = 0;
        loans->chunks = loans->borrowed.chunks;
        atomic_store(&loans->came, 0);
        atomic_store(&loans->made, 0);
        atomic_store(&loans->left, 0);
    }
    atomic_store(&loans->state, any ? MMUL_LOAN_GIVEN : MMUL_LOAN_REFUSED);
}

// Sends the chunks up to `end`.
static void send_chunks(const struct mmul_peers *peers, struct mmul_loan *loan, int tag,
                        const char *from, int64_t line_bytes, int end) {
    for (; loan->begun < end; loan->begun++) {
        const struct mmul_range chunk = chunk_lines(loan, loan->begun);
        mmul_message_send(peers, loan->peer, tag, from + chunk.begin * line_bytes,
                          (chunk.end - chunk.begin) * line_bytes, &loan->out[loan->begun]);
    }
}

// Updates the counts of sent and received chunks. Returns true if one more chunk has arrived.
static bool update_counts(const struct mmul_peers *peers, struct mmul_loan *loan) {
    while (loan->sent < loan->begun && mmul_message_is_over(peers, &loan->out[loan->sent]))
        loan->sent++;
    if (loan->received == loan->chunks || !mmul_message_is_over(peers, &loan->in[loan->received]))
        return false;
    loan->received++;
    return true;
}

static bool is_loan_over(const struct mmul_loan *loan) {
    return loan->sent == loan->chunks && loan->received == loan->chunks;
}

static void move_borrowed(struct mmul_site *site) {
    struct mmul_loans *loans = site->loans;
    struct mmul_loan *loan = &loans->borrowed;
    const struct mmul_peers *peers = &site->transport.talk;
    if (loan->stage == NULL)
        return;
    send_chunks(peers, loan, TAG_C, c_address(loan->stage, 0), c_line_bytes(loan->stage),
                mmul_failure_is_void(&site->failure) ? loan->chunks : atomic_load(&loans->made));
    while (update_counts(peers, loan))
        atomic_store(&loans->came, loan->received);
    atomic_store(&loans->left, loan->sent);
    if (is_loan_over(loan))
        loan->stage = NULL;
}

static void move_lent(struct mmul_site *site, struct mmul_loan *loan) {
    const int64_t before = chunk_lines(loan, loan->received).begin;
    while (update_counts(&site->transport.talk, loan))
        ;
    const int64_t lines = chunk_lines(loan, loan->received).begin - before;
    if (lines > 0 && !mmul_failure_is_void(&site->failure))
        mmul_works_finish(loan->stage, loan->owner, lines);
    if (is_loan_over(loan))
        loan->stage = NULL;
}

void mmul_loans_attend(struct mmul_site *site) {
    if (site->loans == NULL)
        return;
    move_borrowed(site);
    for (int i = 0; i < MMUL_LOANS_MOST; i++)
        if (site->loans->lent[i].stage != NULL)
            move_lent(site, &site->loans->lent[i]);
}

bool mmul_loans_are_over(const struct mmul_site *site) {
    const struct mmul_loans *loans = site->loans;
    if (loans == NULL)
        return true;
    bool over = loans->borrowed.stage == NULL && atomic_load(&loans->state) != MMUL_LOAN_ASKED;
    for (int i = 0; i < MMUL_LOANS_MOST; i++)
        over &= loans->lent[i].stage == NULL;
    return over;
}

// ----------------------------------------------------------------------------------------- lending

// Returns rows of a rank of this node if they are contiguous, else NULL.
static char *find_contiguous_rows(const struct mmul_stage *stage, int place, int rank,
                                  const struct mmul_loan_lines *lines) {
    const int64_t first = mmul_schedule_ranks(stage->is.schedule)[rank].begin;
    const struct mmul_view view = mmul_values_view(stage->site->values, place, rank, 0);
    const struct mmul_region rows = {0, first + lines->begin, first + lines->end,
                                     view.region.col_begin, view.region.col_end};
    return mmul_view_run(&view, rows);
}

static struct mmul_loan *find_free_loan(const struct mmul_stage *stage) {
    struct mmul_loans *loans = stage->site->loans;
    for (int i = 0; i < MMUL_LOANS_MOST; i++)
        if (loans->lent[i].stage == NULL)
            return &loans->lent[i];
    return NULL;
}

bool mmul_loans_may_give(const struct mmul_stage *stage) {
    return find_free_loan(stage) != NULL;
}

void mmul_loans_give(struct mmul_stage *stage, const struct mmul_work *work, int peer) {
    const struct mmul_loan_lines lines = {work->rank, work->index, work->line_begin,
                                          work->line_end};
    const struct mmul_peers *peers = &stage->site->transport.talk;
    struct mmul_loan *loan = find_free_loan(stage);
    *loan = make_loan(stage, &lines, peer, peer);
    loan->owner = work->owner;
    receive_all(peers, loan, TAG_C,
                find_contiguous_rows(stage, stage->is.places.c, work->rank, &lines),
                c_line_bytes(stage));
    send_chunks(peers, loan, TAG_A,
                find_contiguous_rows(stage, stage->is.places.split, work->rank, &lines),
                a_line_bytes(stage), loan->chunks);
}

bool mmul_loans_can_move(const struct mmul_stage *stage) {
    const struct mmul_comm *comm = stage->comm;
    bool can = true;
    for (int rank = 0; can && rank < comm->size; rank++) {
        const struct mmul_schedule_rank *r = &mmul_schedule_ranks(stage->is.schedule)[rank];
        const struct mmul_loan_lines all = {rank, 0, 0, r->end - r->begin};
        if (comm->rank_node[rank] == comm->node_index && r->end > r->begin)
            can = find_contiguous_rows(stage, stage->is.places.split, rank, &all) != NULL &&
                  find_contiguous_rows(stage, stage->is.places.c, rank, &all) != NULL;
    }
    return can;
}

// --------------------------------------------------------------------------- creation, destruction

enum mmul_status mmul_loans_create(struct mmul_site *site, int64_t bytes, struct mmul_error *err) {
    if (site->lends == MMUL_LENDS_NOTHING)
        return MMUL_OK;
    enum mmul_status status = MMUL_ALLOCATE(site->loans, 1, "loans", err);
    return status == MMUL_OK && bytes > 0 ? MMUL_ALLOCATE(site->loans->room, bytes, "loans", err)
                                          : status;
}

void mmul_loans_destroy(struct mmul_site *site, bool keeps) {
    if (site->loans != NULL && !keeps) {
        mmul_free(site->loans->room);
        mmul_free(site->loans);
    }
    site->loans = NULL;
}
