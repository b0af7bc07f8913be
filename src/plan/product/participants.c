// SPDX-License-Identifier: MIT
// Compares devices by the cost of a pass, and orders the nodes.
#include "plan/product/participants.h"

#include <stdlib.h>

#include "base/memory.h"

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

static enum mmul_exclusion find_exclusion(const struct mmul_cost *cost, int rank) {
    const struct mmul_rank_info *info = &cost->request.cluster->ranks[rank];
    if (cost->ranks[rank].pass.knots == 0)
        return MMUL_EXCLUDED_SPEED_UNKNOWN;
    if (info->device.type != MMUL_DEVICE_GPU)
        return MMUL_NOT_EXCLUDED;
    const double core = core_rate(cost, info->node);
    if (mmul_pass_rate(&cost->ranks[rank].pass) >= core)
        return MMUL_NOT_EXCLUDED;
    return device_alone_suffices(cost, rank, core) ? MMUL_EXCLUDED_SLOW_TRANSFERS
                                                   : MMUL_EXCLUDED_SLOW_DEVICE;
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

static enum mmul_status order_nodes(const struct mmul_cost *cost, struct mmul_participants *p,
                                    struct mmul_error *err) {
    struct useful *useful = NULL;
    enum mmul_status status = MMUL_ALLOCATE(useful, cost->node_count, "candidates", err);
    if (status != MMUL_OK)
        return status;
    for (int i = 0; i < cost->node_count; i++)
        useful[i] = (struct useful){mmul_cost_link_class(cost->request.cluster, i), i, 0};
    for (int rank = 0; rank < cost->size; rank++)
        if (p->absence[rank] == MMUL_NOT_EXCLUDED && cost->ranks[rank].node != cost->root_node)
            useful[cost->ranks[rank].node].rate += mmul_pass_rate(&cost->ranks[rank].pass);
    qsort(useful, (size_t)cost->node_count, sizeof *useful, compare_usefulness);
    for (int i = 0; i < cost->node_count; i++) {
        const bool is_useful = useful[i].rate > 0;
        p->place[useful[i].node] = is_useful ? p->count : -1;
        p->count += is_useful;
    }
    mmul_free(useful);
    return MMUL_OK;
}

enum mmul_status mmul_participants_find(const struct mmul_cost *cost,
                                        struct mmul_participants *participants,
                                        struct mmul_error *err) {
    struct mmul_participants *p = participants;
    *p = (struct mmul_participants){.count = 0};
    enum mmul_status status =
        MMUL_ALLOCATE_ALL("candidates", err, MMUL_ARRAY(p->absence, cost->size),
                          MMUL_ARRAY(p->place, cost->node_count));
    for (int rank = 0; status == MMUL_OK && rank < cost->size; rank++)
        p->absence[rank] = find_exclusion(cost, rank);
    return status == MMUL_OK ? order_nodes(cost, p, err) : status;
}

void mmul_participants_fini(struct mmul_participants *participants) {
    MMUL_FREE_ALL(participants->absence, participants->place);
}

bool mmul_participants_admit(const struct mmul_participants *participants,
                             const struct mmul_cost *cost, int nodes, bool *in) {
    bool all = true;
    for (int rank = 0; rank < cost->size; rank++) {
        in[rank] = participants->absence[rank] == MMUL_NOT_EXCLUDED &&
                   participants->place[cost->ranks[rank].node] < nodes;
        all = all && in[rank];
    }
    return all;
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
