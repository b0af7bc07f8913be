// SPDX-License-Identifier: MIT
// Requests, buffers and chunks of loans, at both ends. Does not select lender or lines
// (exec/tasks/node_steal.c, exec/tasks/work.c). MPI delivers messages of one tag between two ranks
// in order, so the chunks of successive loans arrive in order, too.
#include "exec/tasks/steals.h"

#include "base/clock.h"
#include "base/eventcount.h"
#include "base/integer.h"
#include "base/memory.h"
#include "exec/steps/product.h"
#include "exec/steps/rank_resources.h"
#include "exec/tasks/node_steal.h"
#include "plan/lists/footprint.h"

enum { TAG_A = 9003, TAG_C = 9005 }; // Each tag uses the following one, too.

static const double NAP_SECONDS = 200e-6;

static bool is_cancelled(const struct mmul_rank_resources *rank_resources) {
    return atomic_load(&rank_resources->progress->cancelled) != 0;
}

// Bytes of a line of A, and of C below.
static int64_t a_line_bytes(const struct mmul_stage *stage) {
    return mmul_problem_split_unit_bytes(&stage->schedule->problem, MMUL_ROWS);
}

static int64_t c_line_bytes(const struct mmul_stage *stage) {
    return mmul_problem_result_unit_bytes(&stage->schedule->problem, MMUL_ROWS);
}

// Returns the lines of a chunk, relative to the loan. Chunks after the last one are empty.
static struct mmul_range chunk_lines(const struct mmul_steal *loan, int index) {
    const int64_t lines = loan->lines.end - loan->lines.begin;
    return (struct mmul_range){lines * index / loan->chunks, lines * (index + 1) / loan->chunks};
}

static struct mmul_steal make_loan(struct mmul_stage *stage, const struct mmul_stolen_lines *lines,
                                   int borrower, int peer) {
    const int64_t room = mmul_schedule_stolen_lines_most(stage->schedule, borrower);
    const int64_t least = mmul_divide_up(room, MMUL_STEAL_CHUNKS),
                  count = lines->end - lines->begin;
    return (struct mmul_steal){
        .stage = stage, .lines = *lines, .peer = peer, .chunks = (int)mmul_divide_up(count, least)};
}

// --------------------------------------------------------------------------------------- borrowing

// Addresses of a borrowed line in the buffer: its row of A, then its row of C.
static char *a_address(const struct mmul_stage *stage, int64_t line) {
    return stage->rank_resources->loans->room + line * a_line_bytes(stage);
}

static char *c_address(const struct mmul_stage *stage, int64_t line) {
    return a_address(stage, mmul_schedule_stolen_lines_most(stage->schedule, stage->comm->rank)) +
           line * c_line_bytes(stage);
}

static void set_at_hand(struct mmul_stage *stage, const struct mmul_stolen_lines *lines,
                        struct mmul_stolen_rows brought) {
    const struct mmul_tasks tasks = mmul_tasks_of_schedule(stage->schedule, lines->rank, 0, false);
    stage->works->current_work = (struct mmul_work){.owner = -1,
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
    mmul_worker_invalidate_memory(&stage->rank_resources->worker, begin, begin + bytes);
    mmul_verifier_invalidate_memory(&stage->rank_resources->verifier_room, begin, begin + bytes);
}

// Sets the current work to the chunks that have arrived: the first chunk alone, then all chunks
// that arrived meanwhile. Waiting and packing both stay short.
static bool set_work_to_arrived(struct mmul_stage *stage) {
    struct mmul_steals *loans = stage->rank_resources->loans;
    const struct mmul_steal *loan = &loans->borrowed;
    while (atomic_load(&loans->came) == loans->taken && !is_cancelled(stage->rank_resources))
        mmul_clock_sleep(NAP_SECONDS);
    if (is_cancelled(stage->rank_resources))
        return false;
    const int64_t begin = chunk_lines(loan, loans->taken).begin;
    loans->taken = atomic_load(&loans->came);
    const int64_t end = chunk_lines(loan, loans->taken).begin;
    const int64_t first =
        mmul_schedule_ranks(stage->schedule)[loan->lines.rank].begin + loan->lines.begin;
    const struct mmul_stolen_lines lines = {loan->lines.rank, loan->lines.task,
                                            loan->lines.begin + begin, loan->lines.begin + end};
    const struct mmul_stolen_rows brought = {a_address(stage, begin), c_address(stage, begin),
                                             first + begin, first + end};
    invalidate_memory(stage, brought.a, (end - begin) * a_line_bytes(stage));
    invalidate_memory(stage, brought.c, (end - begin) * c_line_bytes(stage));
    mmul_verifier_invalidate(&stage->verifier);
    set_at_hand(stage, &lines, brought);
    return true;
}

static bool may_borrow(const struct mmul_stage *stage) {
    return stage->steal_scope != MMUL_STEAL_NOTHING &&
           mmul_node_steal_may_request(stage->rank_resources, stage->comm->rank) &&
           stage->product->me->end > stage->product->me->begin &&
           (stage->steal_scope == MMUL_STEAL_VALUES
                ? mmul_schedule_stolen_lines_most(stage->schedule, stage->comm->rank) > 0
                : mmul_node_steal_is_possible(stage));
}

static bool awaits_reply(const struct mmul_steals *loans) {
    const int state = atomic_load(&loans->state);
    return state == MMUL_STEAL_WANTED || state == MMUL_STEAL_REQUESTED;
}

// Does nothing in a cancelled run: a rank that does not wait for its answer would ask twice.
static void post_request(struct mmul_stage *stage, double free_at) {
    struct mmul_steals *loans = stage->rank_resources->loans;
    if (is_cancelled(stage->rank_resources))
        return;
    loans->requesting_stage = stage;
    loans->free_at = free_at;
    atomic_store(&loans->state, MMUL_STEAL_WANTED);
}

// Returns false if the request was refused, or the run was cancelled.
static bool wait_for_reply(struct mmul_stage *stage) {
    struct mmul_steals *loans = stage->rank_resources->loans;
    while (awaits_reply(loans) && !is_cancelled(stage->rank_resources))
        mmul_clock_sleep(NAP_SECONDS);
    return atomic_load(&loans->state) == MMUL_STEAL_GRANTED && !is_cancelled(stage->rank_resources);
}

static bool is_buffer_free(const struct mmul_steals *loans) {
    return atomic_load(&loans->left) == loans->chunks;
}

// Returns true if a hanging device may still write into the buffer.
static bool is_buffer_lost(const struct mmul_stage *stage) {
    return stage->steal_scope == MMUL_STEAL_VALUES && stage->rank_resources->watchdog.has_abandoned;
}

void mmul_steals_request_ahead(struct mmul_stage *stage, double seconds) {
    struct mmul_steals *loans = stage->rank_resources->loans;
    if (stage->steal_scope != MMUL_STEAL_VALUES || !may_borrow(stage) || !is_buffer_free(loans) ||
        loans->is_ahead || is_buffer_lost(stage))
        return;
    post_request(stage, mmul_clock_now() + seconds);
    loans->is_ahead = true;
}

static bool request_lines(struct mmul_stage *stage) {
    struct mmul_steals *loans = stage->rank_resources->loans;
    while (!is_buffer_free(loans) && !is_cancelled(stage->rank_resources))
        mmul_clock_sleep(NAP_SECONDS);
    if (is_buffer_lost(stage))
        return false;
    post_request(stage, 0);
    return wait_for_reply(stage);
}

bool mmul_steals_take_lines(struct mmul_stage *stage) {
    struct mmul_steals *loans = stage->rank_resources->loans;
    if (!may_borrow(stage))
        return false;
    mmul_stopwatch_enter(&stage->rank_resources->watch, NULL);
    // Until the reply arrives, the main thread owns all other fields.
    bool has_some = loans->is_ahead ? wait_for_reply(stage) : loans->taken < loans->chunks;
    loans->is_ahead = false;
    if (!has_some && !request_lines(stage))
        return false;
    if (stage->steal_scope == MMUL_STEAL_VALUES)
        return set_work_to_arrived(stage);
    set_at_hand(stage, &loans->given, (struct mmul_stolen_rows){0});
    return true;
}

void mmul_steals_end_lines(struct mmul_stage *stage) {
    struct mmul_rank_resources *rank_resources = stage->rank_resources;
    if (stage->steal_scope != MMUL_STEAL_VALUES)
        return;
    atomic_store(&rank_resources->loans->made, rank_resources->loans->taken);
    mmul_eventcount_notify(
        &rank_resources->progress->ranks[stage->comm->node_rank].main_thread_eventcount);
}

// ------------------------------------------------------------------------------------- main thread

// Begins the receives of all chunks at once, so that no chunk waits for a main thread in between.
static void receive_all(const struct mmul_peers *peers, struct mmul_steal *loan, int tag, char *to,
                        int64_t line_bytes) {
    for (int i = 0; i < loan->chunks; i++) {
        const struct mmul_range chunk = chunk_lines(loan, i);
        mmul_message_receive(peers, loan->peer, tag, to + chunk.begin * line_bytes,
                             (chunk.end - chunk.begin) * line_bytes, &loan->in[i]);
    }
}

void mmul_steals_process_reply(struct mmul_rank_resources *rank_resources,
                               const struct mmul_stolen_lines *lines) {
    struct mmul_steals *loans = rank_resources->loans;
    const struct mmul_comm *comm = rank_resources->context->comm;
    const bool any = lines->begin < lines->end;
    loans->given = *lines;
    if (any && loans->requesting_stage->steal_scope == MMUL_STEAL_VALUES) {
        loans->borrowed = make_loan(loans->requesting_stage, lines, comm->rank,
                                    mmul_node_leader_of_rank(rank_resources, lines->rank));
        receive_all(&rank_resources->transport.talk, &loans->borrowed, TAG_A,
                    a_address(loans->requesting_stage, 0), a_line_bytes(loans->requesting_stage));
        loans->taken = 0;
        loans->chunks = loans->borrowed.chunks;
        atomic_store(&loans->came, 0);
        atomic_store(&loans->made, 0);
        atomic_store(&loans->left, 0);
    }
    atomic_store(&loans->state, any ? MMUL_STEAL_GRANTED : MMUL_STEAL_REFUSED);
}

// Sends the chunks up to `end`.
static void send_chunks(const struct mmul_peers *peers, struct mmul_steal *loan, int tag,
                        const char *from, int64_t line_bytes, int end) {
    for (; loan->begun < end; loan->begun++) {
        const struct mmul_range chunk = chunk_lines(loan, loan->begun);
        mmul_message_send(peers, loan->peer, tag, from + chunk.begin * line_bytes,
                          (chunk.end - chunk.begin) * line_bytes, &loan->out[loan->begun]);
    }
}

// Updates the counts of sent and received chunks. Returns true if one more chunk has arrived.
static bool update_counts(const struct mmul_peers *peers, struct mmul_steal *loan) {
    while (loan->sent < loan->begun && mmul_message_is_over(peers, &loan->out[loan->sent]))
        loan->sent++;
    if (loan->received == loan->chunks || !mmul_message_is_over(peers, &loan->in[loan->received]))
        return false;
    loan->received++;
    return true;
}

static bool is_loan_over(const struct mmul_steal *loan) {
    return loan->sent == loan->chunks && loan->received == loan->chunks;
}

static void move_borrowed(struct mmul_rank_resources *rank_resources) {
    struct mmul_steals *loans = rank_resources->loans;
    struct mmul_steal *loan = &loans->borrowed;
    const struct mmul_peers *peers = &rank_resources->transport.talk;
    if (loan->stage == NULL)
        return;
    send_chunks(peers, loan, TAG_C, c_address(loan->stage, 0), c_line_bytes(loan->stage),
                mmul_failure_is_void(&rank_resources->failure) ? loan->chunks
                                                               : atomic_load(&loans->made));
    while (update_counts(peers, loan))
        atomic_store(&loans->came, loan->received);
    atomic_store(&loans->left, loan->sent);
    if (is_loan_over(loan))
        loan->stage = NULL;
}

static void move_lent(struct mmul_rank_resources *rank_resources, struct mmul_steal *loan) {
    const int64_t before = chunk_lines(loan, loan->received).begin;
    while (update_counts(&rank_resources->transport.talk, loan))
        ;
    const int64_t lines = chunk_lines(loan, loan->received).begin - before;
    if (lines > 0 && !mmul_failure_is_void(&rank_resources->failure))
        mmul_works_count_finished(loan->stage, loan->owner, lines);
    if (is_loan_over(loan))
        loan->stage = NULL;
}

void mmul_steals_poll(struct mmul_rank_resources *rank_resources) {
    if (rank_resources->loans == NULL)
        return;
    move_borrowed(rank_resources);
    for (int i = 0; i < MMUL_STEALS_MOST; i++)
        if (rank_resources->loans->lent[i].stage != NULL)
            move_lent(rank_resources, &rank_resources->loans->lent[i]);
}

bool mmul_steals_are_over(const struct mmul_rank_resources *rank_resources) {
    const struct mmul_steals *loans = rank_resources->loans;
    if (loans == NULL)
        return true;
    bool over = loans->borrowed.stage == NULL && atomic_load(&loans->state) != MMUL_STEAL_REQUESTED;
    for (int i = 0; i < MMUL_STEALS_MOST; i++)
        over &= loans->lent[i].stage == NULL;
    return over;
}

// ----------------------------------------------------------------------------------------- lending

// Returns rows of a rank of this node if they are contiguous, else NULL.
static char *find_contiguous_rows(const struct mmul_stage *stage, int place, int rank,
                                  const struct mmul_stolen_lines *lines) {
    const int64_t first = mmul_schedule_ranks(stage->schedule)[rank].begin;
    const struct mmul_view view = mmul_values_view(stage->rank_resources->values, place, rank, 0);
    const struct mmul_region rows = {0, first + lines->begin, first + lines->end,
                                     view.region.col_begin, view.region.col_end};
    return mmul_view_contiguous(&view, rows);
}

static struct mmul_steal *find_free_loan(const struct mmul_stage *stage) {
    struct mmul_steals *loans = stage->rank_resources->loans;
    for (int i = 0; i < MMUL_STEALS_MOST; i++)
        if (loans->lent[i].stage == NULL)
            return &loans->lent[i];
    return NULL;
}

bool mmul_steals_has_free_entry(const struct mmul_stage *stage) {
    return find_free_loan(stage) != NULL;
}

void mmul_steals_give_lines(struct mmul_stage *stage, const struct mmul_work *work, int peer) {
    const struct mmul_stolen_lines lines = {work->rank, work->index, work->line_begin,
                                            work->line_end};
    const struct mmul_peers *peers = &stage->rank_resources->transport.talk;
    struct mmul_steal *loan = find_free_loan(stage);
    *loan = make_loan(stage, &lines, peer, peer);
    loan->owner = work->owner;
    receive_all(peers, loan, TAG_C,
                find_contiguous_rows(stage, stage->places.c, work->rank, &lines),
                c_line_bytes(stage));
    send_chunks(peers, loan, TAG_A,
                find_contiguous_rows(stage, stage->places.split, work->rank, &lines),
                a_line_bytes(stage), loan->chunks);
}

bool mmul_steals_can_move_rows(const struct mmul_stage *stage) {
    const struct mmul_comm *comm = stage->comm;
    bool can = true;
    for (int rank = 0; can && rank < comm->size; rank++) {
        const struct mmul_schedule_rank *r = &mmul_schedule_ranks(stage->schedule)[rank];
        const struct mmul_stolen_lines all = {rank, 0, 0, r->end - r->begin};
        if (comm->rank_node[rank] == comm->node_index && r->end > r->begin)
            can = find_contiguous_rows(stage, stage->places.split, rank, &all) != NULL &&
                  find_contiguous_rows(stage, stage->places.c, rank, &all) != NULL;
    }
    return can;
}

// --------------------------------------------------------------------------- creation, destruction

enum mmul_status mmul_steals_create(struct mmul_rank_resources *rank_resources, int64_t bytes,
                                    struct mmul_error *err) {
    if (rank_resources->steal_scope == MMUL_STEAL_NOTHING)
        return MMUL_OK;
    enum mmul_status status = MMUL_ALLOCATE(rank_resources->loans, 1, "loans", err);
    return status == MMUL_OK && bytes > 0
               ? MMUL_ALLOCATE(rank_resources->loans->room, bytes, "loans", err)
               : status;
}

void mmul_steals_destroy(struct mmul_rank_resources *rank_resources, bool keeps) {
    if (rank_resources->loans != NULL && !keeps) {
        mmul_free(rank_resources->loans->room);
        mmul_free(rank_resources->loans);
    }
    rank_resources->loans = NULL;
}
