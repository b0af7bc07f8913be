// SPDX-License-Identifier: MIT
// What a worker needs on its device for the products, or other operations, that follow: tiles that fit, and entries
// for them. Computes nothing.
#include "base/integer.h"
#include "exec/worker/worker.h"
#include "model/dtype.h"

// Operands that had one tile have two, of half the size: the second lane costs nothing.
static void add_lane(struct mmul_tile *tile, const int64_t *halved) {
    if (halved != &tile->n && tile->a_lanes == 1)
        tile->a_lanes = 2;
    if (halved != &tile->m && tile->b_lanes == 1)
        tile->b_lanes = 2;
    if (halved != &tile->k && tile->c_lanes == 1)
        tile->c_lanes = 2;
}

// The plan only estimates what a gemm needs beside its operands; the device knows. Tiles whose
// temporary memory would be more than one allocation may be are halved along their longest side.
static struct mmul_tile fit_temporary(const struct mmul_device *device, enum mmul_dtype dtype,
                                      struct mmul_tile tile) {
    struct mmul_device_info info;
    mmul_device_describe(device, &info);
    while (mmul_device_gemm_temporary_bytes(device, dtype, tile.m, tile.n, tile.k) >
           info.max_allocation_bytes) {
        int64_t *side = tile.m >= tile.n && tile.m >= tile.k ? &tile.m
                        : tile.n >= tile.k                   ? &tile.n
                                                             : &tile.k;
        if (*side == 1)
            break;
        *side = (*side + 1) / 2;
        add_lane(&tile, side);
    }
    return tile;
}

// Entries for tiles of what is not lasting, and for that what memory these leave.
static enum mmul_status reserve_tiles(struct mmul_worker *worker, struct mmul_error *err) {
    const struct mmul_worker_options *o = &worker->options;
    const struct mmul_tile t = worker->tile;
    const enum mmul_dtype c_dtype = mmul_dtype_computed(o->a_dtype, o->b_dtype);
    const int64_t each = (int64_t)mmul_dtype_bytes(c_dtype);
    const struct {
        struct mmul_tile_cache *lanes;
        enum mmul_dtype dtype;
        enum mmul_lasting which;
        int count;
        int64_t capacity;
    } matrices[] = {{&worker->a, o->a_dtype, MMUL_LASTING_A, t.a_lanes, t.m * t.k},
                    {&worker->b, o->b_dtype, MMUL_LASTING_B, t.b_lanes, t.k * t.n},
                    {&worker->c, c_dtype, MMUL_LASTING_C, t.c_lanes, t.m * t.n}};
    struct mmul_device *device = worker->context->device;
    const int64_t spare = o->tile.spare_bytes;
    int64_t kept = spare, tile = 0;
    for (int i = 0; i < 3; i++) {
        if (!mmul_worker_is_lasting(worker, matrices[i].which))
            continue;
        kept += matrices[i].count * matrices[i].capacity * each;
        tile = mmul_larger(tile, matrices[i].capacity * each);
    }
    // A step uses four entries at most: with so much more than a tile in each of them all still fit.
    enum mmul_status status =
        mmul_tile_cache_limit(&worker->kept, device, kept, tile + spare / 4, err);
    for (int i = 0; status == MMUL_OK && i < 3; i++)
        if (!mmul_worker_in_place(worker, matrices[i].dtype) &&
            !mmul_worker_is_lasting(worker, matrices[i].which))
            status = mmul_tile_cache_reserve(matrices[i].lanes, device, c_dtype, matrices[i].count,
                                             matrices[i].capacity, err);
    return status;
}

// For products as in the options.
static enum mmul_status prepare(struct mmul_worker *worker, struct mmul_error *err) {
    struct mmul_tile *tile = &worker->tile;
    struct mmul_device *device = worker->context->device;
    const enum mmul_dtype c_dtype =
        mmul_dtype_computed(worker->options.a_dtype, worker->options.b_dtype);
    *tile = worker->options.tile;
    if (tile->m == 0)
        return MMUL_OK;
    if (!mmul_device_can_borrow(device))
        *tile = fit_temporary(device, c_dtype, *tile);
    enum mmul_status status = MMUL_OK;
    if (!mmul_worker_in_place(worker, c_dtype))
        status = mmul_staging_buffer_reserve(
            &worker->staging, tile->m * tile->n * (int64_t)mmul_dtype_bytes(c_dtype), err);
    if (status != MMUL_OK)
        return status;
    status = reserve_tiles(worker, err);
    return status == MMUL_OK ? status
                             : mmul_worker_fall_back(worker, err); // entries come when needed
}

enum mmul_status mmul_worker_init(struct mmul_worker *worker, struct mmul_context *context,
                                  const struct mmul_worker_options *options,
                                  struct mmul_error *err) {
    *worker = (struct mmul_worker){.context = context, .options = *options};
    return prepare(worker, err);
}

static bool are_alike(const struct mmul_worker_options *a, const struct mmul_worker_options *b) {
    const struct mmul_tile *s = &a->tile, *t = &b->tile;
    return s->m == t->m && s->n == t->n && s->k == t->k && s->a_lanes == t->a_lanes &&
           s->b_lanes == t->b_lanes && s->c_lanes == t->c_lanes &&
           s->spare_bytes == t->spare_bytes && a->a_dtype == b->a_dtype &&
           a->b_dtype == b->b_dtype && a->lasting == b->lasting;
}

// No products: all that the device has to spare is for values.
static enum mmul_status turn_to_maps(struct mmul_worker *worker,
                                     const struct mmul_worker_options *options,
                                     struct mmul_error *err) {
    struct mmul_device *device = worker->context->device;
    if (options->kept_bytes == 0 || mmul_device_can_borrow(device))
        return MMUL_OK;
    mmul_worker_drop_lanes(worker);
    worker->options = *options;
    enum mmul_status status =
        mmul_tile_cache_limit(&worker->kept, device, options->kept_bytes, INT64_MAX, err);
    return status == MMUL_OK ? status : mmul_worker_fall_back(worker, err);
}

enum mmul_status mmul_worker_turn(struct mmul_worker *worker,
                                  const struct mmul_worker_options *options,
                                  struct mmul_error *err) {
    mmul_worker_forget(worker);
    if (options->tile.m == 0)
        return turn_to_maps(worker, options, err);
    if (are_alike(&worker->options, options))
        return MMUL_OK;
    mmul_worker_drop_lanes(worker);
    worker->options = *options;
    return prepare(worker, err);
}
