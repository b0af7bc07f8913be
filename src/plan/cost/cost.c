// SPDX-License-Identifier: MIT
// Computes the cost of links and passes. replay.c predicts the time of every event from it.
#include "plan/cost/cost.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"

// ---------------------------------------------------------------------------------------- creating

struct mmul_link mmul_cost_root_link(const struct mmul_cluster *cluster, int node) {
    struct mmul_link link = cluster->nodes[node].root_link;
    if (!(link.bytes_per_second > 0))
        link.bytes_per_second = MMUL_LINK_BYTES_PER_SECOND;
    if (!(link.latency_seconds > 0))
        link.latency_seconds = MMUL_LINK_LATENCY_SECONDS;
    return link;
}

int mmul_cost_link_class(const struct mmul_cluster *cluster, int node) {
    return (int)lround(log(mmul_cost_root_link(cluster, node).bytes_per_second) / log(1.25));
}

static unsigned maps_of(const struct mmul_cost *cost, int node) {
    return cost->request.node_maps ? cost->request.node_maps[node] : 0;
}

static bool maps_whole_operand(const struct mmul_cost *cost, int node) {
    return maps_of(cost, node) & mmul_maps_whole_operand(cost->request.axis);
}

// Returns the seconds per byte of root's file. It runs beside the link; the slower one counts.
static double file_seconds_per_byte(const struct mmul_cost *cost) {
    unsigned maps = maps_of(cost, cost->root_node), all = MMUL_MAPS_A | MMUL_MAPS_B | MMUL_MAPS_C;
    return (maps & all) == all ? MMUL_FIRST_TOUCH_SECONDS_PER_BYTE : 1 / MMUL_FILE_BYTES_PER_SECOND;
}

// Sets the seconds per byte of traffic that the computation of a leader loses, spread over its
// threads: CPU seconds as measured, else as assumed. Root also loses the cost of files, because the
// same threads read the bytes that leave and write the bytes that return.
static void set_traffic_losses(struct mmul_cost *cost, int index) {
    struct mmul_cost_node *node = &cost->nodes[index];
    const struct mmul_node_info *info = &cost->request.cluster->nodes[index];
    const struct mmul_rank_info *leader = &cost->request.cluster->ranks[info->leader];
    const struct mmul_speed *speed = &leader->speed;
    bool has_idle_cores = info->cores_allowed > 0 && node->cpu_threads < info->cores_allowed;
    double share = leader->host_memory && !has_idle_cores ? 1 : 0;
    node->share = share /= leader->threads > 1 ? leader->threads : 1;
    node->duplex = speed->duplex > 0 ? speed->duplex : 1;
    node->sending = node->receiving = share * MMUL_NETWORK_CPU_SECONDS_PER_BYTE;
    if (speed->send_seconds_per_byte > 0 && speed->receive_seconds_per_byte > 0) {
        node->sending = speed->send_seconds_per_byte;
        node->receiving = speed->receive_seconds_per_byte;
    }
    if (index == cost->root_node) {
        node->sending += share * file_seconds_per_byte(cost);
        node->receiving += share * file_seconds_per_byte(cost);
    }
}

struct place {
    int class, node; // faster links have a higher class
};

static int compare_by_link(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    if (x->class != y->class)
        return x->class > y->class ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

// Orders nodes by class, fastest first. Within a class neighbours stay neighbours.
static enum mmul_status order_chain(struct mmul_cost *cost, struct mmul_error *err) {
    struct place *places = NULL;
    int count = 0;
    enum mmul_status status = MMUL_ALLOCATE(places, cost->node_count, "the chain", err);
    if (status != MMUL_OK)
        return status;
    for (int i = 0; i < cost->node_count; i++)
        if (i != cost->root_node)
            places[count++] = (struct place){mmul_cost_link_class(cost->request.cluster, i), i};
    qsort(places, (size_t)count, sizeof *places, compare_by_link);
    for (int i = 0; i < count; i++)
        cost->chain[i] = places[i].node;
    mmul_free(places);
    return MMUL_OK;
}

static void fill_nodes(struct mmul_cost *cost) {
    const struct mmul_cluster *cluster = cost->request.cluster;
    for (int rank = 0; rank < cost->size; rank++) {
        const struct mmul_rank_info *info = &cluster->ranks[rank];
        cost->ranks[rank].node = info->node;
        if (info->host_memory)
            cost->nodes[info->node].cpu_threads += info->threads > 1 ? info->threads : 1;
    }
    for (int i = 0; i < cost->node_count; i++)
        set_traffic_losses(cost, i);
}

enum mmul_status mmul_cost_create(const struct mmul_cost_request *request, struct mmul_cost **cost,
                                  struct mmul_error *err) {
    struct mmul_cost *made = NULL;
    int size = request->cluster->size, nodes = request->cluster->node_count;
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "the cost model", err);
    if (status != MMUL_OK)
        return status;
    *made = (struct mmul_cost){.request = *request,
                               .size = size,
                               .node_count = nodes,
                               .root_node = request->cluster->ranks[0].node};
    status = MMUL_ALLOCATE_ALL("the cost model", err, MMUL_ARRAY(made->ranks, size),
                               MMUL_ARRAY(made->nodes, nodes), MMUL_ARRAY(made->chain, nodes));
    if (status == MMUL_OK)
        status = order_chain(made, err);
    if (status == MMUL_OK) {
        fill_nodes(made);
        *cost = made;
    } else {
        mmul_cost_destroy(made);
    }
    return status;
}

void mmul_cost_destroy(struct mmul_cost *cost) {
    if (cost == NULL)
        return;
    MMUL_FREE_ALL(cost->ranks, cost->nodes, cost->chain, cost);
}

// ----------------------------------------------------------------------------------------- setting

static struct mmul_pass_cost find_pass_cost(const struct mmul_cost *cost, int rank) {
    const struct mmul_cost_request *r = &cost->request;
    const struct mmul_pass_request pass = {.problem = r->problem,
                                           .axis = r->axis,
                                           .cut = &cost->cut,
                                           .rank = &r->cluster->ranks[rank],
                                           .assumed_flops = r->assumed ? r->assumed[rank] : 0,
                                           .maps = maps_of(cost, cost->ranks[rank].node),
                                           .value_maps = r->value_maps};
    return mmul_pass_cost(&pass);
}

// Returns the link between two successive nodes of the chain.
static struct mmul_link link_between(const struct mmul_cost *cost, int from, int to) {
    const struct mmul_cluster *cluster = cost->request.cluster;
    struct mmul_link link = mmul_cost_root_link(cluster, to), other;
    if (from == cost->root_node)
        return link;
    other = cluster->nodes[from].ring_link;
    if (other.bytes_per_second > 0 && (from + 1) % cost->node_count == to)
        return other;
    // Through one switch the slower link counts.
    other = mmul_cost_root_link(cluster, from);
    if (other.bytes_per_second < link.bytes_per_second)
        link.bytes_per_second = other.bytes_per_second;
    if (other.latency_seconds > link.latency_seconds)
        link.latency_seconds = other.latency_seconds;
    return link;
}

// Returns the seconds of a panel on a hop. Root may have to read it first.
static double panel_hop_seconds(const struct mmul_cost *cost, int from, struct mmul_link link) {
    double each = 1 / link.bytes_per_second;
    if (from == cost->root_node && !maps_whole_operand(cost, from) &&
        each < 1 / MMUL_FILE_BYTES_PER_SECOND)
        each = 1 / MMUL_FILE_BYTES_PER_SECOND;
    return cost->panel_bytes * each;
}

static void set_chain(struct mmul_cost *cost) {
    int from = cost->root_node, place = 0;
    double packets = cost->panel_bytes / MMUL_PACKET_BYTES, passed = 0, gap = 0;
    packets = packets > 1 ? packets : 1;
    cost->last_in_chain = -1;
    for (int i = 0; i < cost->node_count - 1; i++) {
        struct mmul_cost_node *node = &cost->nodes[cost->chain[i]];
        if (!node->takes_panels)
            continue;
        struct mmul_link link = link_between(cost, from, cost->chain[i]);
        double seconds = panel_hop_seconds(cost, from, link);
        node->begins = passed + link.latency_seconds;
        passed += seconds / packets + link.latency_seconds;
        node->gap = gap = seconds > gap ? seconds : gap;
        node->chain_place = ++place;
        cost->last_in_chain = from = cost->chain[i];
    }
}

static void set_nodes(struct mmul_cost *cost) {
    double file = file_seconds_per_byte(cost);
    for (int i = 0; i < cost->node_count; i++) {
        struct mmul_cost_node *node = &cost->nodes[i];
        node->link = 1 / mmul_cost_root_link(cost->request.cluster, i).bytes_per_second;
        node->link = node->link > file ? node->link : file;
        node->remote = i != cost->root_node;
        node->takes_panels =
            node->in && node->remote && cost->panel_bytes > 0 && !maps_whole_operand(cost, i);
        node->gap = node->begins = 0;
        node->chain_place = 0;
    }
    set_chain(cost);
}

void mmul_cost_set(struct mmul_cost *cost, const struct mmul_cut *cut) {
    const struct mmul_problem *p = cost->request.problem;
    enum mmul_axis axis = cost->request.axis;
    double matrices = (double)mmul_problem_whole_matrices(p, axis);
    cost->cut = *cut;
    cost->rounds = (double)cut->rounds;
    cost->passes = cost->rounds * (double)cut->panels;
    cost->panel_bytes = matrices * (double)mmul_problem_result_width(p, axis) *
                        (double)mmul_problem_whole_unit_bytes(p, axis) / (double)cut->panels;
    for (int i = 0; i < cost->node_count; i++)
        cost->nodes[i].in = false;
    for (int rank = 0; rank < cost->size; rank++) {
        cost->ranks[rank].pass = find_pass_cost(cost, rank);
        cost->nodes[cost->ranks[rank].node].in |= cost->ranks[rank].pass.knots > 0;
    }
    set_nodes(cost);
}

void mmul_cost_set_counts(struct mmul_cost *cost, const int64_t *counts) {
    for (int i = 0; i < cost->node_count; i++)
        cost->nodes[i].in = false;
    for (int rank = 0; rank < cost->size; rank++)
        cost->nodes[cost->ranks[rank].node].in |= counts[rank] > 0;
    set_nodes(cost);
}
