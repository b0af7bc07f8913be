// SPDX-License-Identifier: MIT
// The clock goes from event to event. Between two of them everything that is under way goes on at a
// rate; at each, what has what it waits for begins. Knows no formula of when things happen.
#include "plan/replay/replay_parts.h"

#include <math.h>

#include "base/integer.h"
#include "base/memory.h"

static const double LEAST_RATE = 0.05; // of computing, whatever traffic takes
static const double TOO_SHORT = 1e-12; // seconds

// ----------------------------------------------------------------------------------------- ranks

static void look_at_steps(struct mmul_replay_stage *stage, int node) {
    int64_t least = mmul_schedule_passes(stage->schedule);
    for (int rank = 0; rank < stage->schedule->size; rank++)
        if (mmul_schedule_ranks(stage->schedule)[rank].node == node)
            least = mmul_smaller(least, stage->passes_done[rank]);
    stage->counters[node][MMUL_PASSES_DONE] = least;
}

static void begin_stage(const struct mmul_replay_simulation *s, int index) {
    struct mmul_replay_computer *r = &s->ranks[index];
    r->index = 0;
    if (r->stage < s->request->count && s->stages[r->stage].schedule != NULL)
        r->tasks = mmul_tasks_of(s->stages[r->stage].schedule, index, 0, false);
}

static void end_stage(const struct mmul_replay_simulation *s, int index) {
    struct mmul_replay_computer *r = &s->ranks[index];
    double *end = &s->result->ends[r->stage++];
    *end = fmax(*end, s->now + r->later);
    begin_stage(s, index);
}

// The next task, of this stage or the next; all before it is done.
static void find_task(struct mmul_replay_simulation *s, int index) {
    struct mmul_replay_computer *r = &s->ranks[index];
    while (r->stage < s->request->count && s->stages[r->stage].schedule != NULL) {
        struct mmul_replay_stage *stage = &s->stages[r->stage];
        int node = s->classes.home[index];
        for (; r->index < r->tasks.count; r->index++) {
            r->task = mmul_tasks_at(&r->tasks, r->index);
            if (r->task.line_begin < r->task.line_end)
                break;
        }
        bool is_over = r->index == r->tasks.count;
        stage->passes_done[index] =
            is_over ? mmul_schedule_passes(stage->schedule) : r->task.pass.index;
        look_at_steps(stage, node);
        if (!is_over)
            return;
        end_stage(s, index);
    }
}

// Are all ranks of a node, or of all (-1), through with so many stages?
static bool are_through(const struct mmul_replay_simulation *s, int node, int stages) {
    for (int rank = 0; rank < s->classes.size; rank++)
        if ((node < 0 || s->classes.home[rank] == node) && s->ranks[rank].stage < stages)
            return false;
    return true;
}

// Nobody is more than a stage ahead of the others of its node.
static bool has_whom_it_waits_for(const struct mmul_replay_simulation *s, int index) {
    const int stage = s->ranks[index].stage, node = s->classes.home[index];
    enum mmul_waits waits = s->request->stages[stage].waits;
    if (waits == MMUL_WAITS_NOBODY)
        return are_through(s, node, stage - 1);
    return are_through(s, waits == MMUL_WAITS_ALL ? -1 : node, stage);
}

static bool begin_task(struct mmul_replay_simulation *s, int index) {
    struct mmul_replay_computer *r = &s->ranks[index];
    if (r->activity.is_on || r->stage == s->request->count || !has_whom_it_waits_for(s, index))
        return false;
    const struct mmul_replay_stage *stage = &s->stages[r->stage];
    r->activity = (struct mmul_replay_activity){.begin = s->now,
                                                .left = s->request->stages[r->stage].seconds,
                                                .is_on = stage->schedule == NULL};
    if (stage->schedule == NULL)
        return true;
    int node = s->classes.home[index];
    const int64_t *counters = stage->counters[node];
    int64_t slots = mmul_schedule_nodes(stage->schedule)[node].result_slots,
            pass = r->task.pass.index;
    bool is_spread = stage->schedule->whole_is_spread;
    if ((is_spread && counters[MMUL_PASSES_RELAYED] <= pass) ||
        counters[MMUL_ROUNDS_LOADED] <= r->task.pass.round ||
        counters[MMUL_PASSES_LOADED] <= pass ||
        (slots > 0 && counters[MMUL_RESULTS_STORED] <= pass - slots))
        return false;
    double elements =
        (double)(r->task.line_end - r->task.line_begin) * (double)(r->task.end - r->task.begin);
    r->activity.is_on = true;
    r->activity.left = elements * stage->element_seconds[index];
    return true;
}

static void end_task(struct mmul_replay_simulation *s, int index) {
    struct mmul_replay_computer *r = &s->ranks[index];
    r->activity.is_on = false;
    const struct mmul_replay_stage *stage = &s->stages[r->stage];
    if (stage->schedule == NULL) {
        r->end = s->now;
        end_stage(s, index);
        find_task(s, index);
        return;
    }
    double left_out = r->task.pass.round < stage->schedule->rounds / 2 ? 0 : stage->left_out;
    r->compute_seconds += (1 + left_out) * (s->now - r->activity.begin);
    r->later += left_out * (s->now - r->end);
    r->end = s->now;
    r->index++;
    find_task(s, index);
}

// ----------------------------------------------------------------------------------------- channels

// The first product from there on; the number of stages if there is none.
static int find_product(const struct mmul_replay_simulation *s, int stage) {
    while (stage < s->request->count && s->stages[stage].schedule == NULL)
        stage++;
    return stage;
}

static void open_list(const struct mmul_replay_simulation *s, int node, int route, int stage) {
    struct mmul_replay_channel *channel = &s->nodes[node].channels[route];
    channel->stage = stage;
    channel->list = mmul_transfers_make(s->stages[stage].schedule, node, (enum mmul_route)route);
    channel->position = channel->list.next;
}

static void find_transfer(struct mmul_replay_simulation *s, int node, int route) {
    struct mmul_replay_channel *channel = &s->nodes[node].channels[route];
    channel->position = channel->list.next;
    while (!(channel->has_next = mmul_transfers_next(&channel->list, &channel->next))) {
        int stage = find_product(s, channel->stage + 1);
        if (stage == s->request->count)
            break;
        open_list(s, node, route, stage);
    }
}

// Lanes and slots are those of the product but one before; what ranks send each other they have made.
static bool may_use_stage(const struct mmul_replay_simulation *s, int node, int stage) {
    return are_through(s, node, s->stages[stage].before + 1) &&
           are_through(s, node, s->request->stages[stage].needs + 1);
}

static bool may_begin(const struct mmul_replay_simulation *s, int node,
                      const struct mmul_replay_channel *channel) {
    if (!channel->has_next || channel->activity.is_on || !may_use_stage(s, node, channel->stage))
        return false;
    const int64_t *counters = s->stages[channel->stage].counters[node];
    for (int i = 0; i < MMUL_TRANSFER_WAITS; i++)
        if (counters[channel->next.waits[i].counter] < channel->next.waits[i].value)
            return false;
    return true;
}

static const struct mmul_cost_node *cost_node(const struct mmul_replay_simulation *s, int stage,
                                              int node) {
    return &s->stages[stage].cost->nodes[s->classes.last[node]];
}

static void begin_transfer(struct mmul_replay_simulation *s, int node, int route, double seconds,
                           double load) {
    struct mmul_replay_channel *channel = &s->nodes[node].channels[route];
    channel->on = channel->next;
    channel->stage_on = channel->stage;
    channel->position_on = channel->position;
    channel->activity = (struct mmul_replay_activity){
        .is_on = true, .begin = s->now, .left = seconds, .load = load};
    find_transfer(s, node, route);
}

static void end_transfer(struct mmul_replay_simulation *s, int node, int route) {
    struct mmul_replay_channel *channel = &s->nodes[node].channels[route];
    const struct mmul_replay_event event = {channel->stage_on, node, &channel->on,
                                            channel->activity.begin, s->now};
    struct mmul_replay_stage *stage = &s->stages[channel->stage_on];
    channel->activity.is_on = false;
    mmul_replay_raise(stage, node, channel->on.brings);
    if (channel->on.brings.counter == MMUL_RESULTS_STORED && !channel->on.in_place)
        stage->last[node] =
            (struct mmul_replay_delivery){stage->last[node].end, channel->activity.begin, s->now};
    if (s->request->tell != NULL)
        s->request->tell(s->request->context, &event);
}

// ----------------------------------------------------------------------------- scatter and gather

static bool takes_part(const struct mmul_replay_simulation *s, int node, int route) {
    const struct mmul_replay_channel *root = &s->nodes[0].channels[route],
                                     *channel = &s->nodes[node].channels[route];
    return channel->has_next && channel->stage == root->stage;
}

// All at once: those who give or get something have what they wait for.
static bool begin_exchange(struct mmul_replay_simulation *s, int route) {
    struct mmul_replay_channel *root = &s->nodes[0].channels[route];
    const struct mmul_replay_stage *stage = &s->stages[root->stage];
    double bytes = 0, seconds = 0, latency = 0;
    if (!may_begin(s, 0, root))
        return false;
    mmul_transfer_bytes(stage->schedule, &root->next, s->bytes);
    for (int node = 1; node < s->classes.node_count; node++) {
        if (!takes_part(s, node, route) || s->bytes[node] == 0)
            continue;
        if (!may_begin(s, node, &s->nodes[node].channels[route]))
            return false;
        const struct mmul_link link =
            mmul_cost_root_link(stage->cost->request.cluster, s->classes.last[node]);
        bytes += (double)s->bytes[node];
        seconds += (double)s->bytes[node] * cost_node(s, root->stage, node)->link;
        latency = fmax(latency, link.latency_seconds);
    }
    bool is_out = route == MMUL_ROUTE_SCATTER;
    for (int node = s->classes.node_count - 1; node >= 0; node--) { // root last: it tells the stage
        const struct mmul_cost_node *n = cost_node(s, root->stage, node);
        double own = node == 0 ? bytes : (double)s->bytes[node] / s->classes.nodes[node];
        bool comes = is_out == (node > 0);
        if (takes_part(s, node, route))
            begin_transfer(s, node, route, node == 0 ? seconds + latency : INFINITY,
                           own / (seconds + latency) * (comes ? n->receiving : n->sending));
    }
    return true;
}

static void end_exchange(struct mmul_replay_simulation *s, int route) {
    for (int node = 0; node < s->classes.node_count; node++)
        if (s->nodes[node].channels[route].activity.is_on)
            end_transfer(s, node, route);
}

// ------------------------------------------------------------------------------------------ relay

// When the panel that begins at `begun` (or ends, at `ended`) at one node does so at the next.
static double follows(const struct mmul_replay_simulation *s, const double *times, int stage,
                      int64_t position, int node, int from) {
    if (from < 0)
        return 0;
    return times[from * s->stages[stage].positions + position] +
           fmax(0, cost_node(s, stage, node)->begins - cost_node(s, stage, from)->begins);
}

// When what is under way at a node, or next, has ended, or begun, at the one before it.
static double may_end(const struct mmul_replay_simulation *s, int node) {
    const struct mmul_replay_channel *l = &s->nodes[node].channels[MMUL_ROUTE_RELAY];
    return follows(s, s->stages[l->stage_on].ended, l->stage_on, l->position_on, node, l->on.from);
}

static double may_follow(const struct mmul_replay_simulation *s, int node) {
    const struct mmul_replay_channel *l = &s->nodes[node].channels[MMUL_ROUTE_RELAY];
    return follows(s, s->stages[l->stage].begun, l->stage, l->position, node, l->next.from);
}

static bool begin_relay(struct mmul_replay_simulation *s, int node) {
    struct mmul_replay_channel *channel = &s->nodes[node].channels[MMUL_ROUTE_RELAY];
    if (!may_begin(s, node, channel))
        return false;
    if (may_follow(s, node) > s->now + TOO_SHORT)
        return false;
    const struct mmul_replay_stage *stage = &s->stages[channel->stage];
    const struct mmul_cost_node *n = cost_node(s, channel->stage, node);
    const struct mmul_transfer *panel = &channel->next;
    int64_t at = node * stage->positions + channel->position;
    double each = stage->panel_seconds_per_byte;
    double passed_on =
        1 - (panel->to < 0) / (double)s->classes.nodes[node]; // by all but the last one
    stage->begun[at] = s->now;
    stage->frees[at] = panel->frees;
    double load = (passed_on * n->sending + (panel->from < 0 ? 0 : n->receiving)) / each;
    begin_transfer(s, node, MMUL_ROUTE_RELAY, (double)panel->bytes * each, load);
    return true;
}

// A panel has gone on when it is at the next node.
static void end_relay(struct mmul_replay_simulation *s, int node) {
    const struct mmul_replay_channel *channel = &s->nodes[node].channels[MMUL_ROUTE_RELAY];
    struct mmul_replay_stage *stage = &s->stages[channel->stage_on];
    int from = channel->on.from;
    stage->ended[node * stage->positions + channel->position_on] = s->now;
    if (from >= 0)
        mmul_replay_raise(stage, from,
                          stage->frees[from * stage->positions + channel->position_on]);
    if (channel->on.to < 0)
        mmul_replay_raise(stage, node, channel->on.frees);
    end_transfer(s, node, MMUL_ROUTE_RELAY);
}

// ------------------------------------------------------------------------------------------ events

static bool begin_file(struct mmul_replay_simulation *s, int node, int route) {
    const struct mmul_replay_channel *channel = &s->nodes[node].channels[route];
    if (!may_begin(s, node, channel))
        return false;
    double bytes = channel->next.in_place ? 0 : (double)channel->next.bytes;
    begin_transfer(s, node, route, bytes / MMUL_FILE_BYTES_PER_SECOND,
                   cost_node(s, channel->stage, node)->share);
    return true;
}

static bool begin_what_can(struct mmul_replay_simulation *s) {
    bool any = begin_exchange(s, MMUL_ROUTE_SCATTER);
    any |= begin_exchange(s, MMUL_ROUTE_GATHER);
    for (int node = 0; node < s->classes.node_count; node++) {
        any |= begin_relay(s, node);
        for (int route = MMUL_ROUTE_READ; route <= MMUL_ROUTE_STORE; route++)
            any |= begin_file(s, node, route);
    }
    for (int rank = 0; rank < s->classes.size; rank++)
        any |= begin_task(s, rank);
    return any;
}

static int out_of_root(const struct mmul_replay_simulation *s) {
    const struct mmul_replay_channel *channels = s->nodes[0].channels;
    return channels[MMUL_ROUTE_SCATTER].activity.is_on + channels[MMUL_ROUTE_RELAY].activity.is_on;
}

// Lines share what they have in common: root's link, which may be slower both ways at once, and its main
// thread, which reads and writes.
static double rate_of_line(const struct mmul_replay_simulation *s, int node, int route) {
    static const bool in_common[MMUL_ROUTES][MMUL_ROUTES] = {
        [MMUL_ROUTE_SCATTER] = {[MMUL_ROUTE_RELAY] = true},
        [MMUL_ROUTE_RELAY] = {[MMUL_ROUTE_SCATTER] = true},
        [MMUL_ROUTE_READ] = {[MMUL_ROUTE_LOAD] = true, [MMUL_ROUTE_STORE] = true},
        [MMUL_ROUTE_LOAD] = {[MMUL_ROUTE_READ] = true, [MMUL_ROUTE_STORE] = true},
        [MMUL_ROUTE_STORE] = {[MMUL_ROUTE_READ] = true, [MMUL_ROUTE_LOAD] = true}};
    int sharing = 1;
    for (int other = 0; node == 0 && other < MMUL_ROUTES; other++)
        sharing += in_common[route][other] && s->nodes[0].channels[other].activity.is_on;
    bool both = node == 0 && route < MMUL_ROUTE_READ && out_of_root(s) > 0 &&
                s->nodes[0].channels[MMUL_ROUTE_GATHER].activity.is_on;
    return (both ? cost_node(s, s->nodes[0].channels[route].stage_on, 0)->duplex : 1) / sharing;
}

static double rate_of_rank(const struct mmul_replay_simulation *s, int index) {
    int node = s->classes.home[index];
    return s->classes.leaders[node] == index ? s->nodes[node].rate : 1;
}

static void find_rates(struct mmul_replay_simulation *s) {
    for (int node = 0; node < s->classes.node_count; node++) {
        double load = 0;
        for (int route = 0; route < MMUL_ROUTES; route++) {
            const struct mmul_replay_activity *a = &s->nodes[node].channels[route].activity;
            load += a->is_on ? a->load * rate_of_line(s, node, route) : 0;
        }
        s->nodes[node].rate = fmax(1 - load, LEAST_RATE);
    }
}

// When a channel's transfer ends as things are, or its next panel may follow; INFINITY: others decide.
static double next_of_line(const struct mmul_replay_simulation *s, int node, int route) {
    const struct mmul_replay_channel *channel = &s->nodes[node].channels[route];
    double end = INFINITY;
    if (channel->activity.is_on)
        end = s->now + channel->activity.left / rate_of_line(s, node, route);
    if (channel->activity.is_on && route == MMUL_ROUTE_RELAY)
        end = fmax(end, may_end(s, node));
    if (route == MMUL_ROUTE_RELAY && may_begin(s, node, channel))
        end = fmin(end, fmax(s->now, may_follow(s, node)));
    return end;
}

static double next_event(const struct mmul_replay_simulation *s) {
    double next = INFINITY;
    for (int node = 0; node < s->classes.node_count; node++)
        for (int route = 0; route < MMUL_ROUTES; route++)
            next = fmin(next, next_of_line(s, node, route));
    for (int rank = 0; rank < s->classes.size; rank++)
        if (s->ranks[rank].activity.is_on)
            next = fmin(next, s->now + s->ranks[rank].activity.left / rate_of_rank(s, rank));
    return next;
}

static void go_on(struct mmul_replay_activity *activity, double seconds) {
    if (activity->is_on)
        activity->left = fmax(0, activity->left - seconds);
}

static void go_to(struct mmul_replay_simulation *s, double next) {
    double seconds = next - s->now;
    s->result->root_out_seconds += out_of_root(s) > 0 ? seconds : 0;
    s->result->root_in_seconds +=
        s->nodes[0].channels[MMUL_ROUTE_GATHER].activity.is_on ? seconds : 0;
    for (int rank = 0; rank < s->classes.size; rank++)
        go_on(&s->ranks[rank].activity, seconds * rate_of_rank(s, rank));
    double rates[MMUL_ROUTES];
    for (int node = 0; node < s->classes.node_count; node++) {
        for (int route = 0; route < MMUL_ROUTES; route++)
            rates[route] = rate_of_line(s, node, route);
        for (int route = 0; route < MMUL_ROUTES; route++)
            go_on(&s->nodes[node].channels[route].activity, seconds * rates[route]);
    }
    s->now = next;
}

static void end_what_is_over(struct mmul_replay_simulation *s) {
    for (int node = 0; node < s->classes.node_count; node++)
        for (int route = 0; route < MMUL_ROUTES; route++) {
            const struct mmul_replay_channel *channel = &s->nodes[node].channels[route];
            if (!channel->activity.is_on || channel->activity.left > TOO_SHORT)
                continue;
            if (route == MMUL_ROUTE_SCATTER || route == MMUL_ROUTE_GATHER)
                end_exchange(s, route);
            else if (route != MMUL_ROUTE_RELAY)
                end_transfer(s, node, route);
            else if (may_end(s, node) <= s->now + TOO_SHORT)
                end_relay(s, node);
        }
    for (int rank = 0; rank < s->classes.size; rank++)
        if (s->ranks[rank].activity.is_on && s->ranks[rank].activity.left <= TOO_SHORT)
            end_task(s, rank);
}

static void begin(struct mmul_replay_simulation *s) {
    const int first = find_product(s, 0);
    for (int node = 0; node < s->classes.node_count && first < s->request->count; node++)
        for (int route = 0; route < MMUL_ROUTES; route++) {
            open_list(s, node, route, first);
            find_transfer(s, node, route);
        }
    for (int rank = 0; rank < s->classes.size; rank++) {
        begin_stage(s, rank);
        find_task(s, rank);
    }
}

static void walk(struct mmul_replay_simulation *s) {
    begin(s);
    for (;;) {
        while (begin_what_can(s))
            ;
        find_rates(s);
        double next = next_event(s);
        if (isinf(next))
            break;
        go_to(s, next);
        end_what_is_over(s);
    }
}

// ------------------------------------------------------------------------------------- the result

// When its last block is in the result, had it not waited for those of others to go with it.
static double finish_of(const struct mmul_replay_simulation *s,
                        const struct mmul_replay_computer *r, int node) {
    double finish = r->end;
    for (int i = 0; i < s->request->count; i++) {
        if (s->stages[i].schedule == NULL)
            continue;
        const struct mmul_replay_delivery *d = &s->stages[i].last[node];
        finish = fmax(finish, d->end - fmax(0, d->begin - fmax(r->end, d->before)));
    }
    return finish + r->later;
}

static void tell_ranks(const struct mmul_replay_simulation *s) {
    for (int rank = 0; rank < s->request->cluster->size; rank++) {
        int classes = s->classes.rank_of[rank], node = s->classes.home[classes];
        const struct mmul_replay_computer *r = &s->ranks[classes];
        if (r->end > 0)
            s->result->ranks[rank] =
                (struct mmul_replay_rank){r->compute_seconds, finish_of(s, r, node)};
        s->result->seconds = fmax(s->result->seconds, s->result->ranks[rank].finish);
    }
}

static enum mmul_status simulate(struct mmul_replay_simulation *s, struct mmul_error *err) {
    int count = s->request->count, last = -1, before = -1;
    enum mmul_status status =
        mmul_rank_classes_init(s->request->cluster, s->request->stages, count, &s->classes, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(s->stages, count, "the simulation", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(s->nodes, s->classes.node_count, "the simulation", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(s->ranks, s->classes.size, "the simulation", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(s->bytes, s->classes.node_count, "the simulation", err);
    for (int i = 0; status == MMUL_OK && i < count; i++) {
        status = mmul_replay_stage_init(s, &s->request->stages[i], &s->stages[i], err);
        s->stages[i].before = before;
        before = s->stages[i].schedule != NULL ? last : before;
        last = s->stages[i].schedule != NULL ? i : last;
    }
    if (status == MMUL_OK) {
        walk(s);
        tell_ranks(s);
    }
    for (int i = 0; s->stages != NULL && i < count; i++)
        mmul_replay_stage_fini(&s->stages[i]);
    mmul_free(s->stages);
    mmul_free(s->nodes);
    mmul_free(s->ranks);
    mmul_free(s->bytes);
    mmul_rank_classes_fini(&s->classes);
    return status;
}

enum mmul_status mmul_replay_make(const struct mmul_replay_request *request,
                                  struct mmul_replay **replay, struct mmul_error *err) {
    struct mmul_replay_simulation s = {.request = request};
    enum mmul_status status = MMUL_ALLOCATE(s.result, 1, "the simulation", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(s.result->ranks, request->cluster->size, "the simulation", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(s.result->ends, request->count, "the simulation", err);
    if (status == MMUL_OK)
        status = simulate(&s, err);
    if (status == MMUL_OK)
        *replay = s.result;
    else
        mmul_replay_destroy(s.result);
    return status;
}

void mmul_replay_destroy(struct mmul_replay *replay) {
    if (replay == NULL)
        return;
    mmul_free(replay->ranks);
    mmul_free(replay->ends);
    mmul_free(replay);
}
