// SPDX-License-Identifier: MIT
// Simulates a job from event to event. Between two events everything in flight advances at a rate.
// At each event all activities begin that have what they wait for. Contains no closed formula of
// times.
#include "plan/replay/replay.h"

#include <float.h>
#include <math.h>

#include "base/integer.h"
#include "base/memory.h"
#include "plan/lists/tasks.h"

static const double LEAST_RATE = 0.05; // share of the computing rate, regardless of traffic
static const double TOO_SHORT = 1e-12; // seconds, if rounding is less

// An activity in progress.
struct activity {
    bool is_active;
    double begin, left; // seconds, at full rate
    double load;        // load on its node's leader, CPU seconds per second
};

// A channel at a node.
struct channel {
    // product of the next transfer; of the one in flight
    struct product *product, *product_in_flight;
    int64_t position, position_in_flight; // position in the list; likewise
    struct mmul_transfers list;
    bool has_next;
    struct mmul_transfer next, in_flight; // next transfer; transfer in flight
    struct activity activity;             // scatter, gather: only root's counts down
};

struct node {
    struct channel channels[MMUL_ROUTES];
    double rate; // computing rate of its leader
};

struct computer {
    int stage;
    int64_t index; // task that is next, or in progress
    struct mmul_tasks tasks;
    struct mmul_task task;
    struct activity activity;
    double compute_seconds, end;
    double delay; // delay for the omitted rounds
};

// Delivery of a block of C: arrival of the block before it, begin and end of its own transfer.
struct delivery {
    double previous_end, begin, end;
};

// Counters and times of a product's lists.
struct product {
    int stage;
    struct mmul_schedule *schedule; // folded
    const struct mmul_cost *cost;
    double panel_seconds_per_byte;      // slowest hop
    int64_t (*counters)[MMUL_COUNTERS]; // by node
    int64_t positions;                  // length of the relay's lists
    // By node and position: begin and arrival; INFINITY: not yet.
    double *begun, *ended;
    int64_t *reached;        // by node and position: value of the counter when it has been sent on
    struct delivery *last;   // by node: delivery of its last block
    int64_t *passes_done;    // by rank
    double *element_seconds; // by rank
    int needed_stages;       // stages that the node's ranks must finish before its transfers
};

struct simulation;

// A stage, with the functions of its kind. find_task: finds a rank's next task in it; false: there
// is none. begin_task: computes the seconds of that task; false: it must wait.
struct stage {
    bool (*find_task)(struct simulation *s, int index);
    bool (*begin_task)(const struct simulation *s, int index, double *seconds);
    struct product *product; // if it is one
    int64_t rounds;          // rounds that are walked
    double omitted_rounds;   // omitted rounds, per round in the second half of these
    double arrival;          // arrival of an early move; INFINITY: not begun
    // List of the early moves that it waits for: head here, link in the move; stage + 1.
    int due, next_due;
};

struct simulation {
    const struct mmul_replay_request *request;
    struct mmul_rank_classes classes;
    struct stage *stages;
    struct product *products;
    struct node *nodes;
    struct computer *ranks;
    int64_t *bytes; // by node, of the exchange that begins
    struct mmul_replay *result;
    double now;
    double moving_until; // early moves occupy the network until then
};

static void raise_counter(struct product *product, int node, enum mmul_counter counter,
                          int64_t value) {
    int64_t *own = &product->counters[node][counter];
    *own = mmul_max(*own, value);
}

// ------------------------------------------------------------------------------------------- ranks

// Returns true if all ranks of a node, or all ranks (-1), have finished `stages` stages.
static bool have_finished(const struct simulation *s, int node, int stages) {
    for (int rank = 0; stages > 0 && rank < s->classes.size; rank++)
        if ((node < 0 || s->classes.home[rank] == node) && s->ranks[rank].stage < stages)
            return false;
    return true;
}

static void end_stage(struct simulation *s, int index) {
    struct computer *r = &s->ranks[index];
    const int ended = r->stage++;
    double *end = &s->result->ends[ended];
    *end = fmax(*end, s->now + r->delay);
    if (s->request->stages[ended].due > 0 && have_finished(s, -1, ended + 1))
        s->stages[ended].arrival = s->moving_until =
            fmax(s->now, s->moving_until) + s->request->stages[ended].seconds;
    r->index = 0;
}

// Returns the seconds that do not advance the clock: links of a few bytes per second bring it to a
// time at which less is lost by rounding.
static double find_instant(const struct simulation *s) {
    return fmax(TOO_SHORT, 8 * DBL_EPSILON * s->now);
}

// Returns the arrival of the last early move that a stage waits for.
static double early_moves_arrival(const struct simulation *s, int stage) {
    double come = 0;
    for (int i = s->stages[stage].due; i > 0; i = s->stages[i - 1].next_due)
        come = fmax(come, s->stages[i - 1].arrival);
    return come;
}

// Returns true if a rank may begin its stage. No rank is more than one stage ahead of the others of
// its node.
static bool may_begin_stage(const struct simulation *s, int index) {
    const int stage = s->ranks[index].stage, node = s->classes.home[index];
    enum mmul_waits waits = s->request->stages[stage].waits;
    if (early_moves_arrival(s, stage) > s->now + find_instant(s))
        return false;
    if (waits == MMUL_WAITS_NONE)
        return have_finished(s, node, stage - 1);
    return have_finished(s, waits == MMUL_WAITS_ALL_RANKS ? -1 : node, stage);
}

// A rank's tasks in a product. All tasks before the next one are done.
static bool find_product_task(struct simulation *s, int index) {
    struct computer *r = &s->ranks[index];
    struct product *product = s->stages[r->stage].product;
    int node = s->classes.home[index];
    if (r->index == 0)
        r->tasks = mmul_tasks_of_schedule(product->schedule, index, 0, false);
    for (; r->index < r->tasks.count; r->index++) {
        r->task = mmul_tasks_at(&r->tasks, r->index);
        if (r->task.line_begin < r->task.line_end)
            break;
    }
    bool is_over = r->index == r->tasks.count;
    int64_t least = mmul_schedule_passes(product->schedule);
    product->passes_done[index] = is_over ? least : r->task.pass.index;
    for (int rank = 0; rank < product->schedule->size; rank++)
        if (mmul_schedule_ranks(product->schedule)[rank].node == node)
            least = mmul_min(least, product->passes_done[rank]);
    product->counters[node][MMUL_PASSES_DONE] = least;
    return !is_over;
}

static bool begin_product_task(const struct simulation *s, int index, double *seconds) {
    const struct computer *r = &s->ranks[index];
    const struct product *product = s->stages[r->stage].product;
    int node = s->classes.home[index];
    int64_t slots = mmul_schedule_nodes(product->schedule)[node].result_slots,
            pass = r->task.pass.index;
    const struct mmul_product_arrivals here =
        mmul_product_arrivals(product->schedule, node, product->counters[node]);
    double elements =
        (double)(r->task.line_end - r->task.line_begin) * (double)(r->task.end - r->task.begin);
    *seconds = elements * product->element_seconds[index];
    return here.rounds_loaded > r->task.pass.round && here.passes_loaded > pass &&
           (slots == 0 || here.results_stored > pass - slots);
}

// Any other stage is one task. The ranks only begin early moves.
static bool find_only_task(struct simulation *s, int index) {
    return s->ranks[index].index == 0;
}

static bool begin_only_task(const struct simulation *s, int index, double *seconds) {
    const struct mmul_stage_plan *stage = &s->request->stages[s->ranks[index].stage];
    *seconds = stage->due > 0 ? 0 : stage->seconds;
    return true;
}

// Finds the next task, of this stage or a later one.
static void find_task(struct simulation *s, int index) {
    const struct computer *r = &s->ranks[index];
    while (r->stage < s->request->count && !s->stages[r->stage].find_task(s, index))
        end_stage(s, index);
}

static bool begin_task(struct simulation *s, int index) {
    struct computer *r = &s->ranks[index];
    if (r->activity.is_active || r->stage == s->request->count || !may_begin_stage(s, index))
        return false;
    r->activity = (struct activity){.begin = s->now};
    r->activity.is_active = s->stages[r->stage].begin_task(s, index, &r->activity.left);
    return r->activity.is_active;
}

static void end_task(struct simulation *s, int index) {
    struct computer *r = &s->ranks[index];
    const struct stage *stage = &s->stages[r->stage];
    double omitted_rounds = r->task.pass.round < stage->rounds / 2 ? 0 : stage->omitted_rounds;
    r->activity.is_active = false;
    r->compute_seconds += (1 + omitted_rounds) * (s->now - r->activity.begin);
    r->delay += omitted_rounds * (s->now - r->end);
    r->end = s->now;
    r->index++;
    find_task(s, index);
}

// ---------------------------------------------------------------------------------------- channels

static void open_list(const struct simulation *s, int node, int route, struct product *product) {
    struct channel *channel = &s->nodes[node].channels[route];
    channel->product = product;
    channel->list = mmul_transfers_make(product->schedule, node, (enum mmul_route)route);
    channel->position = channel->list.next;
}

static void find_transfer(struct simulation *s, int node, int route) {
    struct channel *channel = &s->nodes[node].channels[route];
    channel->position = channel->list.next;
    while (!(channel->has_next = mmul_transfers_next(&channel->list, &channel->next))) {
        if (channel->product + 1 == s->products + s->request->product_count)
            break;
        open_list(s, node, route, channel->product + 1);
    }
}

static bool may_begin_transfer(const struct simulation *s, int node,
                               const struct channel *channel) {
    if (!channel->has_next || channel->activity.is_active)
        return false;
    if (!have_finished(s, node, channel->product->needed_stages))
        return false;
    const int64_t *counters = channel->product->counters[node];
    for (int i = 0; i < MMUL_TRANSFER_WAITS; i++)
        if (counters[channel->next.waits[i].counter] < channel->next.waits[i].value)
            return false;
    return true;
}

static const struct mmul_cost_node *cost_node(const struct simulation *s,
                                              const struct product *product, int node) {
    return &product->cost->nodes[s->classes.last[node]];
}

static void begin_transfer(struct simulation *s, int node, int route, double seconds, double load) {
    struct channel *channel = &s->nodes[node].channels[route];
    channel->in_flight = channel->next;
    channel->product_in_flight = channel->product;
    channel->position_in_flight = channel->position;
    channel->activity =
        (struct activity){.is_active = true, .begin = s->now, .left = seconds, .load = load};
    find_transfer(s, node, route);
}

static void end_transfer(struct simulation *s, int node, int route) {
    struct channel *channel = &s->nodes[node].channels[route];
    struct product *product = channel->product_in_flight;
    const struct mmul_replay_event event = {product->stage, node, &channel->in_flight,
                                            channel->activity.begin, s->now};
    channel->activity.is_active = false;
    raise_counter(product, node, mmul_arrived_counter(channel->in_flight.route),
                  channel->in_flight.reached);
    const bool is_own_block = route == MMUL_ROUTE_STORE || (route == MMUL_ROUTE_GATHER && node > 0);
    if (is_own_block && !channel->in_flight.in_place)
        product->last[node] =
            (struct delivery){product->last[node].end, channel->activity.begin, s->now};
    if (s->request->tell != NULL)
        s->request->tell(s->request->context, &event);
}

// ------------------------------------------------------------------------------ scatter and gather

static bool takes_part_in_exchange(const struct simulation *s, int node, int route) {
    const struct channel *root = &s->nodes[0].channels[route],
                         *channel = &s->nodes[node].channels[route];
    return channel->has_next && channel->product == root->product;
}

// Begins a scatter or gather on all nodes at once, when all nodes with bytes have what they wait
// for.
static bool begin_exchange(struct simulation *s, int route) {
    struct channel *root = &s->nodes[0].channels[route];
    double bytes = 0, seconds = 0, latency = 0;
    if (!may_begin_transfer(s, 0, root))
        return false;
    mmul_transfer_node_bytes(root->product->schedule, &root->next, s->bytes);
    for (int node = 1; node < s->classes.node_count; node++) {
        if (!takes_part_in_exchange(s, node, route) || s->bytes[node] == 0)
            continue;
        if (!may_begin_transfer(s, node, &s->nodes[node].channels[route]))
            return false;
        const struct mmul_link link =
            mmul_cost_root_link(root->product->cost->request.cluster, s->classes.last[node]);
        bytes += (double)s->bytes[node];
        seconds += (double)s->bytes[node] * cost_node(s, root->product, node)->link;
        latency = fmax(latency, link.latency_seconds + MMUL_RENDEZVOUS_SECONDS);
    }
    bool is_out = route == MMUL_ROUTE_SCATTER;
    // Root goes last: takes_part_in_exchange reads its product.
    for (int node = s->classes.node_count - 1; node >= 0; node--) {
        const struct mmul_cost_node *n = cost_node(s, root->product, node);
        double own = node == 0 ? bytes : (double)s->bytes[node] / s->classes.nodes[node];
        bool comes = is_out == (node > 0);
        if (takes_part_in_exchange(s, node, route))
            begin_transfer(s, node, route, node == 0 ? seconds + latency : INFINITY,
                           own / (seconds + latency) * (comes ? n->receiving : n->sending));
    }
    return true;
}

static void end_exchange(struct simulation *s, int route) {
    for (int node = 0; node < s->classes.node_count; node++)
        if (s->nodes[node].channels[route].activity.is_active)
            end_transfer(s, node, route);
}

// ------------------------------------------------------------------------------------------- relay

// Returns the time when a panel that begins (or ends) at one node at `times` does so at the next.
static double follow_time(const struct simulation *s, const struct product *product,
                          const double *times, int64_t position, int node, int from) {
    if (from < 0)
        return 0;
    return times[from * product->positions + position] +
           fmax(0, cost_node(s, product, node)->begins - cost_node(s, product, from)->begins);
}

// Return the earliest end of the panel in flight at a node, and the earliest begin of the next one,
// after the same event at the node before.
static double may_end(const struct simulation *s, int node) {
    const struct channel *l = &s->nodes[node].channels[MMUL_ROUTE_RELAY];
    return follow_time(s, l->product_in_flight, l->product_in_flight->ended, l->position_in_flight,
                       node, l->in_flight.from);
}

static double may_follow(const struct simulation *s, int node) {
    const struct channel *l = &s->nodes[node].channels[MMUL_ROUTE_RELAY];
    return follow_time(s, l->product, l->product->begun, l->position, node, l->next.from);
}

static bool begin_relay(struct simulation *s, int node) {
    struct channel *channel = &s->nodes[node].channels[MMUL_ROUTE_RELAY];
    if (!may_begin_transfer(s, node, channel))
        return false;
    if (may_follow(s, node) > s->now + find_instant(s))
        return false;
    struct product *product = channel->product;
    const struct mmul_cost_node *n = cost_node(s, product, node);
    const struct mmul_transfer *panel = &channel->next;
    int64_t at = node * product->positions + channel->position;
    double each = product->panel_seconds_per_byte;
    // All nodes of the class send it on, except the last one of the chain.
    double passed_on = 1 - (panel->to < 0) / (double)s->classes.nodes[node];
    product->begun[at] = s->now;
    product->reached[at] = panel->reached;
    double load = (passed_on * n->sending + (panel->from < 0 ? 0 : n->receiving)) / each;
    begin_transfer(s, node, MMUL_ROUTE_RELAY, (double)panel->bytes * each, load);
    return true;
}

// A panel has been sent on when it is at the next node.
static void end_relay(struct simulation *s, int node) {
    const struct channel *channel = &s->nodes[node].channels[MMUL_ROUTE_RELAY];
    struct product *product = channel->product_in_flight;
    int from = channel->in_flight.from;
    product->ended[node * product->positions + channel->position_in_flight] = s->now;
    if (from >= 0)
        raise_counter(product, from, mmul_sent_counter(MMUL_ROUTE_RELAY),
                      product->reached[from * product->positions + channel->position_in_flight]);
    if (channel->in_flight.to < 0)
        raise_counter(product, node, mmul_sent_counter(MMUL_ROUTE_RELAY),
                      channel->in_flight.reached);
    end_transfer(s, node, MMUL_ROUTE_RELAY);
}

// ------------------------------------------------------------------------------------------ events

static bool begin_file(struct simulation *s, int node, int route) {
    const struct channel *channel = &s->nodes[node].channels[route];
    if (!may_begin_transfer(s, node, channel))
        return false;
    double bytes = channel->next.in_place ? 0 : (double)channel->next.bytes;
    begin_transfer(s, node, route, bytes / MMUL_FILE_BYTES_PER_SECOND,
                   cost_node(s, channel->product, node)->share);
    return true;
}

static bool begin_ready_activities(struct simulation *s) {
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

static int out_of_root(const struct simulation *s) {
    const struct channel *channels = s->nodes[0].channels;
    return channels[MMUL_ROUTE_SCATTER].activity.is_active +
           channels[MMUL_ROUTE_RELAY].activity.is_active;
}

// Returns the rate of an active channel. Channels share root's link, which may be slower both ways
// at once, and root's main thread, which reads and writes.
static double rate_of_channel(const struct simulation *s, int node, int route) {
    static const bool in_common[MMUL_ROUTES][MMUL_ROUTES] = {
        [MMUL_ROUTE_SCATTER] = {[MMUL_ROUTE_RELAY] = true},
        [MMUL_ROUTE_RELAY] = {[MMUL_ROUTE_SCATTER] = true},
        [MMUL_ROUTE_READ] = {[MMUL_ROUTE_LOAD] = true, [MMUL_ROUTE_STORE] = true},
        [MMUL_ROUTE_LOAD] = {[MMUL_ROUTE_READ] = true, [MMUL_ROUTE_STORE] = true},
        [MMUL_ROUTE_STORE] = {[MMUL_ROUTE_READ] = true, [MMUL_ROUTE_LOAD] = true}};
    int sharing = 1;
    for (int other = 0; node == 0 && other < MMUL_ROUTES; other++)
        sharing += in_common[route][other] && s->nodes[0].channels[other].activity.is_active;
    const struct channel *channel = &s->nodes[node].channels[route];
    bool both = node == 0 && route < MMUL_ROUTE_READ && channel->activity.is_active &&
                out_of_root(s) > 0 && s->nodes[0].channels[MMUL_ROUTE_GATHER].activity.is_active;
    return (both ? cost_node(s, channel->product_in_flight, 0)->duplex : 1) / sharing;
}

static double rate_of_rank(const struct simulation *s, int index) {
    int node = s->classes.home[index];
    return s->classes.leaders[node] == index ? s->nodes[node].rate : 1;
}

static void find_leader_rates(struct simulation *s) {
    for (int node = 0; node < s->classes.node_count; node++) {
        double load = 0;
        for (int route = 0; route < MMUL_ROUTES; route++) {
            const struct activity *a = &s->nodes[node].channels[route].activity;
            load += a->is_active ? a->load * rate_of_channel(s, node, route) : 0;
        }
        s->nodes[node].rate = fmax(1 - load, LEAST_RATE);
    }
}

// Returns the time when a channel's transfer ends at the current rates, or its next panel may
// follow. INFINITY: other events come first.
static double next_event_of_channel(const struct simulation *s, int node, int route) {
    const struct channel *channel = &s->nodes[node].channels[route];
    double end = INFINITY;
    if (channel->activity.is_active)
        end = s->now + channel->activity.left / rate_of_channel(s, node, route);
    if (channel->activity.is_active && route == MMUL_ROUTE_RELAY)
        end = fmax(end, may_end(s, node));
    if (route == MMUL_ROUTE_RELAY && may_begin_transfer(s, node, channel))
        end = fmin(end, fmax(s->now, may_follow(s, node)));
    return end;
}

static double next_event(const struct simulation *s) {
    double next = INFINITY;
    for (int node = 0; node < s->classes.node_count; node++)
        for (int route = 0; route < MMUL_ROUTES; route++)
            next = fmin(next, next_event_of_channel(s, node, route));
    for (int rank = 0; rank < s->classes.size; rank++) {
        const struct computer *r = &s->ranks[rank];
        if (r->activity.is_active)
            next = fmin(next, s->now + r->activity.left / rate_of_rank(s, rank));
        else if (r->stage < s->request->count &&
                 early_moves_arrival(s, r->stage) > s->now + find_instant(s))
            next = fmin(next, early_moves_arrival(s, r->stage));
    }
    return next;
}

static void advance_activity(struct activity *activity, double seconds) {
    if (activity->is_active)
        activity->left = fmax(0, activity->left - seconds);
}

static void advance_clock(struct simulation *s, double next) {
    double seconds = next - s->now;
    s->result->root_out_seconds += out_of_root(s) > 0 ? seconds : 0;
    s->result->root_in_seconds +=
        s->nodes[0].channels[MMUL_ROUTE_GATHER].activity.is_active ? seconds : 0;
    for (int rank = 0; rank < s->classes.size; rank++)
        advance_activity(&s->ranks[rank].activity, seconds * rate_of_rank(s, rank));
    double rates[MMUL_ROUTES];
    for (int node = 0; node < s->classes.node_count; node++) {
        for (int route = 0; route < MMUL_ROUTES; route++)
            rates[route] = rate_of_channel(s, node, route);
        for (int route = 0; route < MMUL_ROUTES; route++)
            advance_activity(&s->nodes[node].channels[route].activity, seconds * rates[route]);
    }
    s->now = next;
}

static void end_finished_activities(struct simulation *s) {
    for (int node = 0; node < s->classes.node_count; node++)
        for (int route = 0; route < MMUL_ROUTES; route++) {
            const struct channel *channel = &s->nodes[node].channels[route];
            if (!channel->activity.is_active || channel->activity.left > find_instant(s))
                continue;
            if (route == MMUL_ROUTE_SCATTER || route == MMUL_ROUTE_GATHER)
                end_exchange(s, route);
            else if (route != MMUL_ROUTE_RELAY)
                end_transfer(s, node, route);
            else if (may_end(s, node) <= s->now + find_instant(s))
                end_relay(s, node);
        }
    for (int rank = 0; rank < s->classes.size; rank++)
        if (s->ranks[rank].activity.is_active && s->ranks[rank].activity.left <= find_instant(s))
            end_task(s, rank);
}

static void begin_simulation(struct simulation *s) {
    for (int node = 0; node < s->classes.node_count && s->request->product_count > 0; node++)
        for (int route = 0; route < MMUL_ROUTES; route++) {
            open_list(s, node, route, s->products);
            find_transfer(s, node, route);
        }
    for (int rank = 0; rank < s->classes.size; rank++)
        find_task(s, rank);
}

static void run_events(struct simulation *s) {
    begin_simulation(s);
    for (;;) {
        while (begin_ready_activities(s))
            ;
        find_leader_rates(s);
        double next = next_event(s);
        if (isinf(next))
            break;
        advance_clock(s, next);
        end_finished_activities(s);
    }
}

// ------------------------------------------------------------------------- before the clock starts

// Computes the mean seconds per element of C over the ranks of each class.
static void find_element_seconds(const struct simulation *s, struct product *product,
                                 const struct mmul_product_plan *whole) {
    const struct mmul_cost *cost = whole->cost;
    for (int rank = 0; rank < whole->schedule->size; rank++) {
        const struct mmul_schedule_rank *r = &mmul_schedule_ranks(whole->schedule)[rank];
        int classes = s->classes.rank_of[rank];
        const struct mmul_pass_cost *pass = &cost->ranks[rank].pass;
        if (r->end > r->begin)
            product->element_seconds[classes] +=
                cost->passes * mmul_pass_seconds(pass, (double)(r->end - r->begin) / cost->rounds) /
                s->classes.members[classes];
    }
    struct stage *stage = &s->stages[product->stage];
    double seconds = s->request->stages[product->stage].seconds;
    double rounds = (double)product->schedule->rounds, part = rounds / cost->rounds;
    for (int rank = 0; rank < s->classes.size; rank++) {
        const struct mmul_tasks tasks = mmul_tasks_of_schedule(product->schedule, rank, 0, false);
        double elements = mmul_tasks_elements(&tasks, 0, tasks.positions);
        product->element_seconds[rank] += elements > 0 ? seconds : 0;
        product->element_seconds[rank] /= elements > 0 ? elements / part : 1;
    }
    stage->rounds = product->schedule->rounds;
    stage->omitted_rounds = (cost->rounds - rounds) / ceil(rounds / 2);
}

static void reset_product(const struct simulation *s, struct product *product) {
    const struct mmul_cost *cost = product->cost;
    // A spread operand has no chain.
    for (int node = 0; node < cost->node_count; node++)
        if (cost->nodes[node].remote)
            product->panel_seconds_per_byte =
                fmax(product->panel_seconds_per_byte, cost->nodes[node].link);
    if (cost->last_in_chain >= 0)
        product->panel_seconds_per_byte = cost->nodes[cost->last_in_chain].gap / cost->panel_bytes;
    for (int64_t i = 0; i < s->classes.node_count * product->positions; i++)
        product->begun[i] = product->ended[i] = INFINITY;
    for (int node = 0; node < s->classes.node_count; node++)
        for (int route = 0; route < MMUL_ROUTES; route++) {
            const struct mmul_transfers list =
                mmul_transfers_make(product->schedule, node, (enum mmul_route)route);
            raise_counter(product, node, mmul_arrived_counter(list.route), list.reached);
            raise_counter(product, node, mmul_sent_counter(list.route), list.reached);
        }
}

static enum mmul_status product_init(struct simulation *s, int index, struct mmul_error *err) {
    const struct mmul_product_plan *whole = &s->request->products[index];
    struct product *product = &s->products[index];
    struct stage *stage = &s->stages[whole->stage];
    int nodes = s->classes.node_count, size = s->classes.size;
    if (mmul_rank_classes_fold(&s->classes, whole->schedule, &product->schedule, err) != MMUL_OK)
        return err->status;
    product->stage = whole->stage;
    product->cost = whole->cost;
    product->positions = mmul_transfers_make(product->schedule, 0, MMUL_ROUTE_RELAY).end;
    // Lanes and slots are shared with the product two products earlier. Ranks send each other only
    // bytes that exist.
    product->needed_stages = 1 + mmul_max(whole->needs, index < 2 ? -1 : product[-2].stage);
    int64_t panels = nodes * product->positions;
    if (MMUL_ALLOCATE_ALL("the simulation", err, MMUL_ARRAY(product->counters, nodes),
                          MMUL_ARRAY(product->begun, panels), MMUL_ARRAY(product->ended, panels),
                          MMUL_ARRAY(product->reached, panels), MMUL_ARRAY(product->last, nodes),
                          MMUL_ARRAY(product->passes_done, size),
                          MMUL_ARRAY(product->element_seconds, size)) != MMUL_OK)
        return err->status;
    find_element_seconds(s, product, whole);
    reset_product(s, product);
    stage->find_task = find_product_task;
    stage->begin_task = begin_product_task;
    stage->product = product;
    return MMUL_OK;
}

static void product_fini(struct product *product) {
    mmul_schedule_free(product->schedule);
    MMUL_FREE_ALL(product->counters, product->begun, product->ended, product->reached,
                  product->last, product->passes_done, product->element_seconds);
}

// -------------------------------------------------------------------------------------- the result

// Returns the time when a rank's last block is in the result, without waiting for blocks of other
// ranks to go with it.
static double finish_of(const struct simulation *s, const struct computer *r, int node) {
    double finish = r->end;
    for (int i = 0; i < s->request->product_count; i++) {
        const struct delivery *d = &s->products[i].last[node];
        finish = fmax(finish, d->end - fmax(0, d->begin - fmax(r->end, d->previous_end)));
    }
    return finish + r->delay;
}

static void report_ranks(const struct simulation *s) {
    for (int rank = 0; rank < s->request->cluster->size; rank++) {
        int classes = s->classes.rank_of[rank], node = s->classes.home[classes];
        const struct computer *r = &s->ranks[classes];
        if (r->end > 0)
            s->result->ranks[rank] =
                (struct mmul_replay_rank){r->compute_seconds, finish_of(s, r, node)};
        s->result->seconds = fmax(s->result->seconds, s->result->ranks[rank].finish);
    }
    s->result->seconds = fmax(s->result->seconds, s->moving_until);
}

static enum mmul_status simulate_job(struct simulation *s, struct mmul_error *err) {
    const struct mmul_replay_request *r = s->request;
    enum mmul_status status =
        mmul_rank_classes_init(r->cluster, r->products, r->product_count, &s->classes, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE_ALL(
            "the simulation", err, MMUL_ARRAY(s->stages, r->count),
            MMUL_ARRAY(s->products, r->product_count), MMUL_ARRAY(s->nodes, s->classes.node_count),
            MMUL_ARRAY(s->ranks, s->classes.size), MMUL_ARRAY(s->bytes, s->classes.node_count));
    for (int i = 0; status == MMUL_OK && i < r->count; i++) {
        const int due = r->stages[i].due;
        s->stages[i].find_task = find_only_task;
        s->stages[i].begin_task = begin_only_task;
        s->stages[i].arrival = INFINITY;
        if (due > 0 && due < r->count) {
            s->stages[i].next_due = s->stages[due].due;
            s->stages[due].due = i + 1;
        }
    }
    for (int i = 0; status == MMUL_OK && i < r->product_count; i++)
        status = product_init(s, i, err);
    if (status == MMUL_OK) {
        run_events(s);
        report_ranks(s);
    }
    for (int i = 0; s->products != NULL && i < r->product_count; i++)
        product_fini(&s->products[i]);
    MMUL_FREE_ALL(s->stages, s->products, s->nodes, s->ranks, s->bytes);
    mmul_rank_classes_fini(&s->classes);
    return status;
}

enum mmul_status mmul_replay_make(const struct mmul_replay_request *request,
                                  struct mmul_replay **replay, struct mmul_error *err) {
    struct simulation s = {.request = request};
    enum mmul_status status = MMUL_ALLOCATE(s.result, 1, "the simulation", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE_ALL("the simulation", err,
                                   MMUL_ARRAY(s.result->ranks, request->cluster->size),
                                   MMUL_ARRAY(s.result->ends, request->count));
    if (status == MMUL_OK)
        status = simulate_job(&s, err);
    if (status == MMUL_OK)
        *replay = s.result;
    else
        mmul_replay_destroy(s.result);
    return status;
}

void mmul_replay_destroy(struct mmul_replay *replay) {
    if (replay == NULL)
        return;
    MMUL_FREE_ALL(replay->ranks, replay->ends, replay);
}
