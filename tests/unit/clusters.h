// SPDX-License-Identifier: MIT
// Problems and clusters for tests of whole plans.
#pragma once

#include <stdio.h>

#include "base/memory.h"
#include "plan/lists/schedule.h"

static const int64_t GIB = (int64_t)1 << 30;

static inline struct mmul_problem make_problem(int64_t m, int64_t n, int64_t k) {
    struct mmul_problem problem;
    struct mmul_error err;
    struct mmul_problem_operand a = {{1, 1, m, k}, MMUL_F32, "A.bin"};
    struct mmul_problem_operand b = {{1, 1, k, n}, MMUL_F32, "B.bin"};
    assert_int_equal(mmul_problem_init(&(struct mmul_problem_request){.a = a, .b = b, .alpha = 1},
                                       &problem, &err),
                     MMUL_OK);
    return problem;
}

// Makes `size` ranks, `per_node` on each node of 64 GiB, all CPUs.
static inline struct mmul_cluster *make_cluster(int size, int per_node) {
    struct mmul_cluster *cluster;
    struct mmul_error err;
    int nodes = (size + per_node - 1) / per_node;
    assert_int_equal(mmul_cluster_create(size, nodes, 0, &cluster, &err), MMUL_OK);
    for (int rank = 0; rank < size; rank++) {
        struct mmul_rank_info *r = &cluster->ranks[rank];
        r->node = rank / per_node;
        r->node_rank = rank % per_node;
        r->host_memory = true;
        r->is_trusted = true;
        r->device.memory_bytes = 64 * GIB;
        strcpy(r->device_name, "cpu");
    }
    for (int node = 0; node < nodes; node++) {
        cluster->nodes[node].leader = node * per_node;
        cluster->nodes[node].rank_count = per_node;
        cluster->nodes[node].memory_available_bytes = 64 * GIB;
    }
    return cluster;
}

static const unsigned ALL = MMUL_MAPS_A | MMUL_MAPS_B | MMUL_MAPS_C_IN | MMUL_MAPS_C;

// Makes ranks of 200 GFLOP/s, the last one of 20; links of 10 Gbit/s; root's node maps its files.
static inline struct mmul_cluster *make_measured_cluster(int size, int per_node, unsigned *maps) {
    struct mmul_cluster *cluster = make_cluster(size, per_node);
    for (int rank = 0; rank < size; rank++) {
        cluster->ranks[rank].speed_flops = rank == size - 1 ? 2e10 : 2e11;
        cluster->ranks[rank].device_index = -1;
    }
    for (int node = 0; node < cluster->node_count; node++) {
        cluster->nodes[node].root_link.bytes_per_second = 1.25e9;
        snprintf(cluster->nodes[node].host, 64, "node%d", node);
        maps[node] = node == 0 ? ALL : 0;
    }
    return cluster;
}
