// SPDX-License-Identifier: MIT
// Evaluates candidates with the balance. With few nodes every number of nodes is tried. With many
// nodes the numbers grow by half, then a closer search runs around the best.
#include "plan/product/participants.h"

#include <stdlib.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"

enum { FEW_NODES = 16, CLOSER_LOOKS = 8, PRUNINGS = 3 };
static const double WORTH_IT = 0.99; // share of the seconds with all ranks

// Work space of one call.
struct choice {
    struct mmul_cost *cost;
    const struct mmul_cut *cut;
    double total;
    const int64_t *capacity;
    struct mmul_participants *members;
    int *order;   // other nodes, most useful first
    int *place;   // position of each node in `order`; -1: root's
    bool *in;     // per rank, members of the candidate
    double *work; // per node, scratch
    int order_count, best;
};

// ----------------------------------------------------------------------------------------- devices

// Returns the rate of the fastest single core among the node's CPU ranks; 0: none.
static double core_rate(const struct mmul_cost *cost, int node) {
    const struct mmul_cluster *cluster = cost->request.cluster;
    double best = 0;
    for (int i = cluster->nodes[node].leader; i >= 0; i = mmul_cluster_next_rank(cluster, i)) {
        if (!cluster->ranks[i].host_memory)
            continue;
        int threads = cluster->ranks[i].threads > 1 ? cluster->ranks[i].threads : 1;
        double rate = mmul_pass_rate(&cost->ranks[i].pass) / threads;
        best = rate > best ? rate : best;
    }
    return best;
}

// Returns true if the device without its transfers would be fast enough.
static bool device_alone_suffices(const struct mmul_cost *cost, int rank, double core) {
    struct mmul_rank_info alone = cost->request.cluster->ranks[rank];
    alone.speed.upload_bytes_per_second = alone.speed.download_bytes_per_second = 0;
    const struct mmul_pass_request request = {
        .problem = cost->request.problem,
        .axis = cost->request.axis,
        .cut = &cost->cut,
        .rank = &alone,
        .assumed_flops = cost->request.assumed ? cost->request.assumed[rank] : 0};
    struct mmul_pass_cost pass = mmul_pass_cost(&request);
    return mmul_pass_rate(&pass) >= core;
}

static void exclude_slow_devices(struct choice *c) {
    const struct mmul_cost *cost = c->cost;
    const struct mmul_rank_info *ranks = cost->request.cluster->ranks;
    for (int i = 0; i < cost->node_count; i++)
        c->work[i] = -1;
    for (int rank = 0; rank < cost->size; rank++) {
        enum mmul_exclusion absence =
            cost->ranks[rank].in ? MMUL_NOT_EXCLUDED : MMUL_EXCLUDED_SPEED_UNKNOWN;
        int node = ranks[rank].node;
        if (absence == MMUL_NOT_EXCLUDED && ranks[rank].device.type == MMUL_DEVICE_GPU) {
            c->work[node] = c->work[node] < 0 ? core_rate(cost, node) : c->work[node];
            if (mmul_pass_rate(&cost->ranks[rank].pass) < c->work[node])
                absence = device_alone_suffices(cost, rank, c->work[node])
                              ? MMUL_EXCLUDED_SLOW_TRANSFERS
                              : MMUL_EXCLUDED_SLOW_DEVICE;
        }
        c->members->absence[rank] = absence;
        c->in[rank] = absence == MMUL_NOT_EXCLUDED;
    }
}

// ------------------------------------------------------------------------------------------- nodes

struct useful {
    int class, node; // class of its link, as in the chain
    double rate;
};

static int compare_usefulness(const void *a, const void *b) {
    const struct useful *x = a, *y = b;
    if (x->class != y->class)
        return x->class > y->class ? -1 : 1;
    if (x->rate != y->rate)
        return x->rate > y->rate ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

static enum mmul_status order_nodes(struct choice *c, struct mmul_error *err) {
    const struct mmul_cost *cost = c->cost;
    struct useful *useful = NULL;
    enum mmul_status status = MMUL_ALLOCATE(useful, cost->node_count, "candidates", err);
    if (status != MMUL_OK)
        return status;
    memset(c->work, 0, (size_t)cost->node_count * sizeof *c->work);
    for (int rank = 0; rank < cost->size; rank++)
        c->work[cost->ranks[rank].node] +=
            c->in[rank] ? mmul_pass_rate(&cost->ranks[rank].pass) : 0;
    for (int i = 0; i < cost->node_count; i++) {
        c->place[i] = -1;
        if (i != cost->root_node && c->work[i] > 0)
            useful[c->order_count++] =
                (struct useful){mmul_cost_link_class(cost->request.cluster, i), i, c->work[i]};
    }
    qsort(useful, (size_t)c->order_count, sizeof *useful, compare_usefulness);
    for (int i = 0; i < c->order_count; i++)
        c->place[c->order[i] = useful[i].node] = i;
    mmul_free(useful);
    return MMUL_OK;
}

// Admits the devices that are fast enough, of root's node and of the first `nodes` others.
static void admit_nodes(struct choice *c, int nodes) {
    for (int rank = 0; rank < c->cost->size; rank++)
        c->in[rank] = c->members->absence[rank] == MMUL_NOT_EXCLUDED &&
                      c->place[c->cost->ranks[rank].node] < nodes;
}

// Removes the nodes that get no units. Returns false if there are none.
static bool prune_empty_nodes(struct choice *c) {
    bool any = false;
    for (int i = 0; i < c->cost->node_count; i++)
        c->work[i] = 0;
    for (int rank = 0; rank < c->cost->size; rank++)
        c->work[c->cost->ranks[rank].node] += c->members->units[rank];
    for (int rank = 0; rank < c->cost->size; rank++) {
        int node = c->cost->ranks[rank].node;
        if (c->in[rank] && node != c->cost->root_node && c->work[node] < 0.5)
            c->in[rank] = false, any = true;
    }
    return any;
}

// Returns the seconds with the ranks in c->in, after removing nodes without units. 0: no shares.
static double solve_members(struct choice *c) {
    double seconds = 0;
    for (int i = 0; i < PRUNINGS; i++) {
        mmul_cost_set(c->cost, c->in, c->cut);
        seconds = mmul_balance(c->cost, c->total, c->capacity, c->members->units);
        if (!(seconds > 0) || !prune_empty_nodes(c))
            break;
    }
    return seconds;
}

// Tries the first `nodes` nodes and records the best number. Existing shares beat none.
static void try_node_count(struct choice *c, int nodes) {
    if (nodes < 0 || nodes > c->order_count)
        return;
    admit_nodes(c, nodes);
    double seconds = solve_members(c);
    if (seconds > 0 && (!(c->members->seconds > 0) || seconds < c->members->seconds)) {
        c->members->seconds = seconds;
        c->best = nodes;
    }
}

static void try_node_counts(struct choice *c) {
    if (c->order_count <= FEW_NODES) {
        for (int nodes = c->order_count - 1; nodes >= 0; nodes--)
            try_node_count(c, nodes);
        return;
    }
    for (int nodes = 0; nodes < c->order_count; nodes += mmul_max(1, nodes / 2))
        try_node_count(c, nodes);
    int pass = (int)mmul_max(1, c->best / 4);
    for (int i = 0; i < CLOSER_LOOKS / 2; i++, pass = (int)mmul_max(1, pass / 2)) {
        int best = c->best;
        try_node_count(c, best - pass);
        try_node_count(c, best + pass);
    }
}

static void choose_node_count(struct choice *c) {
    c->members->seconds = 0;
    try_node_count(c, c->order_count);
    double all = c->members->seconds;
    try_node_counts(c);
    if (all > 0 && c->members->seconds > WORTH_IT * all)
        c->best = c->order_count;
    admit_nodes(c, c->best);
    c->members->seconds = solve_members(c);
    for (int rank = 0; rank < c->cost->size; rank++) {
        if (c->members->absence[rank] == MMUL_NOT_EXCLUDED && !c->in[rank])
            c->members->absence[rank] = MMUL_EXCLUDED_SLOW_LINK;
        c->members->in[rank] = c->in[rank];
    }
}

enum mmul_status mmul_participants_choose(struct mmul_cost *cost, const struct mmul_cut *cut,
                                          double total, const int64_t *capacity,
                                          struct mmul_participants *members,
                                          struct mmul_error *err) {
    struct choice c = {
        .cost = cost, .cut = cut, .total = total, .capacity = capacity, .members = members};
    enum mmul_status status =
        MMUL_ALLOCATE_ALL("candidates", err, MMUL_ARRAY(c.order, cost->node_count),
                          MMUL_ARRAY(c.place, cost->node_count),
                          MMUL_ARRAY(c.work, cost->node_count), MMUL_ARRAY(c.in, cost->size));
    if (status == MMUL_OK) {
        mmul_cost_set(cost, NULL, cut);
        exclude_slow_devices(&c);
        status = order_nodes(&c, err);
    }
    if (status == MMUL_OK)
        choose_node_count(&c);
    MMUL_FREE_ALL(c.order, c.place, c.in, c.work);
    return status;
}

char *mmul_ranks_format(const bool *out, int size, char text[static 64]) {
    int count = 0, shown = 0, used = 0;
    for (int rank = 0; rank < size; rank++)
        count += out[rank];
    used = snprintf(text, 64, "rank%s", count == 1 ? "" : "s");
    for (int rank = 0; rank < size && shown < 6; rank++)
        if (out[rank])
            used += snprintf(text + used, (size_t)(64 - used), "%s%d", shown++ ? ", " : " ", rank);
    if (count > shown)
        snprintf(text + used, (size_t)(64 - used), " and %d more", count - shown);
    return text;
}
