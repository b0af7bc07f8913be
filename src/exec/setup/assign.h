// SPDX-License-Identifier: MIT
//
// Assigns devices and cores to the ranks of a node. The assignment is a pure function of data that
// all ranks of the node have, so they all compute the same one.
//
// Ranks that name a device get it. The others take the node's usable GPUs in PCI order, one each,
// then the CPU. Ranks that compute on the CPU share the node's allowed cores in equal consecutive
// parts. One core per GPU rank is reserved for its waits if there are enough cores.
#pragma once

#include "host/topology.h"
#include "mpimatmul_local.h"

// Request of one rank of the node. Plain data: sent as bytes.
struct mmul_assign_request {
    char device[128]; // "auto", "cpu", "gpu:1", ...; see mmul_context_options
    struct mmul_cpuset own;
    bool user_binding, no_bind;
    int threads; // 0: the rank's share of the cores
    int rank;    // world rank, for notes
};

struct mmul_assignment {
    char device[128]; // name for mmul_device_open
    int device_index; // index into the node's devices; -1: the CPU
    bool chosen;      // chosen by `auto`: the CPU replaces the device if it fails to open
    bool bind;        // bind the process to `cores`
    struct mmul_cpuset cores;
    int threads;
    // Cores and threads for a fallback from a GPU to the CPU: the rank's share if all ranks
    // computed on the CPU.
    struct mmul_cpuset fallback_cores;
    int fallback_threads;
    char note[128];
};

// Node with its topology, devices and the requests of its ranks, in rank order. All pointers are
// borrowed.
struct mmul_assign_node {
    const struct mmul_topology *topology;
    const struct mmul_device_info *devices;
    int device_count;
    const struct mmul_assign_request *requests; // one per rank
    int ranks;
};

// Fills `assignments`, one per rank of the node. Fails for the lowest rank with a request that
// cannot be met: MMUL_ERR_UNAVAILABLE (no such device), MMUL_ERR_USAGE (not a device name).
enum mmul_status mmul_assign_devices(const struct mmul_assign_node *node,
                                     struct mmul_assignment *assignments, struct mmul_error *err);

// Entry of a device file for one rank.
struct mmul_device_file_entry {
    char device[128];
    double weight; // negative: the line has none
};

// Finds the entry of the node_rank-th rank on `host` in `text`. A line of the text is
// `host device[,device...] [weight]`, a comment begins with #. Fails with MMUL_ERR_DATA: malformed
// line, host not listed, fewer devices than ranks.
enum mmul_status mmul_device_file_find(const char *text, const char *path, const char *host,
                                       int node_rank, struct mmul_device_file_entry *line,
                                       struct mmul_error *err);
