// SPDX-License-Identifier: MIT
// Walks the rounds and steps that a line has something for. Everything is arithmetic on the plan and
// on a cursor or two: no list is ever stored.
#include "plan/transfers.h"

#include "base/integer.h"
#include "base/text.h"
#include "model/matrix.h"

static const struct mmul_plan_node *node_of(const struct mmul_transfers *t) {
    return &mmul_plan_nodes(t->plan)[t->node];
}

static bool is_of_rounds(enum mmul_route route) {
    return route == MMUL_ROUTE_SCATTER || route == MMUL_ROUTE_READ;
}

static bool is_of_network(enum mmul_route route) {
    return route == MMUL_ROUTE_SCATTER || route == MMUL_ROUTE_RELAY || route == MMUL_ROUTE_GATHER;
}

// --------------------------------------------------------------------------------------- contents

static enum mmul_content content_at(enum mmul_route route, int64_t position) {
    if (is_of_rounds(route))
        return position % 2 == 0 ? MMUL_CONTENT_PIECES : MMUL_CONTENT_C_IN;
    return route == MMUL_ROUTE_GATHER || route == MMUL_ROUTE_STORE ? MMUL_CONTENT_RESULT
                                                                   : MMUL_CONTENT_PANEL;
}

static struct mmul_step step_at(const struct mmul_transfers *t, int64_t position) {
    return mmul_schedule_step(
        t->plan, is_of_rounds(t->route) ? position / 2 * mmul_schedule_panels(t->plan) : position);
}

static int64_t rank_bytes(const struct mmul_plan *plan, int rank, enum mmul_content content,
                          struct mmul_step step) {
    const struct mmul_problem *p = &plan->problem;
    struct mmul_range part = mmul_schedule_part(plan, rank, step.round);
    int64_t units = part.end - part.begin;
    if (content == MMUL_CONTENT_PIECES)
        return p->alpha == 0
                   ? 0
                   : units * p->k *
                         (int64_t)mmul_dtype_bytes(mmul_problem_split_dtype(p, plan->axis));
    if (content == MMUL_CONTENT_C_IN)
        return p->beta == 0
                   ? 0
                   : units * mmul_problem_result_width(p, plan->axis) * (int64_t)sizeof(float);
    return mmul_schedule_units(plan, rank, step) * (step.end - step.begin) * (int64_t)sizeof(float);
}

// Then nobody brings it, or fetches it.
static bool is_mapped(const struct mmul_plan *plan, enum mmul_content content, int node) {
    unsigned maps = mmul_plan_nodes(plan)[node].maps;
    return (content == MMUL_CONTENT_PIECES && (maps & mmul_maps_split(plan->axis)) != 0) ||
           (content == MMUL_CONTENT_C_IN && (maps & MMUL_MAPS_C_IN) != 0) ||
           (content == MMUL_CONTENT_RESULT && (maps & MMUL_MAPS_C) != 0);
}

int64_t mmul_content_bytes(const struct mmul_plan *plan, enum mmul_content content, int node,
                           struct mmul_step step) {
    int64_t bytes = 0;
    if (content == MMUL_CONTENT_PANEL)
        return mmul_schedule_panel_bytes(plan, step);
    for (int rank = 0; rank < plan->size; rank++)
        if (mmul_plan_ranks(plan)[rank].node == node)
            bytes += rank_bytes(plan, rank, content, step);
    return bytes;
}

void mmul_transfer_bytes(const struct mmul_plan *plan, const struct mmul_transfer *transfer,
                         int64_t *bytes) {
    for (int node = 0; node < plan->node_count; node++)
        bytes[node] = 0;
    for (int rank = 0; rank < plan->size; rank++) {
        int node = mmul_plan_ranks(plan)[rank].node;
        if (node != 0 && !is_mapped(plan, transfer->content, node))
            bytes[node] += rank_bytes(plan, rank, transfer->content, transfer->step);
    }
}

static int64_t own_bytes(const struct mmul_transfers *t, enum mmul_content content,
                         struct mmul_step step) {
    return content != MMUL_CONTENT_RESULT && is_mapped(t->plan, content, t->node)
               ? 0
               : mmul_content_bytes(t->plan, content, t->node, step);
}

// ------------------------------------------------------------------------------------ what is there

// The nodes that a panel comes from and goes to: root is first, the others stand in their order.
static void find_neighbours(const struct mmul_transfers *t, struct mmul_step step, int *from,
                            int *to) {
    const struct mmul_plan_node *nodes = mmul_plan_nodes(t->plan);
    *from = t->node == 0 ? -1 : 0;
    *to = -1;
    for (int node = 1; node < t->plan->node_count; node++) {
        int place = nodes[node].chain_place;
        if (node == t->node || !mmul_schedule_loads(t->plan, node, step))
            continue;
        if (place < nodes[t->node].chain_place && place > nodes[*from].chain_place)
            *from = node;
        if (place > nodes[t->node].chain_place && (*to < 0 || place < nodes[*to].chain_place))
            *to = node;
    }
}

static bool any_other_gets(const struct mmul_transfers *t, int64_t position) {
    struct mmul_step step = step_at(t, position);
    enum mmul_content content = content_at(t->route, position);
    for (int rank = 0; rank < t->plan->size; rank++) {
        int node = mmul_plan_ranks(t->plan)[rank].node;
        if (node != 0 && !is_mapped(t->plan, content, node) &&
            rank_bytes(t->plan, rank, content, step) > 0)
            return true;
    }
    return false;
}

static bool is_there(const struct mmul_transfers *t, int64_t position) {
    struct mmul_step step = step_at(t, position);
    int from, to;
    switch (t->route) {
    case MMUL_ROUTE_SCATTER:
    case MMUL_ROUTE_GATHER:
        return any_other_gets(t, position);
    case MMUL_ROUTE_RELAY:
        if (t->node != 0)
            return mmul_schedule_loads(t->plan, t->node, step);
        find_neighbours(t, step, &from, &to);
        return to >= 0;
    case MMUL_ROUTE_READ:
        return own_bytes(t, content_at(t->route, position), step) > 0;
    case MMUL_ROUTE_LOAD:
        return mmul_schedule_loads(t->plan, t->node, step);
    default:
        return true; // its steps end one by one, with or without a block
    }
}

static int64_t find_next(const struct mmul_transfers *t, int64_t position) {
    while (position < t->end && !is_there(t, position))
        position++;
    return position;
}

struct mmul_transfers mmul_transfers_make(const struct mmul_plan *plan, int node,
                                          enum mmul_route route) {
    struct mmul_transfers t = {.plan = plan, .node = node, .route = route};
    const struct mmul_plan_node *own = &mmul_plan_nodes(plan)[node];
    t.end = is_of_rounds(route) ? 2 * plan->rounds : mmul_schedule_steps(plan);
    if (is_of_network(route) ? node != 0 && !own->takes_part : node != 0 || own->result_bytes == 0)
        t.next = t.end;
    t.next = t.oldest = find_next(&t, t.next);
    return t;
}

// ---------------------------------------------------------------------------------- the next one

enum mmul_counter mmul_route_brings(enum mmul_route route, int node) {
    bool root = node == 0;
    if (!root && !is_of_network(route))
        return MMUL_NOTHING;
    switch (route) {
    case MMUL_ROUTE_SCATTER:
        return root ? MMUL_ROUNDS_SENT : MMUL_ROUNDS_LOADED;
    case MMUL_ROUTE_RELAY:
        return root ? MMUL_NOTHING : MMUL_STEPS_LOADED;
    case MMUL_ROUTE_GATHER:
        return root ? MMUL_RESULTS_GATHERED : MMUL_RESULTS_STORED;
    case MMUL_ROUTE_READ:
        return MMUL_ROUNDS_LOADED;
    case MMUL_ROUTE_LOAD:
        return MMUL_STEPS_LOADED;
    default:
        return MMUL_RESULTS_STORED;
    }
}

enum mmul_counter mmul_route_frees(enum mmul_route route) {
    return route == MMUL_ROUTE_RELAY ? MMUL_STEPS_PASSED : MMUL_NOTHING;
}

int64_t mmul_transfers_reached(const struct mmul_transfers *transfers) {
    return is_of_rounds(transfers->route) ? transfers->next / 2 : transfers->next;
}

// A round's lane is free when the round before last in it has been computed by all ranks.
static void fit_into_lane(const struct mmul_transfers *t, struct mmul_transfer *transfer) {
    int64_t lanes = node_of(t)->piece_lanes, round = transfer->step.round;
    if (lanes == 0)
        return;
    transfer->slot = round % lanes;
    if (round >= lanes)
        transfer->waits[0] = (struct mmul_count){
            MMUL_STEPS_DONE, (round - lanes + 1) * mmul_schedule_panels(t->plan)};
}

// Slots of panels are used in turn: the oldest panel has been computed with and passed on.
static void fit_into_slot(struct mmul_transfers *t, struct mmul_transfer *transfer) {
    int64_t slots = node_of(t)->whole_slots;
    transfer->slot = t->taken % slots;
    if (t->taken < slots)
        return;
    transfer->waits[0] = (struct mmul_count){MMUL_STEPS_DONE, t->oldest + 1};
    if (t->route == MMUL_ROUTE_RELAY)
        transfer->waits[1] = (struct mmul_count){MMUL_STEPS_PASSED, t->oldest + 1};
    t->oldest = find_next(t, t->oldest + 1);
}

// A block of C is there when its step has been computed by all ranks.
static void fit_result(const struct mmul_transfers *t, struct mmul_transfer *transfer) {
    int64_t slots = node_of(t)->result_slots;
    transfer->slot = slots > 0 ? transfer->step.index % slots : -1;
    transfer->in_place = (node_of(t)->maps & MMUL_MAPS_C) != 0;
    transfer->waits[0] = (struct mmul_count){MMUL_STEPS_DONE, transfer->step.index + 1};
}

bool mmul_transfers_next(struct mmul_transfers *transfers, struct mmul_transfer *transfer) {
    struct mmul_transfers *t = transfers;
    bool sends = t->node == 0 && is_of_network(t->route);
    if (t->next == t->end)
        return false;
    *transfer = (struct mmul_transfer){.route = t->route,
                                       .content = content_at(t->route, t->next),
                                       .step = step_at(t, t->next),
                                       .slot = -1,
                                       .from = -1,
                                       .to = -1};
    if (!sends || t->route == MMUL_ROUTE_RELAY)
        transfer->bytes = own_bytes(t, transfer->content, transfer->step);
    if (t->route == MMUL_ROUTE_RELAY)
        find_neighbours(t, transfer->step, &transfer->from, &transfer->to);
    if (sends && t->route == MMUL_ROUTE_RELAY) // pieces first: without them nobody starts
        transfer->waits[0] = (struct mmul_count){MMUL_ROUNDS_SENT, transfer->step.round + 1};
    else if (!sends && is_of_rounds(t->route))
        fit_into_lane(t, transfer);
    else if (!sends && transfer->content == MMUL_CONTENT_PANEL)
        fit_into_slot(t, transfer);
    else if (!sends)
        fit_result(t, transfer);
    t->taken++;
    t->next = find_next(t, t->next + 1);
    transfer->brings =
        (struct mmul_count){mmul_route_brings(t->route, t->node), mmul_transfers_reached(t)};
    transfer->frees = (struct mmul_count){mmul_route_frees(t->route), mmul_transfers_reached(t)};
    return true;
}

// ------------------------------------------------------------------------------------- as text

static void add_content(struct mmul_text *table, const struct mmul_plan *plan,
                        const struct mmul_transfer *t) {
    const char *names[] = {plan->axis == MMUL_ROWS ? "A" : "B", "C in",
                           plan->axis == MMUL_ROWS ? "B" : "A", "C"};
    bool of_round = is_of_rounds(t->route);
    mmul_text_add(table, "%s of %s %lld\t", names[t->content], of_round ? "round" : "step",
                  (long long)(of_round ? t->step.round : t->step.index));
}

static void add_count(struct mmul_text *table, const struct mmul_count *count, const char *before) {
    static const char *const names[MMUL_COUNTERS] = {"",
                                                     "steps done",
                                                     "rounds loaded",
                                                     "steps loaded",
                                                     "results stored",
                                                     "rounds sent",
                                                     "steps passed",
                                                     "results gathered"};
    if (count->counter != MMUL_NOTHING)
        mmul_text_add(table, "%s%s %lld", before, names[count->counter], (long long)count->value);
}

static void add_node(struct mmul_text *table, int node) {
    if (node < 0)
        mmul_text_add(table, "-\t");
    else
        mmul_text_add(table, "%d\t", node);
}

static void add_transfer(struct mmul_text *table, const struct mmul_plan *plan, int node,
                         const struct mmul_transfer *t) {
    static const char *const lines[MMUL_ROUTES] = {"scatter", "relay", "gather",
                                                   "read",    "load",  "store"};
    mmul_text_add(table, "%d\t%s\t", node, lines[t->route]);
    add_content(table, plan, t);
    mmul_text_add(table, "%lld\t", (long long)t->bytes);
    if (t->slot >= 0)
        mmul_text_add(table, "%lld\t", (long long)t->slot);
    else
        mmul_text_add(table, "%s\t", t->in_place ? "mapped" : "-");
    add_node(table, t->from);
    add_node(table, t->to);
    add_count(table, &t->waits[0], "");
    add_count(table, &t->waits[1], ", ");
    mmul_text_add(table, t->waits[0].counter == MMUL_NOTHING ? "-\t" : "\t");
    add_count(table, &t->brings, "");
    add_count(table, &t->frees, t->brings.counter == MMUL_NOTHING ? "" : ", ");
    mmul_text_add(table, "\n");
}

void mmul_transfers_print(const struct mmul_plan *plan, FILE *stream) {
    struct mmul_text table = {0};
    struct mmul_transfer transfer;
    mmul_text_add(&table, "node\tline\ttransfer\tbytes\tslot\tfrom\tto\twaits for\tbrings\n");
    for (int node = 0; node < plan->node_count; node++)
        for (int route = 0; route < MMUL_ROUTES; route++) {
            struct mmul_transfers t = mmul_transfers_make(plan, node, (enum mmul_route)route);
            while (mmul_transfers_next(&t, &transfer))
                add_transfer(&table, plan, node, &transfer);
        }
    mmul_text_print_table(mmul_text_get(&table), stream);
    mmul_text_fini(&table);
}
