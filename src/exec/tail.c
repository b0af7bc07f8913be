// SPDX-License-Identifier: MIT
// A rank's side of the dynamic tail. The two threads hand claims to each other through their state;
// the messages are the main thread's, the products the compute thread's.
#include "exec/tail.h"

#include "base/clock.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "exec/compute.h"
#include "exec/operands.h"
#include "exec/tail_root.h"

static const double NAP_SECONDS = 100e-6;

static bool maps(const struct mmul_plan *plan, int node, unsigned what) {
    return (mmul_plan_nodes(plan)[node].maps & what) != 0;
}

int64_t mmul_claim_piece_bytes(const struct mmul_plan *plan, int node, int64_t units) {
    if (maps(plan, node, plan->axis == MMUL_ROWS ? MMUL_MAPS_A : MMUL_MAPS_B))
        return 0;
    return units * plan->problem.k *
           (int64_t)mmul_dtype_bytes(mmul_problem_split_dtype(&plan->problem, plan->axis));
}

int64_t mmul_claim_c_in_bytes(const struct mmul_plan *plan, int node, int64_t units) {
    if (plan->problem.beta == 0 || maps(plan, node, MMUL_MAPS_C_IN))
        return 0;
    return units * mmul_problem_result_width(&plan->problem, plan->axis) * (int64_t)sizeof(float);
}

int64_t mmul_claim_c_bytes(const struct mmul_plan *plan, int node, int64_t units) {
    if (maps(plan, node, MMUL_MAPS_C))
        return 0;
    return units * mmul_problem_result_width(&plan->problem, plan->axis) * (int64_t)sizeof(float);
}

// ---------------------------------------------------------------------------------- start, end

static enum mmul_status claim_init(struct mmul_tail *tail, struct mmul_claim *claim,
                                   struct mmul_error *err) {
    const struct mmul_plan *plan = tail->run->plan;
    int node = tail->run->layout.node_index;
    int64_t in = mmul_claim_piece_bytes(plan, node, tail->most_units) +
                 mmul_claim_c_in_bytes(plan, node, tail->most_units);
    int64_t out = mmul_claim_c_bytes(plan, node, tail->most_units);
    claim->send = claim->receive = MPI_REQUEST_NULL;
    enum mmul_status status = MMUL_OK;
    if (in > 0)
        status = MMUL_ALLOCATE_RAW(claim->pieces, in, "a claim", err);
    if (status == MMUL_OK && out > 0)
        status = MMUL_ALLOCATE_RAW(claim->c, out, "a claim", err);
    return status;
}

enum mmul_status mmul_tail_init(struct mmul_tail *tail, struct mmul_run *run,
                                struct mmul_error *err) {
    const struct mmul_plan *plan = run->plan;
    *tail = (struct mmul_tail){.run = run, .mpi = MPI_COMM_NULL};
    if (plan->tail_begin == plan->total)
        return MMUL_OK;
    enum mmul_status status =
        mmul_comm_check(MPI_Comm_dup(run->context->comm->world, &tail->mpi), "duplication", err);
    tail->most_units = plan->tail_most;
    if (mmul_schedule_claims(plan, run->context->comm->rank)) {
        bool away = mmul_claim_c_bytes(plan, run->layout.node_index, 1) > 0;
        tail->depth = away ? MMUL_CLAIMS : 1;
    }
    for (int i = 0; status == MMUL_OK && i < tail->depth; i++)
        status = claim_init(tail, &tail->claims[i], err);
    if (status == MMUL_OK && run->context->comm->rank == 0)
        status = mmul_tail_root_create(tail, err);
    return status;
}

void mmul_tail_fini(struct mmul_tail *tail) {
    mmul_tail_root_destroy(tail->root);
    bool is_read = tail->run != NULL && tail->run->has_abandoned;
    for (int i = 0; i < MMUL_CLAIMS && !is_read; i++) {
        mmul_free(tail->claims[i].pieces);
        mmul_free(tail->claims[i].c);
    }
    if (tail->run != NULL && tail->mpi != MPI_COMM_NULL)
        MPI_Comm_free(&tail->mpi);
    *tail = (struct mmul_tail){.mpi = MPI_COMM_NULL};
}

// ---------------------------------------------------------------------------------- main thread

static void fail(struct mmul_tail *tail, const struct mmul_error *err) {
    mmul_failure_keep(&tail->run->failure, err);
}

static bool is_cancelled(const struct mmul_tail *tail) {
    return atomic_load(&tail->run->board->cancelled) != 0;
}

static void check(struct mmul_tail *tail, int code) {
    struct mmul_error err;
    if (mmul_comm_check(code, "claim", &err) != MMUL_OK)
        fail(tail, &err);
}

static void send_words(struct mmul_tail *tail, struct mmul_claim *claim, enum mmul_tail_kind kind) {
    claim->sent[MMUL_WORD_KIND] = kind;
    claim->sent[MMUL_WORD_BEGIN] = claim->range.begin;
    claim->sent[MMUL_WORD_END] = claim->range.end;
    claim->sent[MMUL_WORD_RATE] = atomic_load(&tail->rate);
    claim->sent[MMUL_WORD_FAILED] = claim->failed || is_cancelled(tail);
    check(tail, MPI_Isend(claim->sent, MMUL_TAIL_WORDS, MPI_INT64_T, 0, MMUL_TAG_TO_ROOT, tail->mpi,
                          &claim->send));
}

static bool test(struct mmul_tail *tail, MPI_Request *request) {
    int over = 1;
    check(tail, MPI_Test(request, &over, MPI_STATUS_IGNORE));
    return over != 0;
}

// Own steps are over or, where claims travel, in their last one; one claim asks at a time, so that
// grants and their pieces come in order.
static bool may_ask(const struct mmul_tail *tail) {
    const struct mmul_run *run = tail->run;
    int64_t done = atomic_load(&run->board->ranks[run->context->comm->node_rank].steps_done);
    for (int i = 0; i < tail->depth; i++) {
        int state = atomic_load(&tail->claims[i].state);
        if (state == MMUL_CLAIM_ASKED || state == MMUL_CLAIM_ARRIVING)
            return false;
    }
    return done >= run->layout.steps - (tail->depth > 1);
}

static void ask(struct mmul_tail *tail, struct mmul_claim *claim) {
    claim->range = (struct mmul_range){0, 0};
    check(tail, MPI_Irecv(claim->received, MMUL_TAIL_WORDS, MPI_INT64_T, 0, MMUL_TAG_FROM_ROOT,
                          tail->mpi, &claim->receive));
    send_words(tail, claim, MMUL_TAIL_ASK);
    atomic_store(&claim->state, MMUL_CLAIM_ASKED);
}

// The grant is here: are pieces to follow?
static void take_grant(struct mmul_tail *tail, struct mmul_claim *claim) {
    int node = tail->run->layout.node_index;
    claim->range =
        (struct mmul_range){claim->received[MMUL_WORD_BEGIN], claim->received[MMUL_WORD_END]};
    claim->failed = claim->received[MMUL_WORD_FAILED] != 0;
    if (claim->failed)
        atomic_store(&tail->run->board->cancelled, 1);
    int64_t units = claim->range.end - claim->range.begin;
    if (units == 0) {
        atomic_store(&claim->state, MMUL_CLAIM_NONE);
        return;
    }
    int64_t bytes = mmul_claim_piece_bytes(tail->run->plan, node, units) +
                    mmul_claim_c_in_bytes(tail->run->plan, node, units);
    if (bytes == 0) {
        atomic_store(&claim->state, MMUL_CLAIM_READY);
        return;
    }
    mmul_message_receive(&tail->run->transport.talk, 0, MMUL_TAG_PIECES, claim->pieces, bytes,
                         &claim->data);
    atomic_store(&claim->state, MMUL_CLAIM_ARRIVING);
}

static void give_back(struct mmul_tail *tail, struct mmul_claim *claim) {
    int node = tail->run->layout.node_index;
    int64_t units = claim->range.end - claim->range.begin;
    int64_t bytes = mmul_claim_c_bytes(tail->run->plan, node, units);
    send_words(tail, claim, MMUL_TAIL_DONE);
    if (claim->failed)
        mmul_failure_void(&tail->run->failure);
    if (bytes > 0)
        mmul_message_send(&tail->run->transport.talk, 0, MMUL_TAG_BLOCK, claim->c, bytes,
                          &claim->data);
    atomic_store(&claim->state, MMUL_CLAIM_LEAVING);
}

static bool data_is_through(struct mmul_tail *tail, struct mmul_claim *claim) {
    bool done = mmul_message_is_over(&tail->run->transport.talk, &claim->data);
    claim->failed |= is_cancelled(tail);
    return done;
}

static bool attend_claim(struct mmul_tail *tail, struct mmul_claim *claim) {
    switch ((enum mmul_claim_state)atomic_load(&claim->state)) {
    case MMUL_CLAIM_IDLE:
        if (!may_ask(tail))
            return false;
        ask(tail, claim);
        return true;
    case MMUL_CLAIM_ASKED:
        if (!test(tail, &claim->send) || !test(tail, &claim->receive))
            return false;
        take_grant(tail, claim);
        return true;
    case MMUL_CLAIM_ARRIVING:
        if (!data_is_through(tail, claim))
            return false;
        atomic_store(&claim->state, MMUL_CLAIM_READY);
        return true;
    case MMUL_CLAIM_COMPUTED:
        give_back(tail, claim);
        return true;
    case MMUL_CLAIM_LEAVING:
        if (!test(tail, &claim->send) || !data_is_through(tail, claim))
            return false;
        atomic_store(&claim->state, MMUL_CLAIM_IDLE);
        return true;
    case MMUL_CLAIM_READY: // the compute thread's
    case MMUL_CLAIM_NONE:
        break;
    }
    return false;
}

enum mmul_attention mmul_tail_attend(struct mmul_tail *tail) {
    bool moved = false, finished = true;
    if (tail->mpi == MPI_COMM_NULL)
        return MMUL_ATTEND_FINISHED;
    for (int i = 0; i < tail->depth; i++) {
        moved |= attend_claim(tail, &tail->claims[i]);
        finished &= atomic_load(&tail->claims[i].state) == MMUL_CLAIM_NONE;
    }
    if (tail->root != NULL) {
        moved |= mmul_tail_root_advance(tail->root);
        finished &= mmul_tail_root_is_finished(tail->root);
    }
    if (moved)
        return MMUL_ATTEND_MOVED;
    return finished ? MMUL_ATTEND_FINISHED : MMUL_ATTEND_NOTHING;
}

// ------------------------------------------------------------------------------- compute thread

static enum mmul_status compute_claim(struct mmul_tail *tail, struct mmul_claim *claim,
                                      struct mmul_error *err) {
    struct mmul_run *run = tail->run;
    const struct mmul_plan *plan = run->plan;
    int64_t units = claim->range.end - claim->range.begin;
    struct mmul_part part = {.range = claim->range,
                             .verifier =
                                 run->checks_by_whole ? &run->verifier : &run->tail_verifier,
                             .pieces = claim->pieces,
                             .c = claim->c};
    if (claim->pieces != NULL)
        part.c_in = claim->pieces + mmul_claim_piece_bytes(plan, run->layout.node_index, units);
    enum mmul_status status = MMUL_OK;
    double begin = mmul_clock_now();
    if (claim->pieces != NULL)
        mmul_run_forget_pieces(run);
    for (int64_t i = 0, count; status == MMUL_OK && i < run->layout.steps; i += count) {
        struct mmul_step step = mmul_schedule_step(plan, i);
        count = mmul_run_widen(run, &step);
        status = mmul_run_compute_part(run, step, &part, err);
    }
    run->mine.claimed_units += units;
    run->mine.claims++;
    double seconds = mmul_clock_now() - begin;
    atomic_store(&tail->rate,
                 (int64_t)(1000.0 * (double)units / (seconds > 1e-6 ? seconds : 1e-6)));
    return status;
}

// What this rank did in its own steps says how fast it is.
static void rate_own_steps(struct mmul_tail *tail) {
    const struct mmul_run *run = tail->run;
    double seconds = run->mine.compute_seconds + run->mine.verify_seconds;
    double units = (double)(run->me->end - run->me->begin);
    atomic_store(&tail->rate, (int64_t)(1000.0 * units / (seconds > 1e-6 ? seconds : 1e-6)));
}

// A claim that may be computed; NULL: none yet, or, when *over, never again.
static struct mmul_claim *find_ready(struct mmul_tail *tail, bool *over) {
    *over = true;
    for (int i = 0; i < tail->depth; i++) {
        int state = atomic_load(&tail->claims[i].state);
        *over &= state == MMUL_CLAIM_NONE;
        if (state == MMUL_CLAIM_READY)
            return &tail->claims[i];
    }
    return NULL;
}

// What a rank without a claim waits for: another one, or that its last block leaves.
static double *awaited(const struct mmul_tail *tail) {
    for (int i = 0; i < tail->depth; i++) {
        int state = atomic_load(&tail->claims[i].state);
        if (state != MMUL_CLAIM_COMPUTED && state != MMUL_CLAIM_LEAVING && state != MMUL_CLAIM_NONE)
            return &tail->run->mine.scatter_seconds;
    }
    return &tail->run->mine.gather_seconds;
}

void mmul_tail_compute(struct mmul_tail *tail) {
    struct mmul_run *run = tail->run;
    struct mmul_error err;
    bool over = tail->depth == 0;
    mmul_stopwatch_enter(&run->watch, &run->mine.compute_seconds); // up to date for what follows
    rate_own_steps(tail);
    while (!over) {
        struct mmul_claim *claim = find_ready(tail, &over);
        if (claim == NULL) {
            mmul_stopwatch_enter(&run->watch, awaited(tail));
            mmul_clock_nap(NAP_SECONDS);
            continue;
        }
        mmul_stopwatch_enter(&run->watch, &run->mine.compute_seconds);
        if (!claim->failed && !is_cancelled(tail) && compute_claim(tail, claim, &err) != MMUL_OK)
            mmul_run_fail_compute(run, &err);
        claim->failed |= is_cancelled(tail);
        atomic_store(&claim->state, MMUL_CLAIM_COMPUTED);
    }
}
