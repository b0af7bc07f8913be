// SPDX-License-Identifier: MIT
// Two cursors of a leader, what goes out and what comes in, along the nodes: in round s node i sends to
// node i + s and receives from node i - s. They do not wait for each other, so the rounds cannot block
// each other: what round s waits for are earlier rounds only.
#include "exec/move.h"

#include "base/memory.h"
#include "base/status.h"
#include "model/matrix.h"

enum { TAG = 64 };

enum mmul_status mmul_move_init(struct mmul_move_traffic *traffic, struct mmul_run *run,
                                struct mmul_error *err) {
    bool any = false;
    *traffic = (struct mmul_move_traffic){.run = run};
    for (int i = 0; i < run->stage_count; i++)
        any |= run->stages[i].is.kind == MMUL_STAGE_MOVE;
    if (!any)
        return MMUL_OK;
    return MMUL_ALLOCATE_RAW(traffic->staging,
                             (int64_t)(2 * MMUL_MOVE_LANES + 1) * MMUL_MOVE_ELEMENTS, "moves", err);
}

void mmul_move_fini(struct mmul_move_traffic *traffic) {
    if (traffic->run != NULL && mmul_comm_is_broken(traffic->run->context->comm))
        mmul_abandon(traffic->staging); // MPI may still use it
    else
        mmul_free(traffic->staging);
    *traffic = (struct mmul_move_traffic){0};
}

static struct mmul_move move_of(const struct mmul_stage *stage) {
    return mmul_program_plan_move(stage->run->values->plan, stage->is.step);
}

static bool is_of_file(const struct mmul_move *move) {
    return move->from.kind == MMUL_PLACE_FILE || move->to.kind == MMUL_PLACE_FILE;
}

bool mmul_move_is_load(const struct mmul_stage *stage) {
    return move_of(stage).from.kind == MMUL_PLACE_FILE;
}

// ------------------------------------------------------------------------------- ends of a move

static const struct mmul_operation *operation_of(const struct mmul_stage *stage, int place) {
    const struct mmul_program_plan *plan = stage->run->values->plan;
    return &plan->program->operations[plan->places[place].operation];
}

// The piece as this node has it; of summands the sum of those of its ranks.
static void fetch(struct mmul_stage *stage, const struct mmul_move *move,
                  const struct mmul_move_piece *piece, float *to) {
    const struct mmul_values *v = stage->run->values;
    struct mmul_failure *failure = &stage->run->failure;
    int place = stage->is.step->operands[0];
    struct mmul_error err;
    if (mmul_failure_is_void(failure))
        return;
    if (move->from.kind == MMUL_PLACE_FILE) {
        struct mmul_matrix *matrix = operation_of(stage, place)->matrix;
        if (mmul_matrix_read_float(matrix, piece->region, 0, mmul_region_count(piece->region), to,
                                   &err) != MMUL_OK)
            mmul_failure_keep(failure, &err);
        return;
    }
    bool found = false;
    for (int rank = 0; rank < move->size && (!found || piece->is_sum); rank++) {
        bool is_holder = piece->from_rank < 0 || piece->from_rank == rank;
        if (move->rank_node[rank] != v->node || !is_holder)
            continue;
        struct mmul_view view = mmul_values_view(v, place, rank, piece->region.matrix);
        mmul_view_read(&view, piece->region, found, to);
        found = true;
    }
}

static void store(struct mmul_stage *stage, const struct mmul_move *move,
                  const struct mmul_move_piece *piece, const float *from) {
    const struct mmul_values *v = stage->run->values;
    struct mmul_failure *failure = &stage->run->failure;
    int place = stage->is.step->result, rank = piece->to_rank;
    struct mmul_error err;
    if (mmul_failure_is_void(failure))
        return;
    if (move->to.kind == MMUL_PLACE_FILE) {
        struct mmul_output *output = operation_of(stage, place)->output;
        if (mmul_output_write_float(output, piece->region, 0, mmul_region_count(piece->region),
                                    from, &err) != MMUL_OK)
            mmul_failure_keep(failure, &err);
        return;
    }
    struct mmul_view view =
        mmul_values_view(v, place, rank < 0 ? v->rank : rank, piece->region.matrix);
    mmul_view_write(&view, piece->region, piece->is_sum, from);
}

// ------------------------------------------------------------------------------- within the node

// Who copies a piece: whose it becomes or was, else the leader.
static bool is_mine(const struct mmul_values *v, const struct mmul_move_piece *piece) {
    int rank = piece->to_rank >= 0 ? piece->to_rank : piece->from_rank;
    return rank >= 0 ? rank == v->rank : v->node_rank == 0;
}

enum mmul_status mmul_move_here(struct mmul_stage *stage, struct mmul_error *err) {
    const struct mmul_values *v = stage->run->values;
    const struct mmul_move move = move_of(stage);
    struct mmul_move_walk walk = mmul_move_walk(&move, v->node, v->node, MMUL_MOVE_ELEMENTS);
    struct mmul_move_piece piece;
    float *staging = NULL;
    if (is_of_file(&move))
        return MMUL_OK;
    enum mmul_status status = MMUL_ALLOCATE_RAW(staging, MMUL_MOVE_ELEMENTS, "moves", err);
    while (status == MMUL_OK && mmul_move_next(&walk, &piece)) {
        if (!is_mine(v, &piece))
            continue;
        fetch(stage, &move, &piece, staging);
        store(stage, &move, &piece, staging);
    }
    mmul_free(staging);
    return status;
}

// The next piece of a file of root's; true when there was one.
static bool advance_here(struct mmul_move_traffic *t) {
    struct mmul_move_piece piece;
    float *staging = t->staging + (int64_t)2 * MMUL_MOVE_LANES * MMUL_MOVE_ELEMENTS;
    if (t->is_here_over)
        return false;
    t->is_here_over = !mmul_move_next(&t->here, &piece);
    if (!t->is_here_over) {
        fetch(t->stage, &t->move, &piece, staging);
        store(t->stage, &t->move, &piece, staging);
    }
    return true;
}

// --------------------------------------------------------------------------------- between nodes

static struct mmul_move_cursor make_cursor(const struct mmul_move_traffic *t, bool outward) {
    struct mmul_move_cursor cursor = {.outward = outward};
    for (int i = 0; i < MMUL_MOVE_LANES; i++)
        cursor.lanes[i].staging =
            t->staging + (int64_t)(outward ? i : MMUL_MOVE_LANES + i) * MMUL_MOVE_ELEMENTS;
    return cursor;
}

void mmul_move_begin(struct mmul_move_traffic *traffic, struct mmul_stage *stage) {
    struct mmul_move_traffic *t = traffic;
    int node = t->run->values->node;
    t->stage = stage;
    t->move = move_of(stage);
    t->here = mmul_move_walk(&t->move, node, node, MMUL_MOVE_ELEMENTS);
    t->is_here_over = !is_of_file(&t->move);
    t->out = make_cursor(t, true);
    t->in = make_cursor(t, false);
}

// The node at the other end in the cursor's round.
static int peer_of(const struct mmul_move_traffic *t, const struct mmul_move_cursor *c) {
    int nodes = t->move.node_count, here = t->run->values->node;
    return (here + (c->outward ? c->round : nodes - c->round)) % nodes;
}

// False when all rounds have been walked.
static bool next_piece(const struct mmul_move_traffic *t, struct mmul_move_cursor *c,
                       struct mmul_move_piece *piece) {
    int here = t->run->values->node;
    while (c->round == 0 || !mmul_move_next(&c->walk, piece)) {
        if (++c->round >= t->move.node_count)
            return false;
        int peer = peer_of(t, c);
        c->walk = c->outward ? mmul_move_walk(&t->move, here, peer, MMUL_MOVE_ELEMENTS)
                             : mmul_move_walk(&t->move, peer, here, MMUL_MOVE_ELEMENTS);
    }
    return true;
}

static int leader_of(const struct mmul_move_traffic *t, int node) {
    int rank = 0;
    while (t->move.rank_node[rank] != node)
        rank++;
    return rank;
}

static void begin_piece(struct mmul_move_traffic *t, struct mmul_move_cursor *c,
                        struct mmul_move_lane *lane) {
    const struct mmul_channel *channel = &t->run->transport.talk;
    int peer = leader_of(t, peer_of(t, c));
    int64_t bytes = mmul_region_count(lane->piece.region) * (int64_t)sizeof(float);
    if (!c->outward) {
        mmul_message_receive(channel, peer, TAG, lane->staging, bytes, &lane->message);
        return;
    }
    fetch(t->stage, &t->move, &lane->piece, lane->staging);
    mmul_message_send(channel, peer, TAG, lane->staging, bytes, &lane->message);
}

static bool advance(struct mmul_move_traffic *t, struct mmul_move_cursor *c) {
    struct mmul_move_lane *oldest = &c->lanes[c->ended % MMUL_MOVE_LANES];
    bool moved = false;
    if (c->ended < c->begun && mmul_message_is_over(&t->run->transport.talk, &oldest->message)) {
        if (!c->outward)
            store(t->stage, &t->move, &oldest->piece, oldest->staging);
        c->ended++;
        moved = true;
    }
    if (!c->is_over && c->begun - c->ended < MMUL_MOVE_LANES) {
        struct mmul_move_lane *lane = &c->lanes[c->begun % MMUL_MOVE_LANES];
        c->is_over = !next_piece(t, c, &lane->piece);
        if (!c->is_over) {
            begin_piece(t, c, lane);
            c->begun++;
        }
        moved = true;
    }
    return moved;
}

bool mmul_move_advance(struct mmul_move_traffic *traffic) {
    struct mmul_move_traffic *t = traffic;
    bool moved = advance(t, &t->out);
    moved |= advance(t, &t->in);
    return advance_here(t) || moved;
}

bool mmul_move_is_over(const struct mmul_move_traffic *traffic) {
    const struct mmul_move_traffic *t = traffic;
    return t->is_here_over && t->out.is_over && t->out.ended == t->out.begun && t->in.is_over &&
           t->in.ended == t->in.begun;
}
