// SPDX-License-Identifier: MIT
// An event-driven simulation of a run: pieces one after another through root's link, panels packet
// by packet along the chain, steps, and blocks on their way back. Independent of src/plan except
// for the chain's order.
#pragma once

#include <math.h>
#include <stdlib.h>

#include "clusters.h"
#include "plan/cost/cost.h"

enum { RANKS_MOST = 64, PANELS_MOST = 64 };

// --------------------------------------------------------------------------------------- clusters

static uint64_t state_of_random;

static inline double random_between(double low, double high) {
    state_of_random = state_of_random * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(state_of_random >> 11) * 0x1p-53;
}

// Makes CPUs of 100 GFLOP/s; links of `gbit` with 50 us.
static inline struct mmul_cluster *make_linked_cluster(int size, int per_node, double gbit) {
    struct mmul_cluster *cluster = make_cluster(size, per_node);
    for (int rank = 0; rank < size; rank++) {
        cluster->ranks[rank].threads = 4;
        cluster->ranks[rank].speed_flops = 1e11;
    }
    for (int node = 0; node < cluster->node_count; node++) {
        cluster->nodes[node].cores_allowed = 64; // idle cores: traffic takes no compute time
        cluster->nodes[node].root_link = (struct mmul_link){gbit * 125e6, 50e-6};
    }
    return cluster;
}

// Speeds from 50 GFLOP/s to 5 TFLOP/s, some devices with memory of their own, links 10 to 100
// Gbit/s.
static inline struct mmul_cluster *random_cluster(int size) {
    struct mmul_cluster *cluster = make_linked_cluster(size, 1 + (int)random_between(0, 4), 10);
    for (int rank = 0; rank < size; rank++) {
        struct mmul_rank_info *r = &cluster->ranks[rank];
        r->speed_flops = 5e10 * pow(10, random_between(0, 2));
        r->host_memory = random_between(0, 1) < 0.6;
        if (!r->host_memory)
            r->speed.upload_bytes_per_second = r->speed.download_bytes_per_second =
                random_between(4e9, 2e10);
    }
    for (int node = 0; node < cluster->node_count; node++)
        cluster->nodes[node].root_link =
            (struct mmul_link){1.25e9 * pow(10, random_between(0, 1)), random_between(1e-5, 1e-4)};
    return cluster;
}

// -------------------------------------------------------------------------- a run, event by event

struct played {
    const struct mmul_cost *cost;
    const double *units;
    double link_free, end;
    double pieces;                           // time at which all of them have arrived
    double arrival[RANKS_MOST][PANELS_MOST]; // arrival of each panel at each node
    double block[RANKS_MOST][PANELS_MOST];   // completion of each node's block
};

static inline double width_of(const struct mmul_cost *cost, int panel) {
    double all = (double)cost->request.problem->n, begin = panel * (double)cost->cut.panel_units;
    return fmin(begin + (double)cost->cut.panel_units, all) - begin;
}

static inline double node_units(const struct played *p, int node) {
    double units = 0;
    for (int rank = 0; rank < p->cost->size; rank++)
        units += p->cost->request.cluster->ranks[rank].node == node ? p->units[rank] : 0;
    return units;
}

static inline void play_pieces(struct played *p) {
    for (int node = 1; node < p->cost->node_count; node++)
        p->link_free += node_units(p, node) * 4 * (double)p->cost->request.problem->k /
                        p->cost->request.cluster->nodes[node].root_link.bytes_per_second;
    p->pieces = p->link_free;
}

static inline struct mmul_link link_of_hop(const struct mmul_cluster *cluster, int from, int to) {
    struct mmul_link link = cluster->nodes[to].root_link, other = cluster->nodes[from].root_link;
    if (from != 0) {
        link.bytes_per_second = fmin(link.bytes_per_second, other.bytes_per_second);
        link.latency_seconds = fmax(link.latency_seconds, other.latency_seconds);
    }
    return link;
}

static inline int node_at(const struct mmul_cost *cost, int place) {
    int node = 1;
    while (node < cost->node_count && cost->nodes[node].chain_place != place)
        node++;
    return node;
}

// Relays packets one by one along the nodes in the model's order; a hop carries one at a time.
static inline void play_panels(struct played *p) {
    const struct mmul_cluster *cluster = p->cost->request.cluster;
    double free[RANKS_MOST] = {p->pieces}; // time at which each hop is free
    for (int panel = 0; panel < p->cost->cut.panels; panel++) {
        double left = 4 * (double)p->cost->request.problem->k * width_of(p->cost, panel);
        for (double bytes; left > 0; left -= bytes) {
            double there = 0;
            bytes = fmin(left, MMUL_PACKET_BYTES);
            for (int place = 1, from = 0; place < p->cost->node_count; place++) {
                int to = node_at(p->cost, place);
                if (to == p->cost->node_count) // end of the chain
                    break;
                struct mmul_link link = link_of_hop(cluster, from, to);
                free[place - 1] = fmax(free[place - 1], there) + bytes / link.bytes_per_second;
                there = free[place - 1] + link.latency_seconds;
                p->arrival[to][panel] = there;
                from = to;
            }
        }
    }
}

static inline double step_seconds(const struct played *p, int rank, double width) {
    const struct mmul_rank_info *info = &p->cost->request.cluster->ranks[rank];
    double x = p->units[rank], k = (double)p->cost->request.problem->k;
    double all = (double)p->cost->request.problem->n;
    double wide = info->node == 0 ? all : width; // root's node multiplies by all panels at once
    double side = fmin(64, 3 / (1 / x + 1 / wide + 1 / k));
    double seconds = 150e-6 * width / wide + 2 * x * width * k / (info->speed_flops * side / 64) +
                     4 * (k * width + x * k * width / wide + x * width) / 4e9;
    if (!info->host_memory)
        seconds += 4 * (k * width + x * k / (double)p->cost->cut.panels + x * width) /
                   info->speed.upload_bytes_per_second;
    return seconds + (info->node == 0 ? 0.35e-9 * 4 * x * width : 0);
}

static inline void play_steps(struct played *p) {
    for (int rank = 0; rank < p->cost->size; rank++) {
        int node = p->cost->request.cluster->ranks[rank].node;
        double now = node == 0 ? 0 : p->pieces;
        for (int panel = 0; p->units[rank] > 0 && panel < p->cost->cut.panels; panel++) {
            now = fmax(now, node == 0 ? 0 : p->arrival[node][panel]) +
                  step_seconds(p, rank, width_of(p->cost, panel));
            p->block[node][panel] = fmax(p->block[node][panel], now);
        }
        p->end = node == 0 ? fmax(p->end, now) : p->end;
    }
}

static inline void play_results(struct played *p) {
    double free = 0;
    for (int panel = 0; panel < p->cost->cut.panels; panel++)
        for (int node = 1; node < p->cost->node_count; node++)
            if (p->block[node][panel] > 0)
                free = fmax(free, p->block[node][panel]) +
                       4 * node_units(p, node) * width_of(p->cost, panel) /
                           p->cost->request.cluster->nodes[node].root_link.bytes_per_second;
    p->end = fmax(p->end, free);
}

static inline double simulate_run(const struct mmul_cost *cost, const double *units) {
    struct played *p = calloc(1, sizeof *p);
    p->cost = cost;
    p->units = units;
    play_pieces(p);
    play_panels(p);
    play_steps(p);
    play_results(p);
    double end = p->end;
    free(p);
    return end;
}
