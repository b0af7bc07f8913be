// SPDX-License-Identifier: MIT
// Shares by weight, then clipped: nodes that overflow are fixed at their capacity and what is left
// is shared again among the rest, until nothing overflows. At most one round per node.
#include "plan/parts/share.h"

#include "base/memory.h"
#include "base/status.h"

// Work space of one call.
struct sharing {
    const struct mmul_share_request *request;
    double *weights;     // of the ranks still free
    int64_t *offsets;    // size + 1
    int64_t *node_units; // node_count
    bool *own_clipped;   // where nobody wants to know
    int64_t *counts;     // the result, borrowed
    bool *clipped;       // the result, borrowed
};

static void sharing_fini(struct sharing *s) {
    mmul_free(s->weights);
    mmul_free(s->offsets);
    mmul_free(s->node_units);
    mmul_free(s->own_clipped);
}

static enum mmul_status sharing_init(struct sharing *s, struct mmul_error *err) {
    const struct mmul_share_request *r = s->request;
    enum mmul_status status = MMUL_ALLOCATE(s->weights, r->size, "weights", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(s->offsets, r->size + 1, "offsets", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(s->node_units, r->node_count, "node shares", err);
    if (status == MMUL_OK && s->clipped == NULL)
        status = MMUL_ALLOCATE(s->own_clipped, r->node_count, "node shares", err);
    if (s->clipped == NULL)
        s->clipped = s->own_clipped;
    return status;
}

// Shares `units` among the ranks of which `wanted` (clipped or free, of one node or of all) holds.
static enum mmul_status share_among(struct sharing *s, int64_t units, int node,
                                    struct mmul_error *err) {
    const struct mmul_share_request *r = s->request;
    for (int rank = 0; rank < r->size; rank++) {
        bool wanted = node >= 0 ? r->rank_node[rank] == node : !s->clipped[r->rank_node[rank]];
        s->weights[rank] = wanted ? r->weights[rank] : 0;
    }
    enum mmul_status status =
        mmul_split_offsets(units, r->size, s->weights, r->rule, s->offsets, err);
    for (int rank = 0; status == MMUL_OK && rank < r->size; rank++) {
        bool wanted = node >= 0 ? r->rank_node[rank] == node : !s->clipped[r->rank_node[rank]];
        if (wanted)
            s->counts[rank] = s->offsets[rank + 1] - s->offsets[rank];
    }
    return status;
}

// What the free nodes have to take.
static int64_t units_left(const struct sharing *s) {
    int64_t left = s->request->total;
    for (int node = 0; node < s->request->node_count; node++)
        if (s->clipped[node])
            left -= s->request->node_capacity[node];
    return left;
}

static bool weight_left(const struct sharing *s) {
    for (int rank = 0; rank < s->request->size; rank++)
        if (!s->clipped[s->request->rank_node[rank]] && s->request->weights[rank] > 0)
            return true;
    return false;
}

// Fixes the nodes that overflow; true when there were any.
static bool clip_nodes(struct sharing *s) {
    const struct mmul_share_request *r = s->request;
    for (int node = 0; node < r->node_count; node++)
        s->node_units[node] = 0;
    for (int rank = 0; rank < r->size; rank++)
        s->node_units[r->rank_node[rank]] += s->counts[rank];
    bool any = false;
    for (int node = 0; node < r->node_count; node++) {
        if (s->clipped[node] || s->node_units[node] <= r->node_capacity[node])
            continue;
        s->clipped[node] = any = true;
    }
    return any;
}

static enum mmul_status share_rounds(struct sharing *s, struct mmul_error *err) {
    enum mmul_status status = share_among(s, s->request->total, -1, err);
    while (status == MMUL_OK && clip_nodes(s)) {
        int64_t left = units_left(s);
        if (!weight_left(s))
            return mmul_fail(err, MMUL_ERR_SYSTEM,
                             "nodes have memory for %lld of %lld rows or columns",
                             (long long)(s->request->total - left), (long long)s->request->total);
        status = share_among(s, left, -1, err);
    }
    for (int node = 0; status == MMUL_OK && node < s->request->node_count; node++)
        if (s->clipped[node])
            status = share_among(s, s->request->node_capacity[node], node, err);
    return status;
}

enum mmul_status mmul_share_units(const struct mmul_share_request *request, int64_t *counts,
                                  bool *clipped, struct mmul_error *err) {
    struct sharing s = {.request = request, .counts = counts, .clipped = clipped};
    enum mmul_status status = sharing_init(&s, err);
    for (int node = 0; status == MMUL_OK && node < request->node_count; node++)
        s.clipped[node] = false;
    for (int rank = 0; rank < request->size; rank++)
        counts[rank] = 0;
    if (status == MMUL_OK)
        status = share_rounds(&s, err);
    sharing_fini(&s);
    return status;
}
