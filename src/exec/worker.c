// SPDX-License-Identifier: MIT
// Tiles of a product on one device. Operands the device can use where they lie are not copied;
// others go through a cache of tiles on it and are widened there when they are 16-bit.
//
//        n0        for each column of tiles n0, for each row of tiles m0 (down, then up, ...):
//      +----+          for each k0 (forth, then back, ...): C(m0,n0) += A(m0,k0) B(k0,n0)
//   m0 | C  |      so that every tile begins with operands of the one before.
//      +----+
//
// Everything is begun in that order and not waited for, until the lane of a finished tile of C is
// needed for a later one: then it is brought home while the device multiplies the tile between.
// Does not check results (exec/verify) and decides nothing about who computes what.
#include "exec/worker.h"

#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "exec/fallback.h"

// ------------------------------------------------------------------------------------- operands

static bool in_place(const struct mmul_worker *worker, enum mmul_dtype dtype) {
    return dtype == MMUL_F32 && mmul_device_can_borrow(worker->context->device);
}

// Where the device finds a matrix of the product: borrowed whole for the time of the product, or
// tile by tile in its cache.
struct source {
    struct mmul_host_tile whole;
    struct mmul_buffer *borrowed;
    struct mmul_tile_cache *cache;
};

// Borrows the whole matrix when the device can use it where it lies.
static enum mmul_status source_init(struct mmul_worker *worker, struct source *source,
                                    struct mmul_host_tile whole, struct mmul_tile_cache *cache,
                                    struct mmul_error *err) {
    *source = (struct source){.whole = whole, .cache = cache};
    if (!in_place(worker, whole.dtype))
        return MMUL_OK;
    return mmul_device_buffer_borrow(
        worker->context->device, MMUL_F32, (float *)(uintptr_t)whole.at,
        (whole.rows - 1) * whole.ld + whole.cols, &source->borrowed, err);
}

static void source_fini(struct mmul_worker *worker, struct source *source) {
    mmul_device_buffer_destroy(worker->context->device, source->borrowed);
}

// A rectangle of a matrix.
struct block {
    int64_t row, col, rows, cols;
};

// The block as the device's operand; uploads it when it is not there.
static enum mmul_status source_tile(struct mmul_worker *worker, const struct source *source,
                                    struct block block, struct mmul_operand *operand,
                                    struct mmul_error *err) {
    struct mmul_host_tile tile = source->whole;
    int64_t offset = block.row * tile.ld + block.col;
    if (source->borrowed != NULL) {
        *operand = (struct mmul_operand){source->borrowed, offset, tile.ld};
        return MMUL_OK;
    }
    tile.at = (const char *)tile.at + offset * (int64_t)mmul_dtype_bytes(tile.dtype);
    tile.rows = block.rows;
    tile.cols = block.cols;
    int64_t uploads = source->cache->uploads;
    double begin = mmul_trace_now(worker->options.trace);
    enum mmul_status status =
        mmul_tile_cache_load(source->cache, worker->context->device, &tile, operand, err);
    if (source->cache->uploads > uploads)
        mmul_trace_add(worker->options.trace, MMUL_TRACE_UPLOAD, begin,
                       tile.rows * tile.cols * (int64_t)mmul_dtype_bytes(tile.dtype), 0);
    return status;
}

// ---------------------------------------------------------------------------------------- order

// One multiplication: the part of C at (m0, n0), the terms from k0 on.
struct tile_step {
    int64_t tile; // of C, in order
    int64_t m0, n0, k0, m, n, k;
    bool is_first; // of its tile of C: the one that beta applies to
};

static int64_t step_count(const struct mmul_product *p, struct mmul_tile tile) {
    return mmul_divide_up(p->m, tile.m) * mmul_divide_up(p->n, tile.n) *
           mmul_divide_up(p->k, tile.k);
}

// The index-th multiplication; every second way along a side goes back.
static struct tile_step step_at(const struct mmul_product *p, struct mmul_tile tile,
                                int64_t index) {
    int64_t along_m = mmul_divide_up(p->m, tile.m), along_k = mmul_divide_up(p->k, tile.k);
    int64_t number = index / along_k, q = index % along_k;
    int64_t j = number / along_m, i = number % along_m;
    bool is_first = q == 0;
    i = j % 2 == 0 ? i : along_m - 1 - i;
    q = number % 2 == 0 ? q : along_k - 1 - q;
    return (struct tile_step){.tile = number,
                              .m0 = i * tile.m,
                              .n0 = j * tile.n,
                              .k0 = q * tile.k,
                              .m = mmul_smaller(tile.m, p->m - i * tile.m),
                              .n = mmul_smaller(tile.n, p->n - j * tile.n),
                              .k = mmul_smaller(tile.k, p->k - q * tile.k),
                              .is_first = is_first};
}

// ---------------------------------------------------------------------------------- one product

// A product on its way through the device.
struct job {
    struct mmul_worker *worker;
    const struct mmul_product *p;
    struct mmul_tile tile;
    struct source a, b, c;
    struct mmul_operand result;      // the present tile of C on the device
    struct tile_step on_device[2];   // per lane of C: what it holds that C does not, m = 0: nothing
    struct mmul_operand to_bring[2]; // and where
};

static enum mmul_status load_operands(const struct job *job, const struct tile_step *at,
                                      struct mmul_gemm *args, struct mmul_error *err) {
    struct block a = {at->m0, at->k0, at->m, at->k}, b = {at->k0, at->n0, at->k, at->n};
    if (args->transpose_a)
        a = (struct block){at->k0, at->m0, at->k, at->m};
    if (args->transpose_b)
        b = (struct block){at->n0, at->k0, at->n, at->k};
    enum mmul_status status = source_tile(job->worker, &job->a, a, &args->a, err);
    return status == MMUL_OK ? source_tile(job->worker, &job->b, b, &args->b, err) : status;
}

// What a lane of C holds comes home.
static enum mmul_status bring_result(struct job *job, int lane, struct mmul_error *err) {
    const struct tile_step at = job->on_device[lane];
    if (at.m == 0)
        return MMUL_OK;
    job->on_device[lane].m = 0;
    const struct mmul_download d = {
        job->to_bring[lane], at.m,    at.n, job->p->c + at.m0 * job->p->ldc + at.n0,
        job->p->ldc,         MMUL_F32};
    double begin = mmul_trace_now(job->worker->options.trace);
    enum mmul_status status =
        mmul_staging_buffer_bring(&job->worker->staging, job->worker->context->device, &d, err);
    mmul_trace_add(job->worker->options.trace, MMUL_TRACE_DOWNLOAD, begin,
                   at.m * at.n * (int64_t)sizeof(float), 0);
    return status;
}

static int c_lanes(const struct job *job) {
    return job->worker->c.count == 2 ? 2 : 1;
}

// C of a tile: where it lies, or a lane (with C_in in it when beta asks for it).
static enum mmul_status begin_result(struct job *job, const struct tile_step *at,
                                     struct mmul_error *err) {
    const struct mmul_product *p = job->p;
    struct mmul_device *device = job->worker->context->device;
    if (job->c.borrowed != NULL) {
        job->result = (struct mmul_operand){job->c.borrowed, at->m0 * p->ldc + at->n0, p->ldc};
        return MMUL_OK;
    }
    int lane = (int)(at->tile % c_lanes(job));
    enum mmul_status status = bring_result(job, lane, err);
    job->result = (struct mmul_operand){.ld = at->n};
    if (status == MMUL_OK)
        status = mmul_tile_cache_take(&job->worker->c, device, lane, at->m * at->n,
                                      &job->result.buffer, err);
    if (status != MMUL_OK)
        return status;
    job->on_device[lane] = *at;
    job->to_bring[lane] = job->result;
    if (p->beta == 0)
        return MMUL_OK;
    const struct mmul_upload c_in = {
        job->result, at->m, at->n, p->c_in + at->m0 * p->ldc_in + at->n0, p->ldc_in, MMUL_F32};
    double begin = mmul_trace_now(job->worker->options.trace);
    status = mmul_device_upload(device, &c_in, err);
    mmul_trace_add(job->worker->options.trace, MMUL_TRACE_UPLOAD, begin,
                   at->m * at->n * (int64_t)sizeof(float), 0);
    return status;
}

// One gemm of a tile: the first applies beta, the later ones add.
static enum mmul_status multiply_step(struct job *job, const struct tile_step *at,
                                      struct mmul_error *err) {
    const struct mmul_product *p = job->p;
    struct mmul_gemm args = {.transpose_a = p->transpose_a,
                             .transpose_b = p->transpose_b,
                             .m = at->m,
                             .n = at->n,
                             .k = at->k,
                             .alpha = p->alpha,
                             .beta = at->is_first ? p->beta : 1};
    enum mmul_status status = load_operands(job, at, &args, err);
    if (status == MMUL_OK && at->is_first)
        status = begin_result(job, at, err);
    args.c = job->result;
    return status == MMUL_OK ? mmul_device_gemm(job->worker->context->device, &args, err) : status;
}

static enum mmul_status multiply_steps(struct job *job, struct mmul_error *err) {
    int64_t steps = step_count(job->p, job->tile);
    struct tile_step at = {0};
    enum mmul_status status = MMUL_OK;
    for (int64_t i = 0; status == MMUL_OK && i < steps; i++) {
        at = step_at(job->p, job->tile, i);
        status = multiply_step(job, &at, err);
    }
    for (int i = 1; status == MMUL_OK && i <= c_lanes(job); i++)
        status = bring_result(job, (int)((at.tile + i) % c_lanes(job)), err);
    return status == MMUL_OK ? mmul_device_wait(job->worker->context->device, err) : status;
}

// A device that copies nothing needs no tiles.
static struct mmul_tile tile_for(const struct mmul_worker *worker, const struct mmul_product *p) {
    if (in_place(worker, p->a_dtype) && in_place(worker, p->b_dtype))
        return (struct mmul_tile){.m = p->m, .n = p->n, .k = p->k};
    return worker->tile;
}

static enum mmul_status multiply_on_device(struct mmul_worker *worker, const struct mmul_product *p,
                                           struct mmul_error *err) {
    struct job job = {.worker = worker, .p = p, .tile = tile_for(worker, p)};
    int64_t a_rows = p->transpose_a ? p->k : p->m, a_cols = p->transpose_a ? p->m : p->k;
    int64_t b_rows = p->transpose_b ? p->n : p->k, b_cols = p->transpose_b ? p->k : p->n;
    const struct mmul_host_tile a = {p->a, a_rows, a_cols, p->lda, p->a_dtype},
                                b = {p->b, b_rows, b_cols, p->ldb, p->b_dtype},
                                c = {p->c, p->m, p->n, p->ldc, MMUL_F32};
    enum mmul_status status = source_init(worker, &job.a, a, &worker->a, err);
    if (status == MMUL_OK)
        status = source_init(worker, &job.b, b, &worker->b, err);
    if (status == MMUL_OK)
        status = source_init(worker, &job.c, c, &worker->c, err);
    if (status == MMUL_OK)
        status = multiply_steps(&job, err);
    source_fini(worker, &job.c);
    source_fini(worker, &job.b);
    source_fini(worker, &job.a);
    return status;
}

// ------------------------------------------------------------------------------------ fallback

// Tiles for the device that took over: all of them work in host memory.
static enum mmul_status resize_tile(struct mmul_worker *worker, const struct mmul_product *p,
                                    struct mmul_error *err) {
    struct mmul_tile_request request = {.m = p->m,
                                        .n = p->n,
                                        .k = p->k,
                                        .a_bytes_each = mmul_dtype_bytes(p->a_dtype),
                                        .b_bytes_each = mmul_dtype_bytes(p->b_dtype),
                                        .host_memory = true};
    return mmul_tile_choose(&request, &worker->tile, err);
}

static void leave_device(struct mmul_worker *worker) {
    mmul_tile_cache_drop(&worker->a, worker->context->device);
    mmul_tile_cache_drop(&worker->b, worker->context->device);
    mmul_tile_cache_drop(&worker->c, worker->context->device);
    mmul_staging_buffer_fini(&worker->staging);
    worker->replaced = true;
}

static enum mmul_status fall_back(struct mmul_worker *worker, struct mmul_error *err) {
    leave_device(worker);
    return mmul_context_fall_back(worker->context, worker->options.no_fallback, err);
}

enum mmul_status mmul_worker_distrust(struct mmul_worker *worker, const char *why,
                                      struct mmul_error *err) {
    leave_device(worker);
    return mmul_context_replace_device(worker->context, why, err);
}

void mmul_worker_abandon(struct mmul_worker *worker) {
    worker->a = worker->b = worker->c = (struct mmul_tile_cache){0};
    worker->staging = (struct mmul_staging_buffer){0};
    worker->replaced = true;
    worker->fallback_products++;
}

void mmul_worker_forget(struct mmul_worker *worker) {
    mmul_tile_cache_forget(&worker->a);
    mmul_tile_cache_forget(&worker->b);
}

// A device that works where C lies finds C_in there; a product done again begins again. Who adds to what C
// holds (C_in is C) begins again with its first terms.
static void load_c_in(const struct mmul_worker *worker, const struct mmul_product *p) {
    for (int64_t i = 0; in_place(worker, MMUL_F32) && p->beta != 0 && p->c != p->c_in && i < p->m;
         i++)
        memcpy(p->c + i * p->ldc, p->c_in + i * p->ldc_in, (size_t)p->n * sizeof(float));
}

// alpha = 0: A and B are not there. C = beta C_in, or zeros.
static void scale_c(const struct mmul_product *p) {
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++)
            p->c[i * p->ldc + j] = p->beta == 0 ? 0 : p->beta * p->c_in[i * p->ldc_in + j];
}

enum mmul_status mmul_worker_multiply(struct mmul_worker *worker,
                                      const struct mmul_product *product, struct mmul_error *err) {
    worker->products++;
    if (product->alpha == 0) {
        scale_c(product);
        return MMUL_OK;
    }
    for (;;) {
        load_c_in(worker, product);
        enum mmul_status status = worker->replaced ? resize_tile(worker, product, err) : MMUL_OK;
        if (status == MMUL_OK)
            status = multiply_on_device(worker, product, err);
        if (status == MMUL_OK)
            return MMUL_OK;
        worker->fallback_products++;
        status = fall_back(worker, err);
        if (status != MMUL_OK)
            return status;
    }
}

// ---------------------------------------------------------------------------------------- start

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
static struct mmul_tile fit_temporary(const struct mmul_device *device, struct mmul_tile tile) {
    struct mmul_device_info info;
    mmul_device_describe(device, &info);
    while (mmul_device_gemm_temporary_bytes(device, tile.m, tile.n, tile.k) >
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

enum mmul_status mmul_worker_init(struct mmul_worker *worker, struct mmul_context *context,
                                  const struct mmul_worker_options *options,
                                  struct mmul_error *err) {
    struct mmul_tile tile = options->tile;
    *worker = (struct mmul_worker){.context = context, .options = *options, .tile = tile};
    struct mmul_device *device = context->device;
    enum mmul_status status = MMUL_OK;
    if (tile.m == 0)
        return MMUL_OK;
    if (!mmul_device_can_borrow(device))
        worker->tile = tile = fit_temporary(device, tile);
    if (!in_place(worker, MMUL_F32)) {
        status = mmul_staging_buffer_reserve(&worker->staging, tile.m * tile.n, err);
        if (status != MMUL_OK)
            return status;
    }
    if (!in_place(worker, options->a_dtype))
        status = mmul_tile_cache_reserve(&worker->a, device, tile.a_lanes, tile.m * tile.k, err);
    if (status == MMUL_OK && !in_place(worker, options->b_dtype))
        status = mmul_tile_cache_reserve(&worker->b, device, tile.b_lanes, tile.k * tile.n, err);
    if (status == MMUL_OK && !in_place(worker, MMUL_F32))
        status = mmul_tile_cache_reserve(&worker->c, device, tile.c_lanes, tile.m * tile.n, err);
    return status == MMUL_OK ? status : fall_back(worker, err); // entries come when needed
}

static bool are_alike(const struct mmul_worker_options *a, const struct mmul_worker_options *b) {
    return memcmp(&a->tile, &b->tile, sizeof a->tile) == 0 && a->a_dtype == b->a_dtype &&
           a->b_dtype == b->b_dtype;
}

enum mmul_status mmul_worker_turn(struct mmul_worker *worker,
                                  const struct mmul_worker_options *options,
                                  struct mmul_error *err) {
    const struct mmul_worker before = *worker;
    mmul_worker_forget(worker);
    if (options->tile.m == 0 || are_alike(&worker->options, options))
        return MMUL_OK;
    leave_device(worker);
    enum mmul_status status = mmul_worker_init(worker, before.context, options, err);
    worker->replaced |= before.replaced;
    worker->products += before.products;
    worker->fallback_products += before.fallback_products;
    return status;
}

void mmul_worker_fini(struct mmul_worker *worker) {
    if (worker->context != NULL)
        leave_device(worker);
}
