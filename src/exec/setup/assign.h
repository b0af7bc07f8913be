// SPDX-License-Identifier: MIT
//
// Which rank of a node takes which device and which cores. A pure function of what the ranks of
// one node know; all of them compute the same.
//
// Ranks that name a device get it. The others take the node's usable GPUs in PCI order, one each,
// then the CPU. Ranks that compute on the CPU share the node's allowed cores in equal consecutive
// parts; one core per GPU rank is left for its waits when there are enough.
#pragma once

#include "host/topology.h"
#include "mpimatmul_local.h"

// What one rank of the node brings. Plain data: sent as bytes.
struct mmul_assign_request {
    char device[128]; // "auto", "cpu", "gpu:1", ...; see mmul_context_options
    struct mmul_cpuset own;
    bool user_binding, no_bind;
    int threads; // 0: its share
    int rank;    // world rank, for notes
};

struct mmul_assignment {
    char device[128]; // for mmul_device_open
    int device_index; // in the node's devices; -1: the CPU
    bool chosen;      // by `auto`: may be replaced by the CPU when it does not open
    bool bind;        // to `cores`
    struct mmul_cpuset cores;
    int threads;
    struct mmul_cpuset fallback_cores; // for the CPU, when it has to take over from a GPU: the
    int fallback_threads;              // rank's share if all ranks were on the CPU
    char note[128];
};

// A node: what it has and what its ranks bring, in their order. All borrowed.
struct mmul_assign_node {
    const struct mmul_topology *topology;
    const struct mmul_device_info *devices;
    int device_count;
    const struct mmul_assign_request *requests; // ranks
    int ranks;
};

// assignments: one per rank of the node.
// Fails for the lowest rank whose wish cannot be met: MMUL_ERR_UNAVAILABLE (absent), MMUL_ERR_USAGE
// (not a device name).
enum mmul_status mmul_assign(const struct mmul_assign_node *node,
                             struct mmul_assignment *assignments, struct mmul_error *err);

// What a device file says of a rank.
struct mmul_assign_line {
    char device[128];
    double weight; // negative: the line has none
};

// Lines `host device[,device...] [weight]` (# comments): that of the node_rank-th rank on `host`.
// Fails with MMUL_ERR_DATA: malformed line, host not listed, fewer devices than ranks.
enum mmul_status mmul_assign_from_file(const char *text, const char *path, const char *host,
                                       int node_rank, struct mmul_assign_line *line,
                                       struct mmul_error *err);
