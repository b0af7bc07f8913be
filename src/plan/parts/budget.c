// SPDX-License-Identifier: MIT
// Chooses tile sizes from device memory, and computes the memory that is available. Conservative on
// purpose: a tile that turns out too large fails in mid-run, a tile that is a little small costs a
// few per cent. Calls no device.
#include "plan/parts/budget.h"

#include "base/integer.h"
#include "base/status.h"

enum { SMALLEST_SIDE = 64, PADDING = 128 };

static int64_t pad_side(int64_t size) {
    return mmul_divide_up(size, PADDING) * PADDING;
}

// Returns the bytes of an element on the device.
static double element_bytes(const struct mmul_tile_request *r) {
    return r->a_bytes_each == 8 && r->b_bytes_each == 8 ? 8 : 4;
}

// Bytes that a tile needs, in all and in its largest allocation. Doubles: products of sides of 2^31
// overflow int64.
struct need {
    double total, largest;
};

static struct need device_need(const struct mmul_tile_request *r, const struct mmul_tile *t) {
    double a = (double)t->m * (double)t->k, b = (double)t->k * (double)t->n;
    double c = (double)t->m * (double)t->n;
    double padded = (double)pad_side(t->m) * (double)pad_side(t->k) +
                    (double)pad_side(t->k) * (double)pad_side(t->n) +
                    (double)pad_side(t->m) * (double)pad_side(t->n);
    double staging_a = r->a_bytes_each < 4 ? 2 * a : 0, staging_b = r->b_bytes_each < 4 ? 2 * b : 0;
    double staging = staging_a > staging_b ? staging_a : staging_b;
    double lanes = t->a_lanes * a + t->b_lanes * b + t->c_lanes * c;
    double each = element_bytes(r);
    return (struct need){.total = each * (lanes + padded) + staging, .largest = each * padded};
}

// In host memory only 16-bit operands are copied (widened).
static struct need host_need(const struct mmul_tile_request *r, const struct mmul_tile *t) {
    double a = r->a_bytes_each < 4 ? 4.0 * (double)t->m * (double)t->k : 0;
    double b = r->b_bytes_each < 4 ? 4.0 * (double)t->k * (double)t->n : 0;
    return (struct need){.total = a + b, .largest = 0};
}

static bool tile_fits(const struct mmul_tile_request *r, const struct mmul_tile *t) {
    double most = r->host_memory ? MMUL_HOST_STAGING_BYTES : (double)r->memory_bytes;
    double most_single = r->max_allocation_bytes > 0 &&
                                 (double)r->max_allocation_bytes < element_bytes(r) * INT32_MAX
                             ? (double)r->max_allocation_bytes
                             : element_bytes(r) * INT32_MAX;
    struct need need = r->host_memory ? host_need(r, t) : device_need(r, t);
    return need.total <= most && need.largest <= most_single;
}

// ------------------------------------------------------------------------------------------- lanes

// Counts the tiles of each operand: A is m x k, B is k x n, C is m x n.
static void count_tiles(const struct mmul_tile_request *r, const struct mmul_tile *t, double *a,
                        double *b, double *c) {
    double along_m = (double)mmul_divide_up(r->m, t->m),
           along_n = (double)mmul_divide_up(r->n, t->n);
    double along_k = (double)mmul_divide_up(r->k, t->k);
    *a = along_m * along_k;
    *b = along_k * along_n;
    *c = along_m * along_n;
}

static int limit_lanes(int lanes, double tiles) {
    return tiles < lanes ? (int)tiles : lanes;
}

// Sets the smallest numbers of lanes that overlap transfers with computation.
static void choose_lanes(const struct mmul_tile_request *r, struct mmul_tile *t) {
    double a, b, c;
    count_tiles(r, t, &a, &b, &c);
    int most = r->host_memory ? 1 : 2;
    t->a_lanes = limit_lanes(most, a);
    t->b_lanes = limit_lanes(most, b);
    t->c_lanes = limit_lanes(most, c);
}

// Gives every tile of A, and of B, its own lane if memory is left.
static void add_lanes(const struct mmul_tile_request *r, struct mmul_tile *t) {
    double a, b, c;
    count_tiles(r, t, &a, &b, &c);
    struct mmul_tile more = *t;
    more.a_lanes = limit_lanes(MMUL_TILE_LANES, a);
    if (!r->host_memory && a <= MMUL_TILE_LANES && tile_fits(r, &more))
        *t = more;
    more = *t;
    more.b_lanes = limit_lanes(MMUL_TILE_LANES, b);
    if (!r->host_memory && b <= MMUL_TILE_LANES && tile_fits(r, &more))
        *t = more;
}

// ------------------------------------------------------------------------------------------- sides

// Cuts the longer side of C into parts, none of them too short to be fast.
static void cut_to_overlap(struct mmul_tile *tile) {
    int64_t *side = tile->m >= tile->n ? &tile->m : &tile->n;
    int64_t parts = mmul_min(MMUL_TILE_PARTS, *side / MMUL_TILE_SIDE);
    if (parts > 1)
        *side = pad_side(mmul_divide_up(*side, parts));
}

static int64_t halve_side(int64_t side) {
    int64_t half = (side + 1) / 2;
    return half > PADDING ? pad_side(half) : half;
}

// Halves the longest side. Returns false if all sides are SMALLEST_SIDE or less.
static bool shrink_tile(struct mmul_tile *tile) {
    int64_t longest = mmul_max(tile->m, mmul_max(tile->n, tile->k));
    if (longest <= SMALLEST_SIDE)
        return false;
    int64_t *side = tile->m == longest ? &tile->m : tile->n == longest ? &tile->n : &tile->k;
    *side = halve_side(longest);
    return true;
}

enum mmul_status mmul_tile_choose(const struct mmul_tile_request *request, struct mmul_tile *tile,
                                  struct mmul_error *err) {
    struct mmul_tile t = {.m = request->m, .n = request->n, .k = request->k};
    if (!request->host_memory)
        cut_to_overlap(&t);
    for (choose_lanes(request, &t); !tile_fits(request, &t); choose_lanes(request, &t)) {
        if (!shrink_tile(&t)) {
            char text[32];
            return mmul_fail(err, MMUL_ERR_SYSTEM,
                             "cannot fit a tile of %lld x %lld x %lld into %s of device memory",
                             (long long)t.m, (long long)t.n, (long long)t.k,
                             mmul_bytes_format(request->memory_bytes, text));
        }
    }
    add_lanes(request, &t);
    t.device_bytes = request->host_memory ? 0 : (int64_t)device_need(request, &t).total;
    t.free_bytes = request->host_memory ? 0 : request->memory_bytes - t.device_bytes;
    *tile = t;
    return MMUL_OK;
}

int64_t mmul_rank_device_bytes(const struct mmul_cluster *cluster, int rank, int64_t limit) {
    const struct mmul_rank_info *own = &cluster->ranks[rank];
    const double memory = MMUL_DEVICE_MEMORY_SHARE * (double)own->device.memory_bytes;
    int i = own->device_index >= 0 ? cluster->nodes[own->node].leader : -1, count = 0;
    for (; i >= 0; i = mmul_cluster_next_rank(cluster, i))
        count += cluster->ranks[i].device_index == own->device_index;
    const int64_t most = limit > 0 && (double)limit < memory ? limit : (int64_t)memory;
    return most / mmul_max(count, 1);
}

int64_t mmul_node_memory_left(const struct mmul_cluster *cluster, int node, int64_t limit) {
    const int64_t libraries_bytes = 1 << 20, thread_bytes = 1 << 20;
    for (int i = cluster->nodes[node].leader; i >= 0; i = mmul_cluster_next_rank(cluster, i)) {
        const struct mmul_rank_info *info = &cluster->ranks[i];
        if (info->process_bytes > 0)
            limit -= info->process_bytes + libraries_bytes + info->threads * thread_bytes;
    }
    return limit - cluster->nodes[node].input_bytes;
}
