// SPDX-License-Identifier: MIT
// Two cursors of a leader, what goes out and what comes in, along the stages of a move. They do not
// wait for each other, so the stages cannot block each other: what stage s waits for are earlier
// stages only.
#include "exec/move.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "model/matrix.h"

enum { TAG = 64 };
static const double NAP_LEAST_SECONDS = 20e-6, NAP_MOST_SECONDS = 200e-6;

struct lane {
    struct mmul_message message;
    struct mmul_move_piece piece;
    float *staging;
};

// The pieces of one direction, in order; `begun` and `ended` count them.
struct cursor {
    bool outward;
    int stage; // next_piece has walked those before
    struct mmul_move_walk walk;
    struct lane lanes[MMUL_MOVE_LANES];
    int64_t begun, ended;
    bool is_over; // nothing more to begin
};

struct job {
    struct mmul_value_mover *mover;
    const struct mmul_program_step *step;
    struct mmul_move move;
    struct cursor out, in;
};

enum mmul_status mmul_value_mover_init(struct mmul_value_mover *mover,
                                       const struct mmul_values *values,
                                       const struct mmul_comm *comm,
                                       const struct mmul_channel *channel, struct mmul_error *err) {
    *mover = (struct mmul_value_mover){.values = values, .comm = comm, .channel = channel};
    return MMUL_ALLOCATE_RAW(mover->staging, (int64_t)2 * MMUL_MOVE_LANES * MMUL_MOVE_ELEMENTS,
                             "moves", err);
}

void mmul_value_mover_fini(struct mmul_value_mover *mover) {
    mmul_free(mover->staging);
    *mover = (struct mmul_value_mover){0};
}

// ------------------------------------------------------------------------------- ends of a move

static const struct mmul_operation *operation_of(const struct job *job, int place) {
    const struct mmul_program_plan *plan = job->mover->values->plan;
    return &plan->program->operations[plan->places[place].operation];
}

// The piece as this node has it; of summands the sum of those of its ranks.
static void fetch(const struct job *job, const struct mmul_move_piece *piece, float *to) {
    const struct mmul_values *v = job->mover->values;
    struct mmul_failure *failure = job->mover->channel->failure;
    int place = job->step->operands[0];
    int64_t count = mmul_region_count(piece->region);
    struct mmul_error err;
    if (mmul_failure_is_void(failure))
        return;
    if (job->move.from.kind == MMUL_PLACE_FILE) {
        struct mmul_matrix *matrix = operation_of(job, place)->matrix;
        if (mmul_matrix_read_float(matrix, piece->region, 0, count, to, &err) != MMUL_OK)
            mmul_failure_keep(failure, &err);
        return;
    }
    bool found = false;
    for (int rank = 0; rank < job->move.size && (!found || piece->is_sum); rank++) {
        bool is_holder = piece->from_rank < 0 || piece->from_rank == rank;
        if (job->move.rank_node[rank] != v->node || !is_holder)
            continue;
        struct mmul_view view = mmul_values_view(v, place, rank, piece->region.matrix);
        mmul_view_read(&view, piece->region, found, to);
        found = true;
    }
}

static void store(const struct job *job, const struct mmul_move_piece *piece, const float *from) {
    const struct mmul_values *v = job->mover->values;
    struct mmul_failure *failure = job->mover->channel->failure;
    int place = job->step->result, rank = piece->to_rank;
    int64_t count = mmul_region_count(piece->region);
    struct mmul_error err;
    if (mmul_failure_is_void(failure))
        return;
    if (job->move.to.kind == MMUL_PLACE_FILE) {
        struct mmul_output *output = operation_of(job, place)->output;
        if (mmul_output_write_float(output, piece->region, 0, count, from, &err) != MMUL_OK)
            mmul_failure_keep(failure, &err);
        return;
    }
    struct mmul_view view =
        mmul_values_view(v, place, rank < 0 ? v->rank : rank, piece->region.matrix);
    mmul_view_write(&view, piece->region, piece->is_sum, from);
}

// ------------------------------------------------------------------------------- within the node

// Who copies a piece: root where it is of a file, else whose it becomes or was, else the leader.
static bool is_mine(const struct job *job, const struct mmul_move_piece *piece) {
    const struct mmul_values *v = job->mover->values;
    if (job->move.from.kind == MMUL_PLACE_FILE || job->move.to.kind == MMUL_PLACE_FILE)
        return v->rank == 0;
    int rank = piece->to_rank >= 0 ? piece->to_rank : piece->from_rank;
    return rank >= 0 ? rank == v->rank : v->node_rank == 0;
}

static void copy_here(struct job *job) {
    const int node = job->mover->values->node;
    struct mmul_move_walk walk = mmul_move_walk(&job->move, node, node, MMUL_MOVE_ELEMENTS);
    struct mmul_move_piece piece;
    while (mmul_move_next(&walk, &piece)) {
        if (!is_mine(job, &piece))
            continue;
        fetch(job, &piece, job->mover->staging);
        store(job, &piece, job->mover->staging);
    }
}

// --------------------------------------------------------------------------------- between nodes

static struct cursor make_cursor(const struct job *job, bool outward) {
    struct cursor cursor = {.outward = outward};
    for (int i = 0; i < MMUL_MOVE_LANES; i++)
        cursor.lanes[i].staging =
            job->mover->staging + (int64_t)(outward ? i : MMUL_MOVE_LANES + i) * MMUL_MOVE_ELEMENTS;
    return cursor;
}

// The node at the other end in the cursor's stage.
static int peer_of(const struct job *job, const struct cursor *c) {
    int nodes = job->move.node_count, here = job->mover->values->node;
    return (here + (c->outward ? c->stage : nodes - c->stage)) % nodes;
}

// False when all stages have been walked. Stage 0 is within the node.
static bool next_piece(const struct job *job, struct cursor *c, struct mmul_move_piece *piece) {
    const int here = job->mover->values->node;
    while (c->stage == 0 || !mmul_move_next(&c->walk, piece)) {
        if (++c->stage >= job->move.node_count)
            return false;
        int peer = peer_of(job, c);
        c->walk = c->outward ? mmul_move_walk(&job->move, here, peer, MMUL_MOVE_ELEMENTS)
                             : mmul_move_walk(&job->move, peer, here, MMUL_MOVE_ELEMENTS);
    }
    return true;
}

static int leader_of(const struct job *job, int node) {
    int rank = 0;
    while (job->move.rank_node[rank] != node)
        rank++;
    return rank;
}

static void begin_piece(struct job *job, struct cursor *c, struct lane *lane) {
    const struct mmul_channel *channel = job->mover->channel;
    int peer = leader_of(job, peer_of(job, c));
    int64_t bytes = mmul_region_count(lane->piece.region) * (int64_t)sizeof(float);
    if (!c->outward) {
        mmul_message_receive(channel, peer, TAG, lane->staging, bytes, &lane->message);
        return;
    }
    fetch(job, &lane->piece, lane->staging);
    mmul_message_send(channel, peer, TAG, lane->staging, bytes, &lane->message);
    job->mover->moved_bytes += bytes;
}

// True when something happened.
static bool advance(struct job *job, struct cursor *c) {
    struct lane *oldest = &c->lanes[c->ended % MMUL_MOVE_LANES];
    bool moved = false;
    if (c->ended < c->begun && mmul_message_is_over(job->mover->channel, &oldest->message)) {
        if (!c->outward)
            store(job, &oldest->piece, oldest->staging);
        c->ended++;
        moved = true;
    }
    if (!c->is_over && c->begun - c->ended < MMUL_MOVE_LANES) {
        struct lane *lane = &c->lanes[c->begun % MMUL_MOVE_LANES];
        c->is_over = !next_piece(job, c, &lane->piece);
        if (!c->is_over) {
            begin_piece(job, c, lane);
            c->begun++;
        }
        moved = true;
    }
    return moved;
}

static bool is_over(const struct cursor *c) {
    return c->is_over && c->ended == c->begun;
}

static void exchange(struct job *job) {
    double nap = NAP_LEAST_SECONDS;
    job->out = make_cursor(job, true);
    job->in = make_cursor(job, false);
    while (!is_over(&job->out) || !is_over(&job->in)) {
        bool sent = advance(job, &job->out);
        if (advance(job, &job->in) || sent) {
            nap = NAP_LEAST_SECONDS;
            continue;
        }
        mmul_clock_nap(nap);
        nap = nap * 1.5 < NAP_MOST_SECONDS ? nap * 1.5 : NAP_MOST_SECONDS;
    }
}

void mmul_value_mover_move(struct mmul_value_mover *mover, const struct mmul_program_step *step) {
    struct job job = {
        .mover = mover, .step = step, .move = mmul_program_plan_move(mover->values->plan, step)};
    struct mmul_error err;
    copy_here(&job);
    // What arrives is added to what the ranks here have added.
    if (mmul_comm_node_barrier(mover->comm, &err) != MMUL_OK)
        mmul_failure_keep(mover->channel->failure, &err);
    if (mover->values->node_rank == 0)
        exchange(&job);
}
