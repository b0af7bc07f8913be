// SPDX-License-Identifier: MIT
// Three cursors along the schedule (pieces, panels, blocks of C), on the network and, on root's own
// node, between files and segment. Every member walks the same list, so each knows what comes next.
// Computes nothing; waits for nothing.
#include "exec/traffic.h"

#include "base/clock.h"
#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"

// ------------------------------------------------------------------------------------- the board

static struct mmul_board *board_of(const struct mmul_traffic *t) {
    return t->run->board;
}

// Steps that every rank of this node has finished.
static int64_t steps_done(const struct mmul_traffic *t) {
    int64_t least = t->run->layout.steps;
    for (int i = 0; i < t->run->context->comm->node_size; i++)
        least = mmul_smaller(least, atomic_load(&board_of(t)->ranks[i].steps_done));
    return least;
}

// A round's lane is free when the round before last in it has been computed by all ranks.
static bool lane_is_free(const struct mmul_traffic *t, int64_t round) {
    const struct mmul_layout *l = &t->run->layout;
    return l->node->piece_lanes == 0 ||
           steps_done(t) >= (round - l->node->piece_lanes + 1) * l->panels;
}

// The slot of the load-th panel that comes here.
static bool slot_is_free(const struct mmul_traffic *t, int64_t load) {
    const struct mmul_layout *l = &t->run->layout;
    int64_t before = load - l->node->whole_slots;
    return before < 0 ||
           (steps_done(t) > l->load_step[before] && (t->is_root || before < t->chain.panels_ended));
}

// All steps before the one that the load-th panel is for have theirs.
static void tell_loaded(struct mmul_traffic *t, int64_t load) {
    const struct mmul_layout *l = &t->run->layout;
    if (board_of(t) != NULL)
        atomic_store(&board_of(t)->steps_loaded, load < l->loads ? l->load_step[load] : l->steps);
}

static void tell_pieces(struct mmul_traffic *t, int64_t transfers) {
    if (board_of(t) != NULL)
        atomic_store(&board_of(t)->rounds_loaded, transfers / 2);
}

// -------------------------------------------------------------------------------- pieces, C_in

static bool node_maps(const struct mmul_traffic *t, int node, unsigned what) {
    return (mmul_plan_nodes(t->run->plan)[node].maps & what) != 0;
}

// Bytes that a node needs of transfer `next`: the pieces or the C_in of a round.
static int64_t transfer_bytes(const struct mmul_traffic *t, int node, int64_t next) {
    const struct mmul_plan *plan = t->run->plan;
    unsigned split = plan->axis == MMUL_ROWS ? MMUL_MAPS_A : MMUL_MAPS_B;
    if (node_maps(t, node, next % 2 == 0 ? split : MMUL_MAPS_C_IN))
        return 0;
    return next % 2 == 0 ? mmul_schedule_piece_bytes(plan, node, next / 2)
                         : mmul_schedule_c_in_bytes(plan, node, next / 2);
}

static struct mmul_stream transfer_stream(const struct mmul_traffic *t, int64_t next) {
    return (struct mmul_stream){
        .files = &t->run->files,
        .kind = next % 2 == 0 ? MMUL_STREAM_PIECES : MMUL_STREAM_C_IN,
        .step = mmul_schedule_step(t->run->plan, next / 2 * t->run->layout.panels)};
}

static char *transfer_memory(const struct mmul_traffic *t, int64_t next) {
    const struct mmul_layout *l = &t->run->layout;
    if (t->run->segment.data == NULL || l->node->piece_lanes == 0)
        return NULL;
    return t->run->segment.data +
           (next % 2 == 0 ? mmul_layout_pieces(l, next / 2) : mmul_layout_c_in(l, next / 2));
}

// Starts the next transfer that carries anything; true when one was started or passed over.
static bool begin_scatter(struct mmul_traffic *t) {
    const struct mmul_team *team = &t->run->team;
    int64_t next = t->scatter_next, total = 0;
    if (!t->is_root && !lane_is_free(t, next / 2))
        return false;
    for (int member = 1; member < team->size; member++) {
        int node = team->nodes[member];
        total += t->scatter_bytes[node] = transfer_bytes(t, node, next);
    }
    t->scatter_next++;
    if (total == 0)
        return true;
    t->scatter_stream = transfer_stream(t, next);
    mmul_exchange_begin(&t->scatter, (struct mmul_transfer){.bytes = t->scatter_bytes,
                                                            .mine = transfer_memory(t, next),
                                                            .context = &t->scatter_stream});
    return true;
}

static bool advance_scatter(struct mmul_traffic *t) {
    bool moved = false;
    if (!mmul_exchange_is_idle(&t->scatter))
        moved = mmul_exchange_advance(&t->scatter);
    else if (t->scatter_next < 2 * t->run->plan->rounds)
        moved = begin_scatter(t);
    if (moved && !t->is_root && mmul_exchange_is_idle(&t->scatter))
        tell_pieces(t, t->scatter_next);
    return moved;
}

// Transfers that root has finished sending.
static int64_t transfers_scattered(const struct mmul_traffic *t) {
    return t->scatter_next - (mmul_exchange_is_idle(&t->scatter) ? 0 : 1);
}

// ----------------------------------------------------------------------------------- the chain

// Root sends pieces first: without them nobody starts.
static bool may_begin_panel(const struct mmul_traffic *t) {
    const struct mmul_layout *l = &t->run->layout;
    int64_t next = t->chain.next;
    if (!t->is_root)
        return next < l->loads && slot_is_free(t, next);
    return next < l->steps &&
           transfers_scattered(t) >= 2 * (mmul_schedule_step(t->run->plan, next).round + 1);
}

static bool advance_chain(struct mmul_traffic *t) {
    int64_t received = t->chain.panels_received;
    bool moved = mmul_chain_advance(&t->chain, may_begin_panel(t));
    if (!t->is_root && t->chain.panels_received > received)
        tell_loaded(t, t->chain.panels_received);
    return moved;
}

// --------------------------------------------------------------------------------------- results

static void tell_stored(struct mmul_traffic *t, int64_t steps) {
    if (board_of(t) != NULL)
        atomic_store(&board_of(t)->results_stored, steps);
}

static bool begin_gather(struct mmul_traffic *t) {
    const struct mmul_team *team = &t->run->team;
    struct mmul_step step = mmul_schedule_step(t->run->plan, t->gather_next);
    int64_t total = 0;
    if (!t->is_root && steps_done(t) <= step.index)
        return false;
    for (int member = 1; member < team->size; member++) {
        int node = team->nodes[member];
        total += t->gather_bytes[node] = mmul_schedule_result_bytes(t->run->plan, node, step);
    }
    t->gather_next++;
    if (total == 0)
        return true;
    t->gather_stream =
        (struct mmul_stream){.files = &t->run->files, .kind = MMUL_STREAM_RESULT, .step = step};
    char *mine = NULL;
    if (!t->is_root)
        mine = t->run->segment.data + mmul_layout_result(&t->run->layout, step.index);
    mmul_exchange_begin(&t->gather, (struct mmul_transfer){.bytes = t->gather_bytes,
                                                           .mine = mine,
                                                           .context = &t->gather_stream});
    return true;
}

static bool advance_gather(struct mmul_traffic *t) {
    bool moved = false;
    if (!mmul_exchange_is_idle(&t->gather))
        moved = mmul_exchange_advance(&t->gather);
    else if (t->gather_next < t->run->layout.steps)
        moved = begin_gather(t);
    if (moved && !t->is_root && mmul_exchange_is_idle(&t->gather))
        tell_stored(t, t->gather_next);
    return moved;
}

// ------------------------------------------------------------------------- root's own node, files

enum { OWN_BYTES = 4 << 20 }; // read or written between two looks at the network

// One stretch of the stream under way; true when there was one.
static bool pass_own(struct mmul_traffic *t, struct mmul_own *own) {
    struct mmul_error err;
    if (own->at >= own->bytes)
        return false;
    int64_t end = mmul_smaller(own->at + OWN_BYTES, own->bytes);
    char *memory = own->memory + own->at;
    int node = t->run->layout.node_index;
    enum mmul_status status = MMUL_OK;
    if (!mmul_failure_is_void(&t->run->failure))
        status = own->stream.kind == MMUL_STREAM_RESULT
                     ? mmul_stream_write(&own->stream, node, own->at, end, memory, &err)
                     : mmul_stream_read(&own->stream, node, own->at, end, memory, &err);
    if (status != MMUL_OK)
        mmul_failure_keep(&t->run->failure, &err);
    own->at = end;
    return true;
}

static void begin_own(struct mmul_own *own, struct mmul_stream stream, char *memory,
                      int64_t bytes) {
    own->stream = stream;
    own->memory = memory;
    own->at = 0;
    own->bytes = bytes;
    own->next++;
}

static bool advance_own_pieces(struct mmul_traffic *t) {
    struct mmul_own *own = &t->pieces;
    int64_t next = own->next;
    if (pass_own(t, own)) {
        if (own->at == own->bytes)
            tell_pieces(t, own->next);
        return true;
    }
    if (next == 2 * t->run->plan->rounds || !lane_is_free(t, next / 2))
        return false;
    begin_own(own, transfer_stream(t, next), transfer_memory(t, next),
              transfer_bytes(t, t->run->layout.node_index, next));
    if (own->bytes == 0)
        tell_pieces(t, own->next);
    return true;
}

static bool advance_own_panels(struct mmul_traffic *t) {
    const struct mmul_layout *l = &t->run->layout;
    struct mmul_own *own = &t->panels;
    if (pass_own(t, own)) {
        if (own->at == own->bytes)
            tell_loaded(t, own->next);
        return true;
    }
    if (own->next == l->loads || !slot_is_free(t, own->next))
        return false;
    struct mmul_step step = mmul_schedule_step(t->run->plan, l->load_step[own->next]);
    begin_own(
        own, (struct mmul_stream){.files = &t->run->files, .kind = MMUL_STREAM_PANEL, .step = step},
        t->run->segment.data + mmul_layout_panel(l, step.index),
        mmul_schedule_panel_bytes(t->run->plan, step));
    return true;
}

// A mapped C is in the file already: only counted.
static bool advance_own_results(struct mmul_traffic *t) {
    const struct mmul_layout *l = &t->run->layout;
    struct mmul_own *own = &t->results;
    if (pass_own(t, own)) {
        if (own->at == own->bytes)
            tell_stored(t, own->next);
        return true;
    }
    if (own->next == l->steps || steps_done(t) <= own->next)
        return false;
    struct mmul_step step = mmul_schedule_step(t->run->plan, own->next);
    int64_t bytes = mmul_schedule_result_bytes(t->run->plan, l->node_index, step);
    bool mapped = t->run->mapped.c != NULL;
    begin_own(
        own,
        (struct mmul_stream){.files = &t->run->files, .kind = MMUL_STREAM_RESULT, .step = step},
        mapped || bytes == 0 ? NULL : t->run->segment.data + mmul_layout_result(l, step.index),
        mapped ? 0 : bytes);
    if (mapped && !mmul_failure_is_void(&t->run->failure))
        mmul_files_count(&t->run->files, bytes);
    if (own->bytes == 0)
        tell_stored(t, own->next);
    return true;
}

// ------------------------------------------------------------------------------------ all of it

static bool is_stored(const struct mmul_traffic *t) {
    const struct mmul_layout *l = &t->run->layout;
    if (t->is_root)
        return t->results.next == l->steps && t->results.at >= t->results.bytes;
    return t->gather_next == l->steps && mmul_exchange_is_idle(&t->gather);
}

static bool is_finished(const struct mmul_traffic *t) {
    const struct mmul_layout *l = &t->run->layout;
    if (board_of(t) != NULL && steps_done(t) < l->steps)
        return false;
    if (t->has_team && (t->scatter_next < 2 * t->run->plan->rounds || t->gather_next < l->steps ||
                        !mmul_chain_is_over(&t->chain) || !mmul_exchange_is_idle(&t->scatter) ||
                        !mmul_exchange_is_idle(&t->gather)))
        return false;
    if (!t->is_root || board_of(t) == NULL)
        return true;
    return t->pieces.next == 2 * t->run->plan->rounds && t->pieces.at >= t->pieces.bytes &&
           t->panels.next == l->loads && t->panels.at >= t->panels.bytes && is_stored(t);
}

enum mmul_attention mmul_traffic_attend(struct mmul_traffic *traffic) {
    struct mmul_traffic *t = traffic;
    bool moved = false;
    if (t->has_team) {
        moved |= advance_scatter(t);
        moved |= advance_chain(t);
        moved |= advance_gather(t);
    }
    if (t->is_root && board_of(t) != NULL) {
        moved |= advance_own_pieces(t);
        moved |= advance_own_panels(t);
        moved |= advance_own_results(t);
    }
    if (moved)
        return MMUL_ATTEND_MOVED;
    return is_finished(t) ? MMUL_ATTEND_FINISHED : MMUL_ATTEND_NOTHING;
}

// ---------------------------------------------------------------------------------- start, end

static enum mmul_status init_team_traffic(struct mmul_traffic *t, struct mmul_error *err) {
    const struct mmul_plan *plan = t->run->plan;
    int64_t chunk = plan->round_bytes > 0 ? plan->round_bytes : MMUL_ROUND_BYTES;
    enum mmul_status status = MMUL_ALLOCATE(t->scatter_bytes, plan->node_count, "traffic", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(t->gather_bytes, plan->node_count, "traffic", err);
    if (status == MMUL_OK)
        status = mmul_exchange_init(&t->scatter, &t->run->team, false, mmul_stream_end, chunk, err);
    if (status == MMUL_OK)
        status = mmul_exchange_init(&t->gather, &t->run->team, true, mmul_stream_end, chunk, err);
    if (status == MMUL_OK)
        status = mmul_chain_init(&t->chain, t->run, err);
    return status;
}

enum mmul_status mmul_traffic_init(struct mmul_traffic *traffic, struct mmul_run *run,
                                   struct mmul_error *err) {
    *traffic =
        (struct mmul_traffic){.run = run,
                              .is_root = run->context->comm->rank == 0,
                              .has_team = mmul_team_is_member(&run->team) && run->team.size > 1};
    tell_loaded(traffic, 0); // steps before the first panel need none
    return traffic->has_team ? init_team_traffic(traffic, err) : MMUL_OK;
}

void mmul_traffic_fini(struct mmul_traffic *traffic) {
    mmul_exchange_fini(&traffic->scatter);
    mmul_exchange_fini(&traffic->gather);
    mmul_chain_fini(&traffic->chain);
    mmul_free(traffic->scatter_bytes);
    mmul_free(traffic->gather_bytes);
    *traffic = (struct mmul_traffic){0};
}
