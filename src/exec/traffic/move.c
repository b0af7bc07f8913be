// SPDX-License-Identifier: MIT
// Two cursors of a leader, what goes out and what comes in, along the nodes: in round s node i sends to
// node i + s and receives from node i - s. They do not wait for each other, so the rounds cannot block
// each other: what round s waits for are earlier rounds only.
#include "exec/traffic/move.h"

#include <math.h>

#include "base/memory.h"
#include "base/status.h"
#include "exec/steps/carried_sums.h"
#include "exec/steps/stage_work.h"
#include "exec/steps/sums.h"
#include "exec/traffic/loads.h"
#include "model/matrix.h"

enum { TAG = 64 };

enum mmul_status mmul_move_init(struct mmul_move_traffic *traffic, struct mmul_site *site,
                                struct mmul_error *err) {
    *traffic = (struct mmul_move_traffic){.site = site};
    return MMUL_ALLOCATE_RAW(traffic->staging, (int64_t)MMUL_MOVE_PIECES * MMUL_MOVE_BYTES, "moves",
                             err);
}

void mmul_move_fini(struct mmul_move_traffic *traffic) {
    if (traffic->site != NULL && mmul_comm_is_broken(traffic->site->context->comm))
        mmul_abandon(traffic->staging); // MPI may still use it
    else
        mmul_free(traffic->staging);
    *traffic = (struct mmul_move_traffic){0};
}

static struct mmul_move move_of(const struct mmul_stage *stage,
                                const struct mmul_program_step *step) {
    return mmul_program_plan_move(stage->site->values->plan, step);
}

// What is moved.
static const struct mmul_value *value_of(const struct mmul_stage *stage,
                                         const struct mmul_program_step *step) {
    const struct mmul_program_plan *plan = stage->site->values->plan;
    return &plan->program->values[plan->places[step->operands[0]].value];
}

static int64_t piece_elements(const struct mmul_stage *stage,
                              const struct mmul_program_step *step) {
    return MMUL_MOVE_BYTES / (int64_t)mmul_dtype_bytes(value_of(stage, step)->dtype);
}

// One end of the traffic: a step of the stage, as it is walked.
struct end {
    struct mmul_stage *stage;
    const struct mmul_program_step *step;
    const struct mmul_move *move;
};

static bool is_of_file(const struct mmul_move *move) {
    return move->from.kind == MMUL_PLACE_FILE || move->to.kind == MMUL_PLACE_FILE;
}

bool mmul_move_is_load(const struct mmul_stage *stage) {
    const struct mmul_program_step *also = stage->is.also;
    return move_of(stage, stage->is.step).from.kind == MMUL_PLACE_FILE &&
           (also == NULL || move_of(stage, also).from.kind == MMUL_PLACE_FILE);
}

// ------------------------------------------------------------------------------- ends of a move

static const struct mmul_operation *operation_of(const struct mmul_stage *stage, int place) {
    const struct mmul_program_plan *plan = stage->site->values->plan;
    return &plan->program->operations[plan->places[place].operation];
}

// The piece as this node has it; of summands the sum of those of its ranks.
static void fetch(struct end end, const struct mmul_move_piece *piece, void *to) {
    struct mmul_stage *stage = end.stage;
    const struct mmul_move *move = end.move;
    const struct mmul_values *v = stage->site->values;
    struct mmul_failure *failure = &stage->site->failure;
    int place = end.step->operands[0];
    struct mmul_error err;
    if (mmul_failure_is_void(failure))
        return;
    if (move->from.kind == MMUL_PLACE_FILE) {
        if (mmul_loads_read(v->plan->program, v->plan->places[place].value, piece->region, to,
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

// `add`: to what is there already.
static void store(struct end end, const struct mmul_move_piece *piece, bool add, const void *from) {
    struct mmul_stage *stage = end.stage;
    const struct mmul_values *v = stage->site->values;
    struct mmul_failure *failure = &stage->site->failure;
    int place = end.step->result, rank = piece->to_rank;
    struct mmul_error err;
    if (mmul_failure_is_void(failure))
        return;
    if (end.move->to.kind == MMUL_PLACE_FILE) {
        struct mmul_output *output = operation_of(stage, place)->output;
        const int64_t count = mmul_region_count(piece->region);
        enum mmul_status status =
            value_of(stage, end.step)->dtype == MMUL_F64
                ? mmul_output_write_double(output, piece->region, 0, count, from, &err)
                : mmul_output_write_float(output, piece->region, 0, count, from, &err);
        if (status != MMUL_OK)
            mmul_failure_keep(failure, &err);
        return;
    }
    struct mmul_view view =
        mmul_values_view(v, place, rank < 0 ? v->rank : rank, piece->region.matrix);
    mmul_view_write(&view, piece->region, add, from);
}

// Where a piece can leave, or come to, without a copy; NULL: nowhere.
static void *find_run(struct end end, const struct mmul_move_piece *piece, bool outward) {
    const struct mmul_values *v = end.stage->site->values;
    int rank = outward ? piece->from_rank : piece->to_rank;
    if (piece->is_sum || (outward ? end.move->from.kind : end.move->to.kind) == MMUL_PLACE_FILE)
        return NULL;
    struct mmul_view view = mmul_values_view(v, outward ? end.step->operands[0] : end.step->result,
                                             rank < 0 ? v->rank : rank, piece->region.matrix);
    return mmul_view_run(&view, piece->region);
}

// ------------------------------------------------------------------------------- within the node

// Who copies a piece: whose it was or becomes, else the leader.
static bool is_mine(const struct mmul_values *v, const struct mmul_move_piece *piece) {
    int rank = piece->from_rank >= 0 ? piece->from_rank : piece->to_rank;
    return rank >= 0 ? rank == v->rank : v->node_rank == 0;
}

static void copy_here(struct end end, char *staging) {
    const struct mmul_values *v = end.stage->site->values;
    struct mmul_move_walk walk =
        mmul_move_walk(end.move, v->node, v->node, piece_elements(end.stage, end.step));
    struct mmul_move_piece piece;
    while (!is_of_file(end.move) && mmul_move_next(&walk, &piece)) {
        if (!is_mine(v, &piece))
            continue;
        fetch(end, &piece, staging);
        // Of a sum the first: others come when all here have done this.
        store(end, &piece, false, staging);
    }
}

static enum mmul_status copy_all(struct mmul_stage *stage, struct mmul_error *err) {
    const struct mmul_program_step *steps[] = {stage->is.step, stage->is.also};
    char *staging = NULL;
    enum mmul_status status = MMUL_ALLOCATE_RAW(staging, MMUL_MOVE_BYTES, "moves", err);
    for (int i = 0; status == MMUL_OK && i < MMUL_FACTORS && steps[i] != NULL; i++) {
        const struct mmul_move move = move_of(stage, steps[i]);
        copy_here((struct end){stage, steps[i], &move}, staging);
    }
    mmul_free(staging);
    return status;
}

// ------------------------------------------------------------------------------------ the stage

static bool is_carried(const struct mmul_stage *stage) {
    const struct mmul_program_step *also = stage->is.also;
    const struct mmul_move move = move_of(stage, stage->is.step);
    bool is_all_here = move.node_count == 1 && !is_of_file(&move);
    if (is_all_here && also != NULL) {
        const struct mmul_move other = move_of(stage, also);
        is_all_here = !is_of_file(&other);
    }
    return !is_all_here;
}

static enum mmul_status init(struct mmul_stage *stage, struct mmul_error *err) {
    (void)err;
    stage->is_carried = is_carried(stage);
    return MMUL_OK;
}

// The other nodes' summands travel meanwhile.
static enum mmul_status check_sum(struct mmul_stage *stage, struct mmul_error *err) {
    mmul_carried_sums_give(stage);
    const double *sums = mmul_sums_exchange(stage, 0);
    if (sums == NULL || !mmul_stage_wait(stage, MMUL_TRAFFIC, &stage->progress->has_arrived,
                                         stage->is.panels, &stage->site->mine.scatter_seconds, -1))
        return MMUL_OK; // another failure has ended the run
    return mmul_carried_sums_judge(stage, sums, err);
}

// What belongs to this rank and stays on the node, when all ranks of it have what they had to make.
static enum mmul_status compute(struct mmul_stage *stage, struct mmul_error *err) {
    enum mmul_status status = copy_all(stage, err);
    return status == MMUL_OK && stage->sums.rounds > 0 ? check_sum(stage, err) : status;
}

static bool has_come(const struct mmul_stage *stage, mmul_reach *reach, void *context) {
    return stage->is_carried
               ? reach(context, MMUL_TRAFFIC, &stage->progress->has_arrived, stage->is.panels)
               : mmul_stage_is_done(stage, reach, context);
}

static bool is_over(const struct mmul_stage *stage, mmul_reach *reach, void *context) {
    return has_come(stage, reach, context) &&
           reach(context, MMUL_TRAFFIC, &stage->progress->sums_made, stage->sums.rounds) &&
           (stage->sums.rounds == 0 ||
            mmul_stage_is_done(stage, reach, context)); // they are looked at
}

const struct mmul_stage_kind mmul_move_kind = {
    .copies = true, .init = init, .compute = compute, .is_over = is_over, .has_come = has_come};

// ----------------------------------------------------------------------------------- the traffic

static struct end end_of(const struct mmul_move_traffic *t, int index) {
    return (struct end){t->stage, t->steps[index], &t->moves[index]};
}

static int64_t bytes_of(const struct mmul_move_traffic *t, int index,
                        const struct mmul_move_piece *piece) {
    return mmul_region_count(piece->region) *
           (int64_t)mmul_dtype_bytes(value_of(t->stage, t->steps[index])->dtype);
}

// The next piece of a file of root's; true when there was one.
static bool advance_here(struct mmul_move_traffic *t) {
    struct mmul_move_piece piece;
    char *staging = t->staging + (int64_t)(MMUL_MOVE_PIECES - 1) * MMUL_MOVE_BYTES;
    if (t->is_here_over)
        return false;
    t->is_here_over = !mmul_move_next(&t->here, &piece);
    if (!t->is_here_over) {
        const bool reads = t->moves[0].from.kind == MMUL_PLACE_FILE;
        const double begin = mmul_trace_now(t->site->trace);
        fetch(end_of(t, 0), &piece, staging);
        store(end_of(t, 0), &piece, false, staging);
        mmul_trace_add_of(t->site->trace, t->stage->index,
                          reads ? MMUL_TRACE_READ_PART : MMUL_TRACE_WRITE_PART, begin,
                          bytes_of(t, 0, &piece), 0);
    }
    return true;
}

// --------------------------------------------------------------------------------- between nodes

static struct mmul_move_cursor make_cursor(const struct mmul_move_traffic *t, int index,
                                           bool outward) {
    struct mmul_move_cursor cursor = {.outward = outward, .index = index};
    for (int i = 0; i < MMUL_MOVE_LANES; i++)
        cursor.lanes[i].staging =
            t->staging + (int64_t)((2 * index + outward) * MMUL_MOVE_LANES + i) * MMUL_MOVE_BYTES;
    return cursor;
}

void mmul_move_begin(struct mmul_move_traffic *traffic, struct mmul_stage *stage) {
    struct mmul_move_traffic *t = traffic;
    int node = t->site->values->node;
    t->stage = stage;
    t->count = 0;
    t->steps[t->count++] = stage->is.step;
    if (stage->is.also != NULL)
        t->steps[t->count++] = stage->is.also;
    for (int i = 0; i < t->count; i++) {
        t->moves[i] = move_of(stage, t->steps[i]);
        t->out[i] = make_cursor(t, i, true);
        t->in[i] = make_cursor(t, i, false);
    }
    t->here = mmul_move_walk(&t->moves[0], node, node, piece_elements(stage, t->steps[0]));
    t->is_here_over = !is_of_file(&t->moves[0]);
}

// The node at the other end in the cursor's round.
static int peer_of(const struct mmul_move_traffic *t, const struct mmul_move_cursor *c) {
    int nodes = t->moves[0].node_count, here = t->site->values->node;
    return (here + (c->outward ? c->round : nodes - c->round)) % nodes;
}

// What the receiving node wants of the move in this turn: terms, which are columns of the left operand
// and rows of the right one.
static struct mmul_move panel_of(const struct mmul_move_traffic *t,
                                 const struct mmul_move_cursor *c, int to) {
    struct mmul_move move = t->moves[c->index];
    const struct mmul_shape s = move.shape;
    const int panels = t->stage->is.panels;
    bool left = move.to.kind == MMUL_PLACE_GRID_ROWS;
    if (panels == 1)
        return move;
    int first = mmul_program_plan_first_panel(t->site->values->plan, to, panels);
    const struct mmul_panel p = mmul_move_panel(left ? s.cols : s.rows, panels, first, c->turn);
    move.window = left ? (struct mmul_region){0, 0, s.rows, p.begin, p.end}
                       : (struct mmul_region){0, p.begin, p.end, 0, s.cols};
    return move;
}

// False when all panels have been walked, round after round each.
static bool next_piece(const struct mmul_move_traffic *t, struct mmul_move_cursor *c,
                       struct mmul_move_piece *piece) {
    int here = t->site->values->node;
    while (c->round == 0 || !mmul_move_next(&c->walk, piece)) {
        if (++c->round >= t->moves[0].node_count) {
            c->round = 0;
            if (++c->turn == t->stage->is.panels)
                return false;
            continue;
        }
        int peer = peer_of(t, c);
        c->move = panel_of(t, c, c->outward ? peer : here);
        const int64_t most = piece_elements(t->stage, t->steps[c->index]);
        c->walk = c->outward ? mmul_move_walk(&c->move, here, peer, most)
                             : mmul_move_walk(&c->move, peer, here, most);
    }
    return true;
}

static int leader_of(const struct mmul_move_traffic *t, int node) {
    int rank = 0;
    while (t->moves[0].rank_node[rank] != node)
        rank++;
    return rank;
}

static void begin_piece(struct mmul_move_traffic *t, struct mmul_move_cursor *c,
                        struct mmul_move_lane *lane) {
    const struct mmul_peers *peers = &t->site->transport.talk;
    const int peer = leader_of(t, peer_of(t, c)), tag = TAG + 2 * c->index;
    const int64_t bytes = bytes_of(t, c->index, &lane->piece);
    char *run = find_run(end_of(t, c->index), &lane->piece, c->outward);
    lane->turn = c->turn;
    lane->peer = peer;
    lane->begun = mmul_trace_now(t->site->trace);
    lane->at = run != NULL ? run : lane->staging;
    if (!c->outward) {
        mmul_message_receive(peers, peer, tag, lane->at, bytes, &lane->message);
        return;
    }
    if (run == NULL)
        fetch(end_of(t, c->index), &lane->piece, lane->at);
    mmul_message_send(peers, peer, tag, lane->at, bytes, &lane->message);
}

// What began before the last one of its direction was over counts from then.
static void note_piece(struct mmul_move_traffic *t, const struct mmul_move_cursor *c,
                       const struct mmul_move_lane *lane) {
    double *busy_until = &t->busy_until[c->outward];
    mmul_trace_add_of(
        t->site->trace, t->stage->index, c->outward ? MMUL_TRACE_SEND : MMUL_TRACE_RECEIVE,
        fmax(lane->begun, *busy_until), lane->peer, bytes_of(t, c->index, &lane->piece));
    *busy_until = mmul_trace_now(t->site->trace);
}

static bool advance(struct mmul_move_traffic *t, struct mmul_move_cursor *c) {
    struct mmul_move_lane *oldest = &c->lanes[c->ended % MMUL_MOVE_LANES];
    bool moved = false;
    if (c->ended < c->begun && mmul_message_is_over(&t->site->transport.talk, &oldest->message)) {
        if (!c->outward && oldest->at == oldest->staging)
            store(end_of(t, c->index), &oldest->piece, oldest->piece.is_sum, oldest->at);
        note_piece(t, c, oldest);
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
    bool moved = false;
    for (int i = 0; i < t->count; i++) {
        moved |= advance(t, &t->out[i]);
        moved |= advance(t, &t->in[i]);
    }
    return advance_here(t) || moved;
}

static bool has_ended(const struct mmul_move_cursor *c) {
    return c->is_over && c->ended == c->begun;
}

bool mmul_move_is_over(const struct mmul_move_traffic *traffic) {
    const struct mmul_move_traffic *t = traffic;
    bool over = t->is_here_over;
    for (int i = 0; i < t->count; i++)
        over = over && has_ended(&t->out[i]) && has_ended(&t->in[i]);
    return over;
}

int mmul_move_arrived(const struct mmul_move_traffic *traffic) {
    const struct mmul_move_traffic *t = traffic;
    int least = t->stage->is.panels;
    for (int i = 0; i < t->count; i++) {
        const struct mmul_move_cursor *in = &t->in[i];
        int here = in->ended < in->begun ? in->lanes[in->ended % MMUL_MOVE_LANES].turn : in->turn;
        least = !has_ended(in) && here < least ? here : least;
    }
    return least;
}
