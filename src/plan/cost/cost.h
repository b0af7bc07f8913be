// SPDX-License-Identifier: MIT
//
// The cost model: what links, passes and traffic cost, and a run's seconds in closed form, the same for one
// rank and for thousands, which can be solved for shares; plan/replay/replay.h then says when everything
// happens. Pure. Everything begins at root: rows go out and results come back through its link.
//
// Ranks r of nodes i with x_r units, in R rounds of W panels; N = R W passes. Q = 1 where panels
// stay and cross the network once, else R. b_A: bytes of the split operand and of C_in per unit,
// b_C: bytes of C per unit; B_i: bytes per second of root's link with node i.
//
//   tau_r   seconds of a pass of x_r / R units                                    (pass_cost.h)
//   S       sum over other nodes of units / B_i: through root's link one after another
//   pieces  T_A = b_A S; a round's are there after T_A / R, all after T_A
//   panels  follow along a chain of leaders, fastest link first, in P packets each: with
//           t_h = panel bytes / rate of hop h, latency l_h, and H_i the hops from root to node i,
//             gap_i = max over H_i of t_h
//             first_i = sum over H_i of (t_h / P + l_h) + (1 - 1/P) gap_i
//           panel w of round 0 is at node i at T_A / R + first_i + w gap_i, the last of all at
//           T_A + first_i + (Q W - 1) gap_i
//   result  D = b_C S comes back, G = D / N of it after the last pass
//   finish  f_r = max(first + N tau_r, last + tau_r) + stolen_i + G, at least first block + D:
//           the link from the nodes is no faster than the one to them
//   stolen  traffic costs CPU: so many seconds of every byte that a leader sends, and receives, as
//           measured beside its computing; else MMUL_NETWORK_CPU_SECONDS_PER_BYTE, spread over its
//           threads, where it computes on a CPU without idle cores; there root's leader loses as
//           much again for reading what it sends, and writing what returns, as files cost
//
// Ranks of root's node begin at once (where it maps the whole operand; else panels come from the
// file) and have no G. Nodes that map an operand or C move none of it. Where there are several
// whole matrices a rank waits for its own: `from` and `to` below.
#pragma once

#include "plan/cost/pass_cost.h"

// Assumed until links are measured: 1 Gbit/s and 100 microseconds.
#define MMUL_LINK_BYTES_PER_SECOND 125e6
#define MMUL_LINK_LATENCY_SECONDS  100e-6
// Scatter and gather: a message asks whether it may come, and is answered, when the other side looks: half of its
// naps (exec/setup/pipeline.c), twice. Panels follow each other, so that theirs is hidden.
#define MMUL_ATTENDED_SECONDS 2e-3

// Assumed too, of TCP over Ethernet at either end, with reading, copying and the checksum: 1.2 ns on emulated
// cables whose cards cut packets themselves (cores of about 3 GHz).
#define MMUL_NETWORK_CPU_SECONDS_PER_BYTE 1e-9

struct mmul_cost_request {
    const struct mmul_problem *problem; // borrowed, like all of it, until destroy
    enum mmul_axis axis;
    const struct mmul_cluster *cluster;
    const unsigned *node_maps; // enum mmul_maps per node; NULL: none
    unsigned value_maps;       // of these what is a value on every node
    const double *assumed;     // operations per second where a rank's are not measured; NULL: none
};

struct mmul_cost_rank {
    int node;
    bool in; // may have units
    struct mmul_pass_cost pass;
    double from, to;       // share of the panels before its first and up to its last one
    double stolen_seconds; // of a leader
    double finish;         // of the last evaluation; 0: no units
};

struct mmul_cost_node {
    bool in, remote;
    bool takes_pieces, takes_panels, returns; // over the network
    int chain_place;                          // 1, 2, ... ; 0: no panels come here
    double link;                              // 1 / B_i, seconds per byte
    double begins;                            // of panels: after root began to send
    double first, gap;                        // of panels
    double share;                             // of the main thread's seconds, that its leader loses
    double sending, receiving;                // seconds its leader loses per byte of traffic
    double duplex;                            // of its link's rate while bytes go both ways
    double units;                             // of all its ranks, when last summed
    int cpu_threads;                          // of its ranks that compute in host memory
};

// Filled in by mmul_cost_create and mmul_cost_set; the last lines by mmul_cost_couple.
struct mmul_cost {
    struct mmul_cost_request request;
    struct mmul_cut cut;
    int size, node_count, root_node;
    int last_in_chain;            // a node; -1: no chain
    struct mmul_cost_rank *ranks; // owned
    struct mmul_cost_node *nodes; // owned
    int *chain;                   // other nodes, fastest first; owned
    double passes, rounds;        // N, R
    double sendings;              // Q W
    double passes_after;      // that follow the last arrival: 1, or W where only pieces come last
    double piece_bytes;       // b_A
    double result_bytes;      // b_C
    double panel_bytes;       // mean
    double taking, returning; // shares of S that take pieces, return results
    double seconds;           // of the last evaluation
    double root_out_bytes, root_in_bytes;
};

enum mmul_status mmul_cost_create(const struct mmul_cost_request *request, struct mmul_cost **cost,
                                  struct mmul_error *err);
void mmul_cost_destroy(struct mmul_cost *cost);

// Who may have units (`in`: one per rank; NULL: all), and how the work is cut. Allocates nothing.
void mmul_cost_set(struct mmul_cost *cost, const bool *in, const struct mmul_cut *cut);

// What depends on the shares but weakly (CPU seconds stolen, order of panels), from `units` per
// rank.
void mmul_cost_couple(struct mmul_cost *cost, const double *units);

// Pieces, result and last blocks for a given S.
struct mmul_cost_links {
    double pieces, result, last_blocks; // T_A, D, G
};
struct mmul_cost_links mmul_cost_links(const struct mmul_cost *cost, double s);

// The earliest and the last arrival at a rank.
struct mmul_cost_arrival {
    double first, last;
};
struct mmul_cost_arrival mmul_cost_arrival(const struct mmul_cost *cost, int rank,
                                           struct mmul_cost_links links);

// Units with which a rank ends at `seconds`, the link from the nodes apart.
double mmul_cost_units(const struct mmul_cost *cost, int rank, struct mmul_cost_links links,
                       double seconds);

// When the first block that comes back over the network is complete, of ranks with a part of these units;
// INFINITY: none does.
double mmul_cost_first_block(const struct mmul_cost *cost, const double *units, double part,
                             struct mmul_cost_links links);

// Couples, then sums up the whole run: returns the seconds and fills in what says "of the last
// evaluation". Ranks that are not in have no units.
double mmul_cost_evaluate(struct mmul_cost *cost, const double *units);

// A link as measured, or as assumed.
struct mmul_link mmul_cost_root_link(const struct mmul_cluster *cluster, int node);

// The pass of a rank, with the files of root's node shared by so many (0: without them).
struct mmul_pass_cost mmul_cost_pass(const struct mmul_cost *cost, int rank, int file_ranks);

// Links within about a quarter of each other have the same class; faster ones a higher one.
int mmul_cost_link_class(const struct mmul_cluster *cluster, int node);
