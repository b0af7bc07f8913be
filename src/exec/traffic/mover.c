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

// Returns true if all results of the stage come by traffic.
static bool moves_values(const struct mmul_stage *stage) {
    return stage->is.kind->has_come != NULL;
}

static void publish_counter(const struct mmul_mover *m, _Atomic int64_t *counter, int64_t value) {
    mmul_progress_raise(m->rank_resources->progress, MMUL_TRAFFIC, counter, value, 0);
}

static bool is_on(const struct mmul_mover_stage *of, enum mmul_route route) {
    return (of->is_on >> route & 1) != 0;
}

// Returns the final count of a stage on a channel; 0: the stage does not use it.
static int64_t final_count(const struct mmul_mover *m, int stage, int route) {
    return m->moved[stage + 1].marks[route] - m->moved[stage].marks[route];
}

// Raises a counter, and publishes what follows from it to the ranks of the node.
static void raise_counter(struct mmul_mover *m, int index, enum mmul_counter counter,
                          int64_t value) {
    const struct mmul_stage *stage = &m->stages[index];
    int64_t *counters = m->moved[index].counters;
    if (counters[counter] >= value)
        return;
    counters[counter] = value;
    if (stage->is.kind->publish != NULL)
        stage->is.kind->publish(stage, counters);
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
    int64_t least = stage->passes;
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

// Returns true if the ranks of this node have made what the transfer reads. Values that are checked
// on arrival need only their sums to be ready. What a move brings must also have arrived.
static bool is_source_made(struct mmul_mover *m, const struct mmul_stage *stage,
                           const struct mmul_transfer *transfer) {
    const int needs = stage->is.kind->source_wait_count(stage, transfer);
    const struct mmul_stage *maker = needs > 0 ? &m->stages[needs - 1] : stage;
    if (!have_done_stages(m, needs))
        return stage->sums.rounds > 0 && mmul_sums_are_contributed(stage, 0);
    return maker == stage || !moves_values(maker) || maker->is.kind->is_over(maker, has_reached, m);
}

static bool may_begin(struct mmul_mover *m, int index, const struct mmul_transfer *transfer) {
    const struct mmul_stage *stage = &m->stages[index];
    const int64_t *counters = m->moved[index].counters;
    bool may = m->over >= stage->memory_wait_count && is_source_made(m, stage, transfer);
    for (int i = 0; i < MMUL_TRANSFER_WAITS; i++)
        may = may && counters[transfer->waits[i].counter] >= transfer->waits[i].value;
    return may;
}

// ------------------------------------------------------------------------------------- the trace

static enum mmul_trace_kind kind_of_span(const struct mmul_transfer *transfer) {
    bool c_in = transfer->content == MMUL_CONTENT_C_IN;
    switch (transfer->route) {
    case MMUL_ROUTE_SEND:
        return MMUL_TRACE_SEND;
    case MMUL_ROUTE_RECEIVE:
        return MMUL_TRACE_RECEIVE;
    case MMUL_ROUTE_COPY:
        return transfer->from_file ? MMUL_TRACE_READ_PART : MMUL_TRACE_WRITE_PART;
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
    return m->moved[route->stage].marks[route->list.route] + route->next.reached;
}

static void begin_span(const struct mmul_mover *m, struct mmul_mover_route *route) {
    const struct mmul_transfer *transfer = &route->next;
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
        .kind = kind_of_span(transfer)};
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

static struct mmul_transfers make_list(const struct mmul_mover *m, const struct mmul_stage *stage,
                                       enum mmul_route route) {
    const int node = m->rank_resources->context->comm->node_index;
    return stage->is.kind->list_transfers != NULL
               ? stage->is.kind->list_transfers(stage, node, route)
               : (struct mmul_transfers){.node = node, .route = route};
}

// Starts the list of the channel's current stage.
static void begin_list(struct mmul_mover *m, enum mmul_route index) {
    struct mmul_mover_route *route = &m->routes[index];
    route->list = make_list(m, &m->stages[route->stage], index);
    raise_counter(m, route->stage, mmul_arrived_counter(index), route->list.reached);
    raise_counter(m, route->stage, mmul_sent_counter(index), route->list.reached);
    route->has_next = mmul_transfers_next(&route->list, &route->next);
}

// Counts arrivals and departures for the stages that they belong to.
static void count_transfers(struct mmul_mover *m, enum mmul_route index) {
    struct mmul_mover_route *route = &m->routes[index];
    for (int i = route->counted; i <= route->stage; i++) {
        const struct mmul_mover_stage *of = &m->moved[i];
        const int64_t total = is_on(of, index) ? final_count(m, i, index) : 0;
        if (i == route->counted && i < route->stage &&
            (!is_on(of, index) || route->channel.left >= of->marks[index] + total))
            route->counted++;
        if (!is_on(of, index))
            continue;
        raise_counter(m, i, mmul_arrived_counter(index),
                      mmul_min(total, route->channel.arrived - of->marks[index]));
        raise_counter(m, i, mmul_sent_counter(index),
                      mmul_min(total, route->channel.left - of->marks[index]));
    }
}

// Returns true if all transfers of a stage on this node have left.
static bool has_traffic_left(const struct mmul_mover *m, int stage) {
    const struct mmul_mover_stage *of = &m->moved[stage];
    bool left = true;
    for (int i = 0; i < MMUL_ROUTES; i++)
        left = left && (!is_on(of, (enum mmul_route)i) ||
                        of->counters[MMUL_SENT_COUNTERS + i] == final_count(m, stage, i));
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
        if (stage->is.kind->has_left != NULL && has_traffic_left(m, m->over))
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
        const int needs = (int)mmul_max(stage->memory_wait_count,
                                        stage->is.kind->source_wait_count(stage, &route->next));
        if (!have_done_stages(m, needs))
            from = mmul_min(from, needs);
    }
    return from;
}

// Returns the number of panels that have arrived completely on this node. The last one counts only
// after all panels sent from here have left.
static int64_t count_arrived_panels(const struct mmul_mover *m, const struct mmul_stage *stage) {
    const struct mmul_mover_stage *of = &m->moved[stage->index];
    const int64_t panels = stage->is.panels;
    const bool has_left = (!is_on(of, MMUL_ROUTE_SEND) ||
                           of->counters[mmul_sent_counter(MMUL_ROUTE_SEND)] == panels) &&
                          (!is_on(of, MMUL_ROUTE_COPY) ||
                           of->counters[mmul_arrived_counter(MMUL_ROUTE_COPY)] == panels);
    const int64_t received = is_on(of, MMUL_ROUTE_RECEIVE)
                                 ? of->counters[mmul_arrived_counter(MMUL_ROUTE_RECEIVE)]
                                 : panels;
    return has_left ? received : mmul_min(received, panels - 1);
}

// Publishes arrivals of the open moves. Returns true if any rank may have waited for one.
static bool publish_arrivals(struct mmul_mover *m) {
    const struct mmul_transfer any_piece = {.from_file = false};
    bool any = false;
    for (int i = m->ended; i < m->stage_count && i <= m->over + 1; i++) {
        const struct mmul_stage *stage = &m->stages[i];
        if (!moves_values(stage) ||
            atomic_load(&stage->progress->has_arrived) == stage->is.panels ||
            !may_begin(m, i, &any_piece))
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
        mmul_transfer_node_bytes(route->list.schedule, transfer, route->node_bytes);
    begin_span(m, route);
    mmul_channel_begin(&route->channel,
                       &(struct mmul_cargo){.bytes = transfer->bytes,
                                            .node_bytes = route->node_bytes,
                                            .from = transfer->from,
                                            .to = transfer->to,
                                            .memory = stage->is.kind->locate(stage, transfer),
                                            .context = stream,
                                            .mark = transfer_mark(m, route)});
    route->has_next = mmul_transfers_next(&route->list, &route->next);
}

static bool advance_route(struct mmul_mover *m, enum mmul_route index) {
    struct mmul_mover_route *route = &m->routes[index];
    bool moved = false;
    // Select the next list with a transfer. If there is none, keep the last stage's.
    while (!route->has_next && route->stage + 1 < m->stage_count)
        if (final_count(m, ++route->stage, index) > 0)
            begin_list(m, index);
    if (route->has_next && mmul_channel_is_free(&route->channel) &&
        may_begin(m, route->stage, &route->next)) {
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
    bool any = false;
    for (int i = 0; i < m->stage_count; i++) {
        struct mmul_transfers list = make_list(m, &m->stages[i], index);
        const bool has_any = mmul_transfers_next(&list, &first);
        m->moved[i].is_on |= (unsigned)has_any << index;
        m->moved[i].is_carried |= has_any;
        m->moved[i + 1].marks[index] = m->moved[i].marks[index] + list.total;
        any |= has_any;
        *most = mmul_max(*most, list.buffer_bytes);
        *ends |= list.ends_in_values;
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
    if (!moves && stage->is.kind->has_left != NULL)
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
    enum mmul_status status = MMUL_ALLOCATE(mover->moved, stage_count + 1, "traffic", err);
    for (int i = 0; i < MMUL_ROUTES && status == MMUL_OK; i++)
        status = init_route(mover, (enum mmul_route)i, err);
    int64_t copied_bytes = 0;
    for (int i = 0; status == MMUL_OK && i < stage_count; i++) {
        if (is_on(&mover->moved[i], MMUL_ROUTE_COPY))
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
