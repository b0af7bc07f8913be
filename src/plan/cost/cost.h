// SPDX-License-Identifier: MIT
//
// The cost model of a product: seconds of passes, links, the relay chain and the CPU cost of
// traffic, for a cut and its members. plan/replay/replay.h computes the time of every event from
// them. Pure.
//
// A panel follows the relay chain of leaders, fastest link first, in P packets. With t_h = panel
// bytes / rate of hop h, latency l_h, and H_i the hops from root to node i:
//
//     begins_i = sum over H_i, own hop's t_h excepted, of (t_h / P + l_h)
//     gap_i    = max over H_i of t_h
//
// CPU of traffic: seconds per byte that a leader sends and receives, as measured beside its
// computation; else MMUL_NETWORK_CPU_SECONDS_PER_BYTE, spread over its threads, if it computes on a
// CPU without idle cores. Then root's leader also loses the cost of files: it reads the bytes that
// it sends and writes the bytes that return.
//
// A node transfers nothing of an operand or C that it maps.
#pragma once

#include "plan/cost/pass_cost.h"

// Assumed until links are measured: 1 Gbit/s and 100 microseconds.
#define MMUL_LINK_BYTES_PER_SECOND 125e6
#define MMUL_LINK_LATENCY_SECONDS  100e-6
// Latency of a message of a scatter or gather: its request and its reply each wait for half a sleep
// interval of the other side (exec/threads/compute_thread.c). Panels follow each other and hide
// this latency.
#define MMUL_RENDEZVOUS_SECONDS 2e-3

// Assumed for TCP over Ethernet at either end, with reading, copying and the checksum. Measured on
// emulated cables with cards that segment packets themselves (cores of about 3 GHz): 1.2 ns.
#define MMUL_NETWORK_CPU_SECONDS_PER_BYTE 1e-9

struct mmul_cost_request {
    const struct mmul_problem *problem; // borrowed until destroy, like all pointers here
    enum mmul_axis axis;
    const struct mmul_cluster *cluster;
    const unsigned *node_maps; // enum mmul_maps per node; NULL: none
    unsigned value_maps;       // the maps that are values, on every node
    const double *assumed;     // operations per second of unmeasured ranks; NULL: none
};

struct mmul_cost_rank {
    int node;
    struct mmul_pass_cost pass;
};

struct mmul_cost_node {
    bool in, remote;   // in: its ranks have units
    bool takes_panels; // over the network
    int chain_place;   // 1, 2, ... ; 0: no panels come here
    double link;       // seconds per byte of root's link to it, files included
    // Arrival of the first panel's first byte, after root began to send.
    double begins;
    double gap;                // seconds between panels
    double share;              // share of the main thread's seconds that its leader loses
    double sending, receiving; // seconds its leader loses per byte of traffic
    double duplex;             // share of the link's rate while bytes go both ways
    int cpu_threads;           // threads of its ranks that compute in host memory
};

struct mmul_cost {
    struct mmul_cost_request request;
    struct mmul_cut cut;
    int size, node_count, root_node;
    int last_in_chain;            // node; -1: no chain
    struct mmul_cost_rank *ranks; // owned
    struct mmul_cost_node *nodes; // owned
    int *chain;                   // other nodes, fastest first; owned
    double passes, rounds;        // all passes; rounds
    double panel_bytes;           // mean
};

enum mmul_status mmul_cost_create(const struct mmul_cost_request *request, struct mmul_cost **cost,
                                  struct mmul_error *err);
void mmul_cost_destroy(struct mmul_cost *cost);

// Sets the cut of the work, with all ranks. Allocates nothing.
void mmul_cost_set(struct mmul_cost *cost, const struct mmul_cut *cut);

// Takes the nodes whose ranks have no units out of the relay chain. counts: units per rank.
void mmul_cost_set_counts(struct mmul_cost *cost, const int64_t *counts);

// Returns a link as measured, or as assumed.
struct mmul_link mmul_cost_root_link(const struct mmul_cluster *cluster, int node);

// Returns the class of a link. Links within about a quarter of each other share a class; faster
// links have a higher one.
int mmul_cost_link_class(const struct mmul_cluster *cluster, int node);
