// SPDX-License-Identifier: MIT
// One loop over the lines, whatever they carry and wherever to. Computes nothing; waits for nothing.
#include "exec/mover.h"

#include <math.h>

#include "base/integer.h"
#include "base/memory.h"
#include "plan/panels.h"

enum { FILE_BYTES = 4 << 20 }; // read or written between two looks at the network

_Static_assert((int)MMUL_LINE_PACKETS == (int)MMUL_PACKETS_AHEAD, "as the cost model has it");

// --------------------------------------------------------------------------------------- counters

static _Atomic int64_t *shared_counter(const struct mmul_mover *m, enum mmul_counter counter) {
    struct mmul_run_progress *progress = m->run->progress;
    if (progress == NULL)
        return NULL;
    return counter == MMUL_ROUNDS_LOADED    ? &progress->rounds_loaded
           : counter == MMUL_STEPS_LOADED   ? &progress->steps_loaded
           : counter == MMUL_RESULTS_STORED ? &progress->results_stored
                                            : NULL;
}

static void raise(struct mmul_mover *m, enum mmul_counter counter, int64_t value) {
    if (counter == MMUL_NOTHING || m->counters[counter] == value)
        return;
    m->counters[counter] = value;
    _Atomic int64_t *shared = shared_counter(m, counter);
    if (shared != NULL)
        atomic_store(shared, value);
}

// Steps that every rank of this node has finished. When all is void nobody has to: whoever holds the
// last lines of a block, others' or its own, may have given up.
static void look_at_steps(struct mmul_mover *m) {
    int64_t least = m->run->layout.steps;
    bool computes = m->run->progress != NULL && !mmul_failure_is_void(&m->run->failure);
    for (int i = 0; computes && i < m->run->context->comm->node_size; i++)
        least = mmul_smaller(least, atomic_load(&m->run->progress->ranks[i].steps_done));
    m->counters[MMUL_STEPS_DONE] = least;
}

static bool may_begin(const struct mmul_mover *m, const struct mmul_transfer *transfer) {
    for (int i = 0; i < MMUL_TRANSFER_WAITS; i++)
        if (m->counters[transfer->waits[i].counter] < transfer->waits[i].value)
            return false;
    return true;
}

// Where the transfer's bytes are in the node's segment; NULL: they are not.
static char *memory_of(const struct mmul_mover *m, const struct mmul_transfer *transfer) {
    const struct mmul_layout *l = &m->run->layout;
    char *data = m->run->segment.data;
    if (transfer->slot < 0 || transfer->in_place)
        return NULL;
    switch (transfer->content) {
    case MMUL_CONTENT_PIECES:
        return data + mmul_layout_pieces(l, transfer->step.round);
    case MMUL_CONTENT_C_IN:
        return data + mmul_layout_c_in(l, transfer->step.round);
    case MMUL_CONTENT_PANEL:
        return data + mmul_layout_panel(l, transfer->step.index);
    default:
        return data + mmul_layout_result(l, transfer->step.index);
    }
}

// ------------------------------------------------------------------------------------- the trace

static enum mmul_trace_kind kind_of_span(enum mmul_route route, enum mmul_content content) {
    bool c_in = content == MMUL_CONTENT_C_IN;
    switch (route) {
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

static void begin_span(const struct mmul_mover *m, struct mmul_mover_route *route) {
    const struct mmul_transfer *transfer = &route->next;
    bool by_round = transfer->route == MMUL_ROUTE_SCATTER || transfer->route == MMUL_ROUTE_READ;
    bool is_root = m->run->transport.rank == 0; // whose end of scatter and gather is all of them
    int64_t bytes = transfer->bytes;
    if (m->run->trace == NULL || transfer->in_place)
        return;
    for (int i = 0; is_root && route->node_bytes != NULL && i < m->run->plan->node_count; i++)
        bytes += route->node_bytes[i];
    route->spans[route->spans_begun++ % (MMUL_LINE_PACKETS + 1)] = (struct mmul_mover_span){
        .begin = mmul_trace_now(m->run->trace),
        .mark = transfer->brings.value,
        .numbers = {by_round ? transfer->step.round : transfer->step.index, bytes},
        .content = transfer->content};
}

// Only a relay has several under way; they leave in order, and one that began before the last one had
// left counts from then.
static void end_spans(const struct mmul_mover *m, struct mmul_mover_route *route) {
    while (route->spans_ended < route->spans_begun) {
        const struct mmul_mover_span *span =
            &route->spans[route->spans_ended % (MMUL_LINE_PACKETS + 1)];
        bool has_left = route->line.kind == MMUL_LINE_RELAY && span->mark <= route->line.left;
        if (!has_left && !mmul_line_is_idle(&route->line))
            return;
        mmul_trace_add(m->run->trace, kind_of_span(route->list.route, span->content),
                       fmax(span->begin, route->busy_until), span->numbers[0], span->numbers[1]);
        route->busy_until = mmul_trace_now(m->run->trace);
        route->spans_ended++;
    }
}

// ---------------------------------------------------------------------------------------- one line

static void begin(struct mmul_mover *m, struct mmul_mover_route *route) {
    const struct mmul_transfer *transfer = &route->next;
    route->stream = (struct mmul_stream){
        .files = &m->run->files, .content = transfer->content, .step = transfer->step};
    if (route->node_bytes != NULL)
        mmul_transfer_bytes(m->run->plan, transfer, route->node_bytes);
    begin_span(m, route);
    mmul_line_begin(&route->line, &(struct mmul_cargo){.bytes = transfer->bytes,
                                                       .node_bytes = route->node_bytes,
                                                       .from = transfer->from,
                                                       .to = transfer->to,
                                                       .memory = memory_of(m, transfer),
                                                       .context = &route->stream,
                                                       .mark = transfer->brings.value});
    route->has_next = mmul_transfers_next(&route->list, &route->next);
}

static bool advance(struct mmul_mover *m, struct mmul_mover_route *route) {
    bool moved = false;
    if (route->has_next && mmul_line_is_free(&route->line) && may_begin(m, &route->next)) {
        begin(m, route);
        moved = true;
    }
    moved |= mmul_line_advance(&route->line);
    raise(m, route->brings, route->line.arrived);
    raise(m, route->frees, route->line.left);
    end_spans(m, route);
    return moved;
}

enum mmul_attention mmul_mover_attend(struct mmul_mover *mover) {
    struct mmul_mover *m = mover;
    bool moved = false, finished = true;
    look_at_steps(m);
    for (int i = 0; i < MMUL_ROUTES; i++)
        moved |= advance(m, &m->routes[i]);
    for (int i = 0; i < MMUL_ROUTES; i++)
        finished &= !m->routes[i].has_next && mmul_line_is_idle(&m->routes[i].line);
    if (moved)
        return MMUL_ATTEND_MOVED;
    finished &= m->counters[MMUL_STEPS_DONE] >= m->run->layout.steps;
    return finished ? MMUL_ATTEND_FINISHED : MMUL_ATTEND_NOTHING;
}

// ------------------------------------------------------------------------------------ start, end

static enum mmul_line_kind kind_of(enum mmul_route route) {
    static const enum mmul_line_kind kinds[MMUL_ROUTES] = {
        [MMUL_ROUTE_SCATTER] = MMUL_LINE_SCATTER, [MMUL_ROUTE_RELAY] = MMUL_LINE_RELAY,
        [MMUL_ROUTE_GATHER] = MMUL_LINE_GATHER,   [MMUL_ROUTE_READ] = MMUL_LINE_LOAD,
        [MMUL_ROUTE_LOAD] = MMUL_LINE_LOAD,       [MMUL_ROUTE_STORE] = MMUL_LINE_STORE};
    return kinds[route];
}

static int64_t buffer_bytes(const struct mmul_plan *plan, enum mmul_line_kind kind) {
    if (kind == MMUL_LINE_LOAD || kind == MMUL_LINE_STORE)
        return FILE_BYTES;
    return kind == MMUL_LINE_RELAY ? mmul_smaller(MMUL_PACKET_BYTES, plan->round_bytes)
                                   : plan->round_bytes;
}

static enum mmul_status init_route(struct mmul_mover *m, enum mmul_route index,
                                   struct mmul_error *err) {
    struct mmul_run *run = m->run;
    struct mmul_mover_route *route = &m->routes[index];
    enum mmul_line_kind kind = kind_of(index);
    bool is_root = run->context->comm->rank == 0;
    enum mmul_status status = MMUL_OK;
    route->list = mmul_transfers_make(run->plan, run->layout.node_index, index);
    route->brings = mmul_transfers_brings(&route->list);
    route->frees = mmul_transfers_frees(&route->list);
    int64_t reached = mmul_transfers_reached(&route->list);
    raise(m, route->brings, reached);
    raise(m, route->frees, reached);
    route->has_next = mmul_transfers_next(&route->list, &route->next);
    if (route->has_next)
        status =
            mmul_line_init(&route->line, kind, &run->transport, is_root ? &mmul_stream_end : NULL,
                           buffer_bytes(run->plan, kind), err);
    route->line.arrived = route->line.left = reached;
    if (status == MMUL_OK && route->has_next &&
        (kind == MMUL_LINE_SCATTER || kind == MMUL_LINE_GATHER))
        status = MMUL_ALLOCATE(route->node_bytes, run->plan->node_count, "traffic", err);
    return status;
}

enum mmul_status mmul_mover_init(struct mmul_mover *mover, struct mmul_run *run,
                                 struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    *mover = (struct mmul_mover){.run = run};
    for (int i = 0; i < MMUL_ROUTES && status == MMUL_OK; i++)
        status = init_route(mover, (enum mmul_route)i, err);
    return status;
}

void mmul_mover_fini(struct mmul_mover *mover) {
    for (int i = 0; i < MMUL_ROUTES; i++) {
        mmul_line_fini(&mover->routes[i].line);
        mmul_free(mover->routes[i].node_bytes);
    }
    *mover = (struct mmul_mover){0};
}
