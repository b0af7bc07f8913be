// SPDX-License-Identifier: MIT
// Splits a range into parts by weights: exactly, by largest remainder, or by the rule of a hundred
// pieces that made the original files. Speeds and memory are not known here; the caller chooses the
// weights. Clipping fixes overflowing nodes at their capacity and shares the rest again among the
// others, until no node overflows. It takes at most one round per node.
#include "plan/parts/share.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "model/weights.h"

// -------------------------------------------------------------------------------------- by weights

struct share {
    int64_t remainder; // in 2^-20 of an element, so that rounding noise does not decide a tie
    int part;
};

// Returns the largest weight, and the sum relative to it, so that no finite weights overflow the
// sum.
static double find_largest_weight(const double *weights, int parts, double *relative_sum) {
    double most = 0;
    for (int i = 0; i < parts; i++)
        most = weights[i] > most ? weights[i] : most;
    *relative_sum = 0;
    for (int i = 0; i < parts; i++)
        *relative_sum += weights[i] / most;
    return most;
}

static int last_weighted(const double *weights, int parts) {
    int last = parts - 1;
    while (weights[last] <= 0)
        last--;
    return last;
}

static int compare_remainders(const void *a, const void *b) {
    const struct share *x = a, *y = b;
    if (x->remainder != y->remainder)
        return x->remainder > y->remainder ? -1 : 1;
    return (x->part > y->part) - (x->part < y->part);
}

// Writes the whole elements of every quota to `sizes` and the fractions to `shares`. Parts of
// weight zero get no share. Returns the number of shares.
static int floor_quotas(int64_t total, int parts, const double *weights, int64_t *sizes,
                        struct share *shares, int64_t *left) {
    double sum, most = find_largest_weight(weights, parts, &sum);
    double noise = (double)total * 0x1p-50;
    int count = 0;
    *left = total;
    for (int i = 0; i < parts; i++) {
        double quota = (double)total * (weights[i] / most / sum);
        // The noise makes 2.9999999999999996 a 3.
        double whole = floor(quota + noise);
        sizes[i] = (int64_t)whole;
        *left -= sizes[i];
        if (weights[i] > 0)
            shares[count++] = (struct share){llround((quota - whole) * 0x1p20), i};
    }
    return count;
}

static enum mmul_status split_exact(int64_t total, int parts, const double *weights,
                                    int64_t *offsets, struct mmul_error *err) {
    struct share *shares = mmul_allocate_raw(parts, sizeof *shares, "the shares", err);
    if (shares == NULL)
        return err->status;
    int64_t left;
    int count = floor_quotas(total, parts, weights, offsets, shares, &left);
    qsort(shares, (size_t)count, sizeof *shares, compare_remainders);
    // In exact arithmetic 0 <= left < count. Totals beyond 2^50 may round either way.
    for (int s = 0; s < count && left > 0; s++, left--)
        offsets[shares[s].part]++;
    offsets[last_weighted(weights, parts)] += left;
    int64_t begin = 0;
    for (int i = 0; i < parts; i++) {
        int64_t size = offsets[i];
        offsets[i] = begin;
        begin += size;
    }
    offsets[parts] = begin;
    mmul_free(shares);
    return MMUL_OK;
}

// Cuts n elements into P = min(n, 100) pieces, the first n mod P of them one longer. Part i takes
// floor(P p_i + 1e-9) of them in order. The last part with a weight also takes the remainder.
static void split_hundred(int64_t total, int parts, const double *weights, int64_t *offsets) {
    int64_t pieces = total < 100 ? total : 100;
    int64_t base = pieces > 0 ? total / pieces : 0;
    int64_t longer = pieces > 0 ? total % pieces : 0;
    double sum, most = find_largest_weight(weights, parts, &sum);
    int last = last_weighted(weights, parts);
    int64_t taken = 0;
    offsets[0] = 0;
    for (int i = 0; i < parts; i++) {
        taken += (int64_t)floor((double)pieces * (weights[i] / most / sum) + 1e-9);
        if (i >= last || taken > pieces)
            taken = pieces;
        offsets[i + 1] = taken * base + (taken < longer ? taken : longer);
    }
}

enum mmul_status mmul_split_offsets(int64_t total, int parts, const double *weights,
                                    enum mmul_split_rule rule, int64_t *offsets,
                                    struct mmul_error *err) {
    if (total < 0 || parts < 1) {
        return mmul_fail(err, MMUL_ERR_USAGE, "cannot split %lld into %d parts", (long long)total,
                         parts);
    }
    enum mmul_status status = mmul_weights_check(weights, parts, MMUL_ERR_USAGE, err);
    if (status != MMUL_OK)
        return status;
    if (rule == MMUL_SPLIT_EXACT)
        return split_exact(total, parts, weights, offsets, err);
    split_hundred(total, parts, weights, offsets);
    return MMUL_OK;
}

// ------------------------------------------------------------------------------- within capacities

// Work space of one call.
struct sharing {
    const struct mmul_share_request *request;
    double *weights;     // weights of the ranks that are not clipped
    int64_t *offsets;    // size + 1
    int64_t *node_units; // node_count
    bool *clipped;       // node_count: the node got its capacity
    int64_t *counts;     // result, borrowed
};

// Shares `units` among the ranks of one node, or (node < 0) among all ranks of nodes that are not
// clipped.
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

// Fixes the nodes that overflow. Returns true if there were any.
static bool clip_nodes(struct sharing *s) {
    const struct mmul_share_request *r = s->request;
    memset(s->node_units, 0, (size_t)r->node_count * sizeof *s->node_units);
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

static enum mmul_status share_until_fit(struct sharing *s, struct mmul_error *err) {
    const struct mmul_share_request *r = s->request;
    enum mmul_status status = share_among(s, r->total, -1, err);
    while (status == MMUL_OK && clip_nodes(s)) {
        // Units for the nodes that are not clipped.
        int64_t left = r->total;
        bool any = false;
        for (int node = 0; node < r->node_count; node++)
            left -= s->clipped[node] ? r->node_capacity[node] : 0;
        for (int rank = 0; rank < r->size; rank++)
            any |= !s->clipped[r->rank_node[rank]] && r->weights[rank] > 0;
        if (!any)
            return mmul_fail(err, MMUL_ERR_SYSTEM,
                             "the memory of the nodes holds only %lld of %lld rows or columns",
                             (long long)(r->total - left), (long long)r->total);
        status = share_among(s, left, -1, err);
    }
    for (int node = 0; status == MMUL_OK && node < r->node_count; node++)
        if (s->clipped[node])
            status = share_among(s, r->node_capacity[node], node, err);
    return status;
}

enum mmul_status mmul_share_units(const struct mmul_share_request *request, int64_t *counts,
                                  bool *clipped, struct mmul_error *err) {
    const int size = request->size, nodes = request->node_count;
    struct sharing s = {.request = request, .counts = counts};
    enum mmul_status status = MMUL_ALLOCATE_ALL(
        "shares", err, MMUL_ARRAY(s.weights, size), MMUL_ARRAY(s.offsets, size + 1),
        MMUL_ARRAY(s.node_units, nodes), MMUL_ARRAY(s.clipped, nodes));
    memset(counts, 0, (size_t)size * sizeof *counts);
    if (status == MMUL_OK)
        status = share_until_fit(&s, err);
    if (clipped != NULL && s.clipped != NULL)
        memcpy(clipped, s.clipped, (size_t)nodes * sizeof *clipped);
    MMUL_FREE_ALL(s.weights, s.offsets, s.node_units, s.clipped);
    return status;
}
