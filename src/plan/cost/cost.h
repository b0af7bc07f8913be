// SPDX-License-Identifier: MIT
//
// The cost model of a product: seconds of links, passes and traffic, and of a whole run in closed
// form. The form is the same for one rank and for thousands, and can be solved for shares.
// plan/replay/replay.h predicts the time of every event afterwards. Pure. Everything begins at
// root: rows go out and results come back through its link.
//
// Ranks r of nodes i have x_r units, in R rounds of W panels; N = R W passes. Q = 1 if panels stay
// and cross the network once, else R. b_A: bytes of the split operand and of C_in per unit. b_C:
// bytes of C per unit. B_i: bytes per second of root's link to node i.
//
//   tau_r   seconds of a pass of x_r / R units                                    (pass_cost.h)
//   S       sum over other nodes of units / B_i: through root's link one after another
//   pieces  T_A = b_A S; those of a round have arrived after T_A / R, all after T_A
//   panels  follow along a chain of leaders, fastest link first, in P packets each: with
//           t_h = panel bytes / rate of hop h, latency l_h, and H_i the hops from root to node i,
//             gap_i = max over H_i of t_h
//             first_i = sum over H_i of (t_h / P + l_h) + (1 - 1/P) gap_i
//           panel w of round 0 is at node i at T_A / R + first_i + w gap_i, the last of all at
//           T_A + first_i + (Q W - 1) gap_i
//   result  D = b_C S comes back, G = D / N of it after the last pass
//   finish  f_r = max(first + N tau_r, last + tau_r) + stolen_i + G, at least first block + D:
//           the link from the nodes is no faster than the link to them
//   stolen  CPU seconds per byte that a leader sends and receives, as measured beside its
//           computation; else MMUL_NETWORK_CPU_SECONDS_PER_BYTE, spread over its threads, if it
//           computes on a CPU without idle cores. Then root's leader also loses the cost of
//           files: it reads the bytes that it sends and writes the bytes that return
//
// Ranks of root's node begin at once (if the node maps the whole operand; else panels come from the
// file) and have no G. A node transfers nothing of an operand or C that it maps. With several whole
// matrices a rank waits for its own: `from` and `to` below.
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
    bool in; // may have units
    struct mmul_pass_cost pass;
    double from, to;            // share of the panels before its first and up to its last one
    double traffic_cpu_seconds; // seconds that a leader loses to traffic
    double finish;              // from the last evaluation; 0: no units
};

struct mmul_cost_node {
    bool in, remote;
    bool takes_pieces, takes_panels, returns; // over the network
    int chain_place;                          // 1, 2, ... ; 0: no panels come here
    double link;                              // 1 / B_i, seconds per byte
    // Arrival of the first panel's first byte, after root began to send.
    double begins;
    double first, gap;         // arrival of the first panel; time between panels
    double share;              // share of the main thread's seconds that its leader loses
    double sending, receiving; // seconds its leader loses per byte of traffic
    double duplex;             // share of the link's rate while bytes go both ways
    double units;              // units of all its ranks, when last summed
    int cpu_threads;           // threads of its ranks that compute in host memory
};

// mmul_cost_create and mmul_cost_set fill in this struct, mmul_cost_couple its last lines.
struct mmul_cost {
    struct mmul_cost_request request;
    struct mmul_cut cut;
    int size, node_count, root_node;
    int last_in_chain;            // node; -1: no chain
    struct mmul_cost_rank *ranks; // owned
    struct mmul_cost_node *nodes; // owned
    int *chain;                   // other nodes, fastest first; owned
    double passes, rounds;        // N, R
    double panel_sends;           // Q W
    // Passes behind the last arrival: 1, or W if only pieces come last.
    double passes_after;
    double piece_bytes;       // b_A
    double result_bytes;      // b_C
    double panel_bytes;       // mean
    double taking, returning; // shares of S that take pieces, return results
    double seconds;           // from the last evaluation
    double root_out_bytes, root_in_bytes;
};

enum mmul_status mmul_cost_create(const struct mmul_cost_request *request, struct mmul_cost **cost,
                                  struct mmul_error *err);
void mmul_cost_destroy(struct mmul_cost *cost);

// Sets the ranks that may have units (`in`: one flag per rank; NULL: all) and the cut of the work.
// Allocates nothing.
void mmul_cost_set(struct mmul_cost *cost, const bool *in, const struct mmul_cut *cut);

// Computes, from `units` per rank, the terms that depend weakly on the shares: stolen CPU seconds
// and the order of panels.
void mmul_cost_couple(struct mmul_cost *cost, const double *units);

// Seconds of the links for a given S: pieces, result and last blocks.
struct mmul_cost_links {
    double pieces, result, last_blocks; // T_A, D, G
};
struct mmul_cost_links mmul_cost_links(const struct mmul_cost *cost, double s);

// Earliest and last arrival of panels at a rank.
struct mmul_cost_arrival {
    double first, last;
};
struct mmul_cost_arrival mmul_cost_arrival(const struct mmul_cost *cost, int rank,
                                           struct mmul_cost_links links);

// Returns the units with which a rank ends at `seconds`, ignoring the link from the nodes.
double mmul_cost_units(const struct mmul_cost *cost, int rank, struct mmul_cost_links links,
                       double seconds);

// Returns the time when the first block that returns over the network is complete, for ranks with a
// `part` of these units. INFINITY: no block returns.
double mmul_cost_first_block(const struct mmul_cost *cost, const double *units, double part,
                             struct mmul_cost_links links);

// Couples, then evaluates the whole run. Returns its seconds and fills in the fields "from the last
// evaluation". Ranks that are not in have no units.
double mmul_cost_evaluate(struct mmul_cost *cost, const double *units);

// Returns a link as measured, or as assumed.
struct mmul_link mmul_cost_root_link(const struct mmul_cluster *cluster, int node);

// Returns the pass cost of a rank if `file_ranks` ranks share the files of root's node (0: no
// files).
struct mmul_pass_cost mmul_cost_pass(const struct mmul_cost *cost, int rank, int file_ranks);

// Returns the class of a link. Links within about a quarter of each other share a class; faster
// links have a higher one.
int mmul_cost_link_class(const struct mmul_cluster *cluster, int node);
