// SPDX-License-Identifier: MIT
// Splits a range into parts by weights: exactly, by largest remainder, or by the rule of a hundred
// pieces that the original files were made with. It knows nothing of speeds or memory: whoever
// wants to balance, chooses the weights.
#include "plan/parts/partition.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/status.h"
#include "model/weights.h"

struct share {
    int64_t remainder; // in 2^-20 of an element: rounding noise must not decide a tie
    int part;
};

static double largest(const double *weights, int parts) {
    double most = 0;
    for (int i = 0; i < parts; i++)
        if (weights[i] > most)
            most = weights[i];
    return most;
}

// Sum relative to the largest weight, so that no finite weights overflow it.
static double relative_sum(const double *weights, int parts, double most) {
    double sum = 0;
    for (int i = 0; i < parts; i++)
        sum += weights[i] / most;
    return sum;
}

static int last_weighted(const double *weights, int parts) {
    int last = parts - 1;
    while (weights[last] <= 0)
        last--;
    return last;
}

static void sizes_to_offsets(int64_t *offsets, int parts) {
    int64_t begin = 0;
    for (int i = 0; i < parts; i++) {
        int64_t size = offsets[i];
        offsets[i] = begin;
        begin += size;
    }
    offsets[parts] = begin;
}

static int by_remainder(const void *a, const void *b) {
    const struct share *x = a, *y = b;
    if (x->remainder != y->remainder)
        return x->remainder > y->remainder ? -1 : 1;
    return (x->part > y->part) - (x->part < y->part);
}

// Whole elements of every quota into sizes, what is left of it into shares; parts of weight zero
// take no part. Returns how many shares there are.
static int floor_quotas(int64_t total, int parts, const double *weights, int64_t *sizes,
                        struct share *shares, int64_t *left) {
    double most = largest(weights, parts);
    double sum = relative_sum(weights, parts, most);
    double noise = (double)total * 0x1p-50;
    int count = 0;
    *left = total;
    for (int i = 0; i < parts; i++) {
        double quota = (double)total * (weights[i] / most / sum);
        double whole = floor(quota + noise); // 2.9999999999999996 is a 3
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
    qsort(shares, (size_t)count, sizeof *shares, by_remainder);
    // In exact arithmetic 0 <= left < count; totals beyond 2^50 may round either way.
    for (int s = 0; s < count && left > 0; s++, left--)
        offsets[shares[s].part]++;
    offsets[last_weighted(weights, parts)] += left;
    sizes_to_offsets(offsets, parts);
    mmul_free(shares);
    return MMUL_OK;
}

// n elements are cut into P = min(n, 100) pieces, the first n mod P of them one longer; part i
// takes floor(P p_i + 1e-9) of them in order, the last part with a weight also what is left.
static void split_hundred(int64_t total, int parts, const double *weights, int64_t *offsets) {
    int64_t pieces = total < 100 ? total : 100;
    int64_t base = pieces > 0 ? total / pieces : 0;
    int64_t longer = pieces > 0 ? total % pieces : 0;
    double most = largest(weights, parts);
    double sum = relative_sum(weights, parts, most);
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
