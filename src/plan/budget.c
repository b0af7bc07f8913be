// SPDX-License-Identifier: MIT
// Tile sizes from device memory. Conservative on purpose: a tile that turns out too large fails
// in mid-run, one that is a little small costs a few per cent. Knows no device.
#include "plan/budget.h"

#include "base/integer.h"
#include "base/status.h"

enum { SMALLEST_SIDE = 64, PADDING = 128 };

static int64_t pad(int64_t size) {
    return (size + PADDING - 1) / PADDING * PADDING;
}

// Sides as doubles: at 2^31 a side, products leave int64.
struct need {
    double total, largest;
};

static struct need device_need(const struct mmul_tile_request *r, const struct mmul_tile *t) {
    double a = (double)t->m * (double)t->k, b = (double)t->k * (double)t->n;
    double c = (double)t->m * (double)t->n;
    double padded = (double)pad(t->m) * (double)pad(t->k) + (double)pad(t->k) * (double)pad(t->n) +
                    (double)pad(t->m) * (double)pad(t->n);
    double staging_a = r->a_bytes_each < 4 ? 2 * a : 0, staging_b = r->b_bytes_each < 4 ? 2 * b : 0;
    double staging = staging_a > staging_b ? staging_a : staging_b;
    return (struct need){.total = 4 * (a + b + c + padded) + staging, .largest = 4 * padded};
}

// In host memory only 16-bit operands are copied (widened).
static struct need host_need(const struct mmul_tile_request *r, const struct mmul_tile *t) {
    double a = r->a_bytes_each < 4 ? 4.0 * (double)t->m * (double)t->k : 0;
    double b = r->b_bytes_each < 4 ? 4.0 * (double)t->k * (double)t->n : 0;
    return (struct need){.total = a + b, .largest = 0};
}

static int64_t halve(int64_t side) {
    int64_t half = (side + 1) / 2;
    return half > PADDING ? pad(half) : half;
}

// Halves the longest side that is still above the smallest; false when there is none.
static bool shrink(struct mmul_tile *tile) {
    int64_t longest = mmul_larger(tile->m, mmul_larger(tile->n, tile->k));
    if (longest <= SMALLEST_SIDE)
        return false;
    int64_t *side = tile->m == longest ? &tile->m : tile->n == longest ? &tile->n : &tile->k;
    *side = halve(longest);
    return true;
}

enum mmul_status mmul_tile_choose(const struct mmul_tile_request *request, struct mmul_tile *tile,
                                  struct mmul_error *err) {
    struct mmul_tile t = {.m = request->m, .n = request->n, .k = request->k};
    double most = request->host_memory ? MMUL_HOST_STAGING_BYTES : (double)request->memory_bytes;
    double most_single =
        request->max_allocation_bytes > 0 && (double)request->max_allocation_bytes < 4.0 * INT32_MAX
            ? (double)request->max_allocation_bytes
            : 4.0 * INT32_MAX;
    for (;;) {
        struct need need = request->host_memory ? host_need(request, &t) : device_need(request, &t);
        if (need.total <= most && need.largest <= most_single) {
            t.device_bytes = request->host_memory ? 0 : (int64_t)need.total;
            *tile = t;
            return MMUL_OK;
        }
        if (!shrink(&t)) {
            char text[32];
            return mmul_fail(err, MMUL_ERR_SYSTEM,
                             "cannot fit a tile of %lld x %lld x %lld into %s of device memory",
                             (long long)t.m, (long long)t.n, (long long)t.k,
                             mmul_bytes_format(request->memory_bytes, text));
        }
    }
}
