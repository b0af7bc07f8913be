// SPDX-License-Identifier: MIT
// Who is there and what each has of a value: what costs are computed from.
#include <math.h>

#include "base/memory.h"
#include "plan/cost/cost.h"
#include "plan/cost/program_cost.h"
#include "plan/parts/partition.h"

static const double ASSUMED_FLOPS = 1e10;

static double slowest_link(const struct mmul_cluster *cluster, double *latency_seconds) {
    double rate = 0;
    *latency_seconds = MMUL_LINK_LATENCY_SECONDS;
    for (int node = 1; node < cluster->node_count; node++) {
        const struct mmul_link link = cluster->nodes[node].root_link;
        if (link.bytes_per_second <= 0 || (rate > 0 && link.bytes_per_second >= rate))
            continue;
        rate = link.bytes_per_second;
        *latency_seconds = link.latency_seconds;
    }
    return rate > 0 ? rate : MMUL_LINK_BYTES_PER_SECOND;
}

static void set_links(struct mmul_program_costs *c, const struct mmul_cluster *cluster) {
    const int root = cluster->ranks[0].node;
    double fastest = 0;
    c->bytes_per_second = slowest_link(cluster, &c->latency_seconds);
    for (int node = 0; node < c->node_count; node++) {
        c->node_bytes_per_second[node] = mmul_cost_root_link(cluster, node).bytes_per_second;
        fastest = node != root ? fmax(fastest, c->node_bytes_per_second[node]) : fastest;
    }
    if (fastest > 0)
        c->node_bytes_per_second[root] = fastest;
}

enum mmul_status mmul_program_costs_init(struct mmul_program_costs *costs,
                                         const struct mmul_cluster *cluster, const double *weights,
                                         int64_t groups, struct mmul_error *err) {
    struct mmul_program_costs c = {
        .size = cluster->size, .node_count = cluster->node_count, .groups = groups};
    enum mmul_status status = MMUL_ALLOCATE_ALL(
        "costs", err, MMUL_WANT(c.rank_node, c.size), MMUL_WANT(c.shares, c.size),
        MMUL_WANT(c.flops, c.size), MMUL_WANT(c.transfer, c.size),
        MMUL_WANT(c.node_shares, c.node_count), MMUL_WANT(c.node_bytes_per_second, c.node_count),
        MMUL_WANT(c.group_offsets, c.size + 1));
    double sum = 0;
    if (status == MMUL_OK)
        set_links(&c, cluster);
    for (int rank = 0; status == MMUL_OK && rank < c.size; rank++)
        sum += weights[rank];
    for (int rank = 0; status == MMUL_OK && rank < c.size; rank++)
        c.shares[rank] = weights[rank] / sum;
    if (status == MMUL_OK && groups > 1)
        status =
            mmul_split_offsets(groups, c.size, c.shares, MMUL_SPLIT_EXACT, c.group_offsets, err);
    for (int rank = 0; status == MMUL_OK && groups > 1 && rank < c.size; rank++)
        c.shares[rank] =
            (double)(c.group_offsets[rank + 1] - c.group_offsets[rank]) / (double)groups;
    for (int rank = 0; status == MMUL_OK && rank < c.size; rank++) {
        const struct mmul_rank_info *info = &cluster->ranks[rank];
        c.rank_node[rank] = info->node;
        c.node_shares[info->node] += c.shares[rank];
        c.flops[rank][0] = mmul_rank_likely_flops(info, MMUL_F32, ASSUMED_FLOPS);
        c.flops[rank][1] = mmul_rank_likely_flops(info, MMUL_F64, ASSUMED_FLOPS);
        double slower =
            fmin(info->speed.upload_bytes_per_second, info->speed.download_bytes_per_second);
        c.transfer[rank] = !info->host_memory && slower > 0 ? 1 / slower : 0;
    }
    const struct mmul_mesh_request request = {c.size, c.node_count, c.rank_node, c.shares};
    if (status == MMUL_OK)
        status = mmul_mesh_init(&c.mesh, &request, err);
    if (status == MMUL_OK)
        *costs = c;
    else
        mmul_program_costs_fini(&c);
    return status;
}

void mmul_program_costs_fini(struct mmul_program_costs *costs) {
    mmul_free(costs->rank_node);
    mmul_free(costs->shares);
    mmul_free(costs->group_offsets);
    mmul_free(costs->flops);
    mmul_free(costs->transfer);
    mmul_free(costs->node_shares);
    mmul_free(costs->node_bytes_per_second);
    mmul_mesh_fini(&costs->mesh);
    *costs = (struct mmul_program_costs){0};
}
