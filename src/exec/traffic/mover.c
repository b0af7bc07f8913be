// SPDX-License-Identifier: MIT
// One loop over all channels, whatever they carry. Computes nothing and never waits.
#include "exec/traffic/mover.h"

#include <math.h>

#include "base/integer.h"
#include "base/memory.h"
#include "exec/traffic/move.h"
#include "plan/parts/panels.h"

_Static_assert((int)MMUL_CHANNEL_PACKETS == (int)MMUL_PACKETS_IN_FLIGHT,
               "as the cost model has it");
_Static_assert((int)MMUL_CHANNEL_LANES == (int)MMUL_ROUNDS_IN_FLIGHT, "as plans count them");

// --------------------------------------------------------------------------------------- counters

static bool moves_values(const struct mmul_stage *stage) {
    return stage->is.kind == &mmul_move_kind;
}

static void publish_counter(const struct mmul_mover *m, _Atomic int64_t *counter, int64_t value) {
    mmul_progress_raise(m->rank_resources->progress, MMUL_TRAFFIC, counter, value, 0);
}

// Raises a counter, and publishes it to the ranks of the node. A panel has arrived when both
// channels have delivered their part of it.
static void raise_counter(struct mmul_mover *m, int index, enum mmul_counter counter,
                          int64_t value) {
    const struct mmul_stage *stage = &m->stages[index];
    int64_t *counters = m->moved[index].counters;
    if (counter == MMUL_NO_COUNTER || counters[counter] >= value)
        return;
    counters[counter] = value;
    if (stage->product == NULL)
        return;
    int64_t loaded = counters[MMUL_PASSES_LOADED];
    if (stage->is.schedule->whole_is_distributed)
        loaded = mmul_min(loaded, counters[MMUL_PASSES_RELAYED]);
    publish_counter(m, &stage->progress->rounds_loaded, counters[MMUL_ROUNDS_LOADED]);
    publish_counter(m, &stage->progress->passes_loaded, loaded);
    publish_counter(m, &stage->progress->results_stored, counters[MMUL_RESULTS_STORED]);
}

// Returns true if all ranks of this node have done their part of so many stages, or the run is
// void.
static bool have_done_stages(const struct mmul_mover *m, int stages) {
    bool done = true;
    for (int i = 0; i < m->rank_resources->context->comm->node_size; i++)
        done = done && atomic_load(&m->rank_resources->progress->ranks[i].stages_done) >= stages;
    return done || mmul_failure_is_void(&m->rank_resources->failure);
}

// Sets the number of passes that every rank of this node has finished. In a void run no rank has to
// finish: a rank that holds the last lines of a block, its own or stolen, may have given up.
static void update_passes_done(struct mmul_mover *m, int index) {
    const struct mmul_stage *stage = &m->stages[index];
    int64_t least = stage->product->layout.passes;
    bool computes = !mmul_failure_is_void(&m->rank_resources->failure);
    for (int i = 0; computes && i < m->rank_resources->context->comm->node_size; i++)
        least = mmul_min(least, atomic_load(&stage->progress->ranks[i].passes_done));
    m->moved[index].counters[MMUL_PASSES_DONE] = least;
}

// Callback for is_over of a kind. In a void run no rank has to reach a goal, but the traffic does.
static bool has_reached(void *context, int rank, const _Atomic int64_t *counter, int64_t goal) {
    const struct mmul_mover *m = context;
    return atomic_load(counter) >= goal ||
           (rank != MMUL_TRAFFIC && mmul_failure_is_void(&m->rank_resources->failure));
}

// Returns true if the ranks of this node have made their parts of a spread operand.
static bool is_spread_operand_made(struct mmul_mover *m, const struct mmul_stage *stage) {
    const int made = stage->product->spread_wait_count;
    const struct mmul_stage *maker = made > 0 ? &m->stages[made - 1] : NULL;
    return have_done_stages(m, made) && (maker == NULL || !moves_values(maker) ||
                                         maker->is.kind->is_over(maker, has_reached, m));
}

// Returns true if pieces of values may be sent and received: from a file at once; between nodes
// when all ranks here have done their part. Values that are checked on arrival need only their sums
// to be ready.
static bool may_move_values(const struct mmul_mover *m, const struct mmul_stage *stage) {
    return stage->index <= m->over + 1 &&
           (mmul_move_is_load(stage) || have_done_stages(m, stage->index + 1) ||
            (stage->sums.rounds > 0 && mmul_sums_are_contributed(stage, 0)));
}

static bool may_begin(struct mmul_mover *m, const struct mmul_mover_route *route) {
    const struct mmul_stage *stage = &m->stages[route->stage];
    if (stage->product == NULL)
        return may_move_values(m, stage);
    const int64_t *counters = m->moved[route->stage].counters;
    bool may = m->over >= stage->memory_wait_count;
    if (stage->is.schedule->whole_is_distributed && route->next.content == MMUL_CONTENT_PANEL)
        may = may && is_spread_operand_made(m, stage);
    for (int i = 0; i < MMUL_TRANSFER_WAITS; i++)
        may = may && counters[route->next.waits[i].counter] >= route->next.waits[i].value;
    return may;
}

// Returns the address of the transfer's bytes in the node's memory, or NULL if they are elsewhere.
static char *transfer_address(const struct mmul_stage *stage,
                              const struct mmul_transfer *transfer) {
    if (transfer->content == MMUL_CONTENT_PART)
        return mmul_piece_contiguous(stage, transfer);
    const struct mmul_layout *l = &stage->product->layout;
    if (transfer->slot < 0 || transfer->in_place)
        return NULL;
    switch (transfer->content) {
    case MMUL_CONTENT_PIECES:
        return stage->memory + mmul_layout_pieces(l, transfer->pass.round);
    case MMUL_CONTENT_C_IN:
        return stage->memory + mmul_layout_c_in(l, transfer->pass.round);
    case MMUL_CONTENT_PANEL:
        return stage->memory + mmul_layout_panel(l, transfer->pass.index) + transfer->offset;
    default:
        return stage->memory + mmul_layout_result(l, transfer->pass.index);
    }
}

// ------------------------------------------------------------------------------------- the trace

static enum mmul_trace_kind kind_of_span(const struct mmul_transfer *transfer, bool loads) {
    bool c_in = transfer->content == MMUL_CONTENT_C_IN;
    switch (transfer->route) {
    case MMUL_ROUTE_SEND:
        return MMUL_TRACE_SEND;
    case MMUL_ROUTE_RECEIVE:
        return MMUL_TRACE_RECEIVE;
    case MMUL_ROUTE_COPY:
        return loads ? MMUL_TRACE_READ_PART : MMUL_TRACE_WRITE_PART;
    case MMUL_ROUTE_SCATTER:
        return c_in ? MMUL_TRACE_C_IN : MMUL_TRACE_PIECES;
    case MMUL_ROUTE_READ:
        return c_in ? MMUL_TRACE_READ_C_IN : MMUL_TRACE_READ_PIECES;
    case MMUL_ROUTE_RELAY:
        return MMUL_TRACE_PANEL;
    case MMUL_ROUTE_LOAD:
        return MMUL_TRACE_READ_PANEL;
    case MMUL_ROUTE_GATHER:
        return MMUL_TRACE_BLOCK;
    default:
        return MMUL_TRACE_WRITE_BLOCK;
    }
}

// Returns the channel's mark after the next transfer. Marks of all stages grow in one order.
static int64_t transfer_mark(const struct mmul_mover *m, const struct mmul_mover_route *route) {
    return m->moved[route->stage].marks[route->list.route] + route->next.brings.value;
}

static void begin_span(const struct mmul_mover *m, struct mmul_mover_route *route) {
    const struct mmul_transfer *transfer = &route->next;
    const struct mmul_stage *stage = &m->stages[route->stage];
    bool by_round = transfer->route == MMUL_ROUTE_SCATTER || transfer->route == MMUL_ROUTE_READ;
    // Root's end of scatter and gather counts all nodes.
    bool is_root = m->rank_resources->transport.rank == 0;
    int64_t bytes = transfer->bytes;
    if (m->rank_resources->trace == NULL || transfer->in_place)
        return;
    for (int i = 0;
         is_root && route->node_bytes != NULL && i < m->rank_resources->context->comm->node_count;
         i++)
        bytes += route->node_bytes[i];
    struct mmul_mover_span *span = &route->spans[route->spans_begun++ % (MMUL_CHANNEL_PACKETS + 1)];
    *span = (struct mmul_mover_span){
        .begin = mmul_trace_now(m->rank_resources->trace),
        .stage = route->stage,
        .mark = transfer_mark(m, route),
        .numbers = {by_round ? transfer->pass.round : transfer->pass.index, bytes},
        .kind = kind_of_span(transfer, stage->product == NULL && mmul_move_is_load(stage))};
    if (transfer->content == MMUL_CONTENT_PART) {
        const int other = transfer->from >= 0 ? transfer->from : transfer->to;
        span->numbers[0] = transfer->route == MMUL_ROUTE_COPY
                               ? bytes
                               : m->rank_resources->context->cluster->nodes[other].leader;
        span->numbers[1] = transfer->route == MMUL_ROUTE_COPY ? 0 : bytes;
    }
}

// Returns true if the oldest transfer has left. Several panels of a relay may be in flight, and
// leave in order; each piece of a value is one packet.
static bool has_span_left(const struct mmul_mover_route *route,
                          const struct mmul_mover_span *span) {
    if (mmul_channel_is_idle(&route->channel))
        return true;
    return route->channel.kind == MMUL_CHANNEL_RELAY
               ? span->mark <= route->channel.left
               : route->spans_ended < route->channel.packets.ended;
}

// Records transfers that have left. The time of a transfer starts when the one before it had left,
// at the earliest.
static void end_spans(const struct mmul_mover *m, struct mmul_mover_route *route) {
    while (route->spans_ended < route->spans_begun) {
        const struct mmul_mover_span *span =
            &route->spans[route->spans_ended % (MMUL_CHANNEL_PACKETS + 1)];
        if (!has_span_left(route, span))
            return;
        mmul_trace_add_at_stage(m->rank_resources->trace, span->stage, span->kind,
                                fmax(span->begin, route->busy_until), span->numbers[0],
                                span->numbers[1]);
        route->busy_until = mmul_trace_now(m->rank_resources->trace);
        route->spans_ended++;
    }
}

// ------------------------------------------------------------------------------ progress of stages

// Returns the final count of a stage on a channel.
static int64_t final_count(const struct mmul_stage *stage, enum mmul_route route) {
    if (stage->product == NULL)
        return stage->is.panels;
    bool by_round = route == MMUL_ROUTE_SCATTER || route == MMUL_ROUTE_READ;
    return by_round ? stage->is.schedule->rounds : stage->product->layout.passes;
}

// Returns true if the stage may have transfers on the channel.
static bool may_use_route(const struct mmul_stage *stage, enum mmul_route route) {
    return route < MMUL_ROUTE_SEND ? stage->product != NULL : moves_values(stage);
}

static struct mmul_transfers make_list(const struct mmul_mover *m, const struct mmul_stage *stage,
                                       enum mmul_route route) {
    const struct mmul_move_set moving = mmul_stage_moving(stage);
    const int node = m->rank_resources->context->comm->node_index;
    return stage->product != NULL ? mmul_transfers_make(stage->is.schedule, node, route)
                                  : mmul_transfers_of_moves(&moving, node, route);
}

// Starts the list of the channel's current stage.
static void begin_list(struct mmul_mover *m, enum mmul_route index) {
    struct mmul_mover_route *route = &m->routes[index];
    const struct mmul_stage *stage = &m->stages[route->stage];
    route->list = make_list(m, stage, index);
    int64_t reached = mmul_transfers_counter_value(&route->list);
    raise_counter(m, route->stage,
                  mmul_route_arrival_counter(stage->is.schedule, index, route->list.node), reached);
    raise_counter(m, route->stage, mmul_route_sent_counter(index), reached);
    route->has_next = mmul_transfers_next(&route->list, &route->next);
}

// Counts arrivals and departures for the stages that they belong to.
static void count_transfers(struct mmul_mover *m, enum mmul_route index) {
    struct mmul_mover_route *route = &m->routes[index];
    for (int i = route->counted; i <= route->stage; i++) {
        const struct mmul_mover_stage *of = &m->moved[i];
        int64_t top = of->is_on[index] ? final_count(&m->stages[i], index) : 0;
        if (i == route->counted && i < route->stage &&
            (!of->is_on[index] || route->channel.left >= of->marks[index] + top))
            route->counted++;
        if (!of->is_on[index])
            continue;
        raise_counter(m, i,
                      mmul_route_arrival_counter(m->stages[i].is.schedule, index, route->list.node),
                      mmul_min(top, route->channel.arrived - of->marks[index]));
        raise_counter(m, i, mmul_route_sent_counter(index),
                      mmul_min(top, route->channel.left - of->marks[index]));
    }
}

// Returns true if all transfers of a product on this node have begun and left.
static bool has_product_left(const struct mmul_mover *m, int stage) {
    bool left = true;
    for (int i = 0; i < MMUL_ROUTE_SEND; i++) {
        const struct mmul_mover_route *route = &m->routes[i];
        const struct mmul_mover_stage *of = &m->moved[stage];
        bool begun = route->stage > stage || (route->stage == stage && !route->has_next);
        left = left && begun &&
               (!of->is_on[i] ||
                route->channel.left >= of->marks[i] + final_count(&m->stages[stage], i));
    }
    return left;
}

// Counts the stages that are over, early moves that are not due excepted. Returns true if there are
// more than before.
static bool end_stages(struct mmul_mover *m) {
    const int before = m->over;
    while (m->ended < m->over &&
           m->stages[m->ended].is.kind->is_over(&m->stages[m->ended], has_reached, m))
        m->ended++;
    for (; m->over < m->stage_count; m->over++) {
        const struct mmul_stage *stage = &m->stages[m->over];
        if (stage->product != NULL && has_product_left(m, m->over))
            publish_counter(m, &stage->progress->has_left, 1);
        if (!mmul_stage_has_ended(m->stages, m->over, has_reached, m))
            break;
    }
    return m->over > before;
}

// Returns the number of finished stages from which on a rank's progress can unblock traffic. A
// stage with traffic or sums may begin when the stage two before it is over. The next transfer of a
// channel may begin when its memory is free and its inputs from ranks are made.
static int64_t find_wake_stage(struct mmul_mover *m) {
    const int count = m->stage_count;
    while (m->carried < count && (m->carried < m->over || !m->moved[m->carried].is_carried))
        m->carried++;
    int64_t from = m->carried < count ? mmul_max(0, m->carried - 1) : count;
    for (int i = 0; i < MMUL_ROUTES; i++) {
        const struct mmul_mover_route *route = &m->routes[i];
        if (!route->has_next)
            continue;
        const struct mmul_stage *stage = &m->stages[route->stage];
        if (stage->product == NULL)
            continue;
        const int needs =
            (int)mmul_max(stage->memory_wait_count, stage->product->spread_wait_count);
        if (!have_done_stages(m, needs))
            from = mmul_min(from, needs);
    }
    return from;
}

// Returns the number of panels that have arrived completely on this node. The last one counts only
// after all panels sent from here have left.
static int64_t count_arrived_panels(const struct mmul_mover *m, const struct mmul_stage *stage) {
    const struct mmul_mover_stage *of = &m->moved[stage->index];
    const int64_t panels = stage->is.panels, *counters = of->counters;
    const bool has_left = (!of->is_on[MMUL_ROUTE_SEND] || counters[MMUL_PANELS_SENT] == panels) &&
                          (!of->is_on[MMUL_ROUTE_COPY] || counters[MMUL_PANELS_COPIED] == panels);
    const int64_t received =
        of->is_on[MMUL_ROUTE_RECEIVE] ? counters[MMUL_PANELS_RECEIVED] : panels;
    return has_left ? received : mmul_min(received, panels - 1);
}

// Publishes arrivals of the open moves. Returns true if any rank may have waited for one.
static bool publish_arrivals(const struct mmul_mover *m) {
    bool any = false;
    for (int i = m->ended; i < m->stage_count && i <= m->over + 1; i++) {
        const struct mmul_stage *stage = &m->stages[i];
        if (!moves_values(stage) ||
            atomic_load(&stage->progress->has_arrived) == stage->is.panels ||
            !may_move_values(m, stage))
            continue;
        const int64_t arrived = count_arrived_panels(m, stage);
        any |= arrived > atomic_load(&stage->progress->has_arrived);
        publish_counter(m, &stage->progress->has_arrived, arrived);
    }
    return any;
}

// Advances the sums, one stage after the other in the same order on all nodes.
static bool advance_sums(struct mmul_mover *m) {
    while (m->summed < m->stage_count && mmul_sums_are_complete(&m->stages[m->summed]))
        m->summed++;
    return m->summed < m->stage_count && m->summed <= m->over + 1 &&
           mmul_sums_advance(&m->sums, &m->stages[m->summed]);
}

// ----------------------------------------------------------------------------------- one channel

static void begin_transfer(struct mmul_mover *m, struct mmul_mover_route *route) {
    struct mmul_stage *stage = &m->stages[route->stage];
    const struct mmul_transfer *transfer = &route->next;
    struct mmul_stream *stream =
        &route->streams[route->streams_begun++ % (MMUL_CHANNEL_PACKETS + 1)];
    *stream = (struct mmul_stream){.stage = stage, .transfer = *transfer, .staging = m->staging};
    if (route->node_bytes != NULL)
        mmul_transfer_node_bytes(stage->is.schedule, transfer, route->node_bytes);
    begin_span(m, route);
    mmul_channel_begin(&route->channel,
                       &(struct mmul_cargo){.bytes = transfer->bytes,
                                            .node_bytes = route->node_bytes,
                                            .from = transfer->from,
                                            .to = transfer->to,
                                            .memory = transfer_address(stage, transfer),
                                            .context = stream,
                                            .mark = transfer_mark(m, route)});
    route->has_next = mmul_transfers_next(&route->list, &route->next);
}

static bool advance_route(struct mmul_mover *m, enum mmul_route index) {
    struct mmul_mover_route *route = &m->routes[index];
    bool moved = false;
    // Select the next list with a transfer. If there is none, keep the last stage's.
    while (!route->has_next && route->stage + 1 < m->stage_count)
        if (may_use_route(&m->stages[++route->stage], index))
            begin_list(m, index);
    if (route->has_next && mmul_channel_is_free(&route->channel) && may_begin(m, route)) {
        begin_transfer(m, route);
        moved = true;
    }
    moved |= mmul_channel_advance(&route->channel);
    // Spans end before ranks see the arrival: work that they then begin comes later in the trace.
    end_spans(m, route);
    count_transfers(m, index);
    return moved;
}

enum mmul_poll_result mmul_mover_poll(struct mmul_mover *mover) {
    struct mmul_mover *m = mover;
    bool moved = false;
    for (int i = m->over; i < m->stage_count && i <= m->over + 1; i++)
        if (m->stages[i].product != NULL)
            update_passes_done(m, i);
    for (int i = 0; i < MMUL_ROUTES; i++)
        moved |= advance_route(m, (enum mmul_route)i);
    moved |= publish_arrivals(m);
    moved |= advance_sums(m);
    moved |= end_stages(m);
    const int64_t from = find_wake_stage(m);
    // The threshold has changed, so progress since the last call may have been missed.
    moved |= atomic_exchange(&m->rank_resources->progress->wake_from_stage, from) != from;
    if (moved)
        return MMUL_POLL_PROGRESSED;
    if (m->over == m->stage_count)
        return MMUL_POLL_FINISHED;
    bool is_under_way = false;
    for (int i = 0; i < MMUL_ROUTES; i++)
        is_under_way |= !mmul_channel_is_free(&m->routes[i].channel);
    return is_under_way ? MMUL_POLL_IN_FLIGHT : MMUL_POLL_IDLE;
}

// --------------------------------------------------------------------------- creation, destruction

static const enum mmul_channel_kind kinds[MMUL_ROUTES] = {
    [MMUL_ROUTE_SCATTER] = MMUL_CHANNEL_SCATTER, [MMUL_ROUTE_RELAY] = MMUL_CHANNEL_RELAY,
    [MMUL_ROUTE_GATHER] = MMUL_CHANNEL_GATHER,   [MMUL_ROUTE_READ] = MMUL_CHANNEL_LOAD,
    [MMUL_ROUTE_LOAD] = MMUL_CHANNEL_LOAD,       [MMUL_ROUTE_STORE] = MMUL_CHANNEL_STORE,
    [MMUL_ROUTE_SEND] = MMUL_CHANNEL_SEND,       [MMUL_ROUTE_RECEIVE] = MMUL_CHANNEL_RECEIVE,
    [MMUL_ROUTE_COPY] = MMUL_CHANNEL_LOAD};

// Computes the buffer size for the largest stage, the same at both ends of the channel. *ends: the
// channel ends here, in files of root or in values. Returns false if no stage has a transfer on it.
static bool scan_stages(struct mmul_mover *m, enum mmul_route index, int64_t *most, bool *ends) {
    struct mmul_transfer first;
    int64_t mark = 0;
    bool any = false;
    for (int i = 0; i < m->stage_count; i++) {
        const struct mmul_stage *stage = &m->stages[i];
        if (!may_use_route(stage, index))
            continue;
        struct mmul_transfers list = make_list(m, stage, index);
        m->moved[i].is_on[index] = mmul_transfers_next(&list, &first);
        m->moved[i].is_carried |= m->moved[i].is_on[index];
        m->moved[i].marks[index] = mark;
        mark += final_count(stage, index);
        any |= m->moved[i].is_on[index];
        *most = mmul_max(*most, mmul_route_buffer_bytes(stage->is.schedule, index));
        *ends |= moves_values(stage) || stage->is.schedule->whole_is_distributed;
    }
    return any;
}

static enum mmul_status init_route(struct mmul_mover *m, enum mmul_route index,
                                   struct mmul_error *err) {
    struct mmul_mover_route *route = &m->routes[index];
    const struct mmul_comm *comm = m->rank_resources->context->comm;
    enum mmul_channel_kind kind = kinds[index];
    enum mmul_status status = MMUL_OK;
    int64_t bytes = 0;
    bool ends = comm->rank == 0;
    route->list.node = comm->node_index;
    route->list.route = index;
    bool any = scan_stages(m, index, &bytes, &ends);
    begin_list(m, index);
    if (any)
        status = mmul_channel_init(&route->channel, kind, &m->rank_resources->transport,
                                   ends ? &mmul_stream_end : NULL, bytes, err);
    if (status == MMUL_OK && any && (kind == MMUL_CHANNEL_SCATTER || kind == MMUL_CHANNEL_GATHER))
        status = MMUL_ALLOCATE(route->node_bytes, comm->node_count, "traffic", err);
    return status;
}

// Marks a stage without traffic as arrived and left.
static void begin_counting(struct mmul_mover *m, int index) {
    const struct mmul_stage *stage = &m->stages[index];
    const bool moves = m->moved[index].is_carried || stage->is_carried;
    m->moved[index].is_carried = moves || stage->sums.rounds > 0;
    if (!moves && stage->product != NULL)
        publish_counter(m, &stage->progress->has_left, 1);
    if (!moves && moves_values(stage))
        publish_counter(m, &stage->progress->has_arrived, stage->is.panels);
}

enum mmul_status mmul_mover_init(struct mmul_mover *mover,
                                 struct mmul_rank_resources *rank_resources,
                                 struct mmul_stage *stages, int stage_count,
                                 struct mmul_error *err) {
    *mover = (struct mmul_mover){
        .rank_resources = rank_resources, .stages = stages, .stage_count = stage_count};
    enum mmul_status status = MMUL_ALLOCATE(mover->moved, stage_count, "traffic", err);
    for (int i = 0; i < MMUL_ROUTES && status == MMUL_OK; i++)
        status = init_route(mover, (enum mmul_route)i, err);
    int64_t copied_bytes = 0;
    for (int i = 0; status == MMUL_OK && i < stage_count; i++) {
        if (mover->moved[i].is_on[MMUL_ROUTE_COPY])
            copied_bytes = mmul_max(copied_bytes, mmul_move_buffer_bytes(&stages[i]));
        begin_counting(mover, i);
    }
    return status == MMUL_OK && copied_bytes > 0
               ? MMUL_ALLOCATE_RAW(mover->staging, copied_bytes, "moves", err)
               : status;
}

void mmul_mover_fini(struct mmul_mover *mover) {
    for (int i = 0; i < MMUL_ROUTES; i++) {
        mmul_channel_fini(&mover->routes[i].channel);
        mmul_free(mover->routes[i].node_bytes);
    }
    mmul_free(mover->staging);
    mmul_free(mover->moved);
    *mover = (struct mmul_mover){0};
}
