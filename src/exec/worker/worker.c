// SPDX-License-Identifier: MIT
// Tiles of a product on one device. A device that works in host memory uses operands in place.
// Others get them through a cache of tiles, and widen 16-bit elements on the device. A second cache
// keeps lasting matrices, results included. Results are downloaded all the same: the host checks
// them, and a successor needs them if the device is lost. Only the results of
// exec/worker/device_results.c may stay. Products are cut at the boundaries of cached tiles.
//
//        n0        for each column of tiles n0, for each row of tiles m0 (down, then up, ...):
//      +----+          for each k0 (forth, then back, ...): C(m0,n0) += A(m0,k0) B(k0,n0)
//   m0 | C  |      so that every tile begins with operands of the one before.
//      +----+
//
// All operations are queued in that order without waiting, until a later tile needs the lane of a
// finished tile of C. The finished tile is then downloaded while the device multiplies the tile
// between.
// Does not check results (exec/worker/verify) and does not assign work to ranks.
#include "exec/worker/worker.h"

#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/rows.h"
#include "base/status.h"
#include "exec/setup/fallback.h"
#include "model/dtype.h"

// ------------------------------------------------------------------------------------- operands

bool mmul_worker_uses_in_place(const struct mmul_worker *worker, enum mmul_dtype dtype) {
    return mmul_dtype_bytes(dtype) >= sizeof(float) &&
           mmul_device_can_borrow(worker->context->device);
}

// Access of the device to a matrix: borrowed as a whole for the time of the product, or tile by
// tile through a cache.
struct source {
    struct mmul_host_tile whole;
    struct mmul_buffer *borrowed;
    struct mmul_tile_cache *cache;
};

static bool is_lasting(const struct mmul_worker *worker, enum mmul_lasting which) {
    return (worker->options.lasting & which) != 0;
}

// Borrows the whole matrix if the device can use it in place.
static enum mmul_status open_source(struct mmul_worker *worker, struct source *source,
                                    struct mmul_host_tile whole, enum mmul_lasting which,
                                    struct mmul_error *err) {
    struct mmul_tile_cache *passing = which == MMUL_LASTING_A   ? &worker->a
                                      : which == MMUL_LASTING_B ? &worker->b
                                                                : &worker->c;
    *source = (struct source){.whole = whole,
                              .cache = is_lasting(worker, which) ? &worker->kept : passing};
    if (!mmul_worker_uses_in_place(worker, whole.dtype))
        return MMUL_OK;
    return mmul_device_buffer_borrow(
        worker->context->device, whole.dtype, (void *)(uintptr_t)whole.at,
        (whole.rows - 1) * whole.ld + whole.cols, &source->borrowed, err);
}

// A rectangle of a matrix.
struct block {
    int64_t row, col, rows, cols;
};

// Returns the block in host memory.
static struct mmul_host_tile host_tile(const struct source *source, struct block block) {
    struct mmul_host_tile tile = source->whole;
    int64_t offset = block.row * tile.ld + block.col;
    tile.at = (const char *)tile.at + offset * (int64_t)mmul_dtype_bytes(tile.dtype);
    tile.rows = block.rows;
    tile.cols = block.cols;
    return tile;
}

// Returns the block as an operand on the device. Uploads it if it is not cached.
static enum mmul_status load_tile(struct mmul_worker *worker, const struct source *source,
                                  struct block block, struct mmul_operand *operand,
                                  struct mmul_error *err) {
    if (source->borrowed != NULL) {
        int64_t offset = block.row * source->whole.ld + block.col;
        *operand = (struct mmul_operand){source->borrowed, offset, source->whole.ld};
        return MMUL_OK;
    }
    const struct mmul_host_tile tile = host_tile(source, block);
    int64_t uploads = source->cache->uploads;
    double begin = mmul_trace_now(worker->options.trace);
    enum mmul_status status =
        mmul_tile_cache_load(source->cache, worker->context->device, &tile, operand, err);
    if (source->cache->uploads > uploads)
        mmul_trace_add(worker->options.trace, MMUL_TRACE_UPLOAD, begin,
                       tile.rows * tile.cols * (int64_t)mmul_dtype_bytes(tile.dtype), 0);
    return status;
}

// ---------------------------------------------------------------------------------- one product

enum side { SIDE_M, SIDE_N, SIDE_K, SIDES };

// Iteration over one side of the product, in parts. The direction alternates.
struct way {
    int64_t size, most; // length of the side, of a part
    int64_t begin, end; // current part
    bool back;
};

// A tile of C that is not downloaded yet; m = 0: none.
struct pending {
    int64_t m0, n0, m, n;
    struct mmul_operand at;
    struct mmul_cached_tile *entry;
};

// State of a product on the device.
struct job {
    struct mmul_worker *worker;
    const struct mmul_product *p;
    int64_t extra_device_bytes; // argument of mmul_worker_multiply_absent
    struct source a, b, c;
    struct way ways[SIDES];
    int64_t tiles;              // tiles of C before the present one
    struct mmul_operand result; // the present tile on the device
    // Buffer of all of C if it stays on the device; NULL: C is downloaded.
    struct mmul_cached_tile *all;
    struct pending on_device[2]; // tiles in flight, used in turn
};

// ---------------------------------------------------------------------------------- order of tiles

// Returns the end of a part that begins at `from`: `to`, or the boundary of a cached tile before
// it.
static int64_t cut_at_cached_tile(const struct job *job, enum side side, int64_t from, int64_t to) {
    const struct mmul_product *p = job->p;
    const struct mmul_tile_cache *kept = &job->worker->kept;
    if (side != SIDE_N && job->a.cache == kept)
        to = mmul_tile_cache_find_boundary(kept, &job->a.whole, (side == SIDE_M) != p->transpose_a,
                                           from, to);
    if (side != SIDE_M && job->b.cache == kept)
        to = mmul_tile_cache_find_boundary(kept, &job->b.whole, (side == SIDE_K) != p->transpose_b,
                                           from, to);
    return to;
}

// Advances to the next part of a side. Returns false if there is none.
static bool next_part(struct job *job, enum side side) {
    struct way *w = &job->ways[side];
    if (w->back ? w->begin == 0 : w->end == w->size)
        return false;
    if (w->back) {
        w->end = w->begin;
        w->begin = cut_at_cached_tile(job, side, w->end, (w->end - 1) / w->most * w->most);
    } else {
        w->begin = w->end;
        w->end = cut_at_cached_tile(job, side, w->begin,
                                    mmul_min(w->size, (w->begin / w->most + 1) * w->most));
    }
    return true;
}

// Starts a new iteration, in the direction opposite to the last one. The current part is empty.
static void start_way(struct way *w, bool first) {
    w->back = !first && !w->back;
    w->begin = w->end = w->back ? w->size : 0;
}

static enum mmul_status load_operands(const struct job *job, struct mmul_gemm *args,
                                      struct mmul_error *err) {
    const struct way *m = &job->ways[SIDE_M], *n = &job->ways[SIDE_N], *k = &job->ways[SIDE_K];
    struct block a = {m->begin, k->begin, args->m, args->k},
                 b = {k->begin, n->begin, args->k, args->n};
    if (args->transpose_a)
        a = (struct block){k->begin, m->begin, args->k, args->m};
    if (args->transpose_b)
        b = (struct block){n->begin, k->begin, args->n, args->k};
    enum mmul_status status = load_tile(job->worker, &job->a, a, &args->a, err);
    return status == MMUL_OK ? load_tile(job->worker, &job->b, b, &args->b, err) : status;
}

// Downloads a finished tile of C.
static enum mmul_status download_result(struct job *job, struct pending *pending,
                                        struct mmul_error *err) {
    const struct pending at = *pending;
    if (at.m == 0)
        return MMUL_OK;
    pending->m = 0;
    const struct mmul_host_tile tile = host_tile(&job->c, (struct block){at.m0, at.n0, at.m, at.n});
    enum mmul_status status = mmul_worker_download(job->worker, at.at, &tile, err);
    bool stays = status == MMUL_OK && is_lasting(job->worker, MMUL_LASTING_C);
    mmul_tile_cache_return_result(at.entry, stays ? &tile : NULL);
    return status;
}

// Returns the bytes that an operand occupies in the cache beside C, so that no tile is uploaded
// twice.
static double cached_operand_bytes(const struct job *job, const struct source *source) {
    const double count = (double)source->whole.rows * (double)source->whole.cols;
    return source->cache == &job->worker->kept && source->borrowed == NULL ? 4 * count : 0;
}

// Returns true if C stays on the device, in one buffer (exec/worker/device_results.c).
static bool result_stays(const struct job *job) {
    const struct mmul_worker *worker = job->worker;
    struct mmul_device_info info;
    mmul_device_describe(worker->context->device, &info);
    const double count = (double)job->p->m * (double)job->p->n, bytes = 4 * count,
                 operands = cached_operand_bytes(job, &job->a) + cached_operand_bytes(job, &job->b),
                 beside = fmax(operands, (double)job->extra_device_bytes);
    return job->extra_device_bytes > 0 && job->c.borrowed == NULL && job->p->beta == 0 &&
           job->c.whole.dtype == MMUL_F32 && is_lasting(worker, MMUL_LASTING_C) &&
           mmul_device_can_map(worker->context->device) && count <= INT32_MAX &&
           (info.max_allocation_bytes == 0 || bytes <= (double)info.max_allocation_bytes) &&
           bytes + beside <= (double)worker->kept.max_bytes;
}

static int c_lanes(const struct job *job) {
    return job->worker->tile.c_lanes == 2 ? 2 : 1;
}

// Selects the memory for a tile of C: in place, or a cache entry (with C_in uploaded if beta != 0).
static enum mmul_status begin_result(struct job *job, const struct mmul_gemm *args,
                                     struct mmul_error *err) {
    const struct mmul_product *p = job->p;
    struct mmul_device *device = job->worker->context->device;
    const int64_t m0 = job->ways[SIDE_M].begin, n0 = job->ways[SIDE_N].begin;
    if (job->all != NULL) {
        job->result = (struct mmul_operand){job->all->buffer, m0 * p->n + n0, p->n};
        return MMUL_OK;
    }
    if (job->c.borrowed != NULL) {
        job->result = (struct mmul_operand){job->c.borrowed, m0 * p->ldc + n0, p->ldc};
        return MMUL_OK;
    }
    struct pending *pending = &job->on_device[job->tiles % c_lanes(job)];
    struct mmul_cached_tile *entry = NULL;
    enum mmul_status status = download_result(job, pending, err);
    if (status == MMUL_OK)
        status = mmul_tile_cache_reserve_result(job->c.cache, device, job->c.whole.dtype,
                                                args->m * args->n, &entry, err);
    if (status != MMUL_OK)
        return status;
    job->result = (struct mmul_operand){.buffer = entry->buffer, .ld = args->n};
    *pending = (struct pending){m0, n0, args->m, args->n, job->result, entry};
    if (p->beta == 0)
        return MMUL_OK;
    const enum mmul_dtype dtype = job->c.whole.dtype;
    const int64_t each = (int64_t)mmul_dtype_bytes(dtype);
    const void *from = (const char *)p->c_in + (m0 * p->ldc_in + n0) * each;
    const struct mmul_upload c_in = {job->result, args->m, args->n, from, p->ldc_in, dtype};
    double begin = mmul_trace_now(job->worker->options.trace);
    status = mmul_device_upload(device, &c_in, err);
    mmul_trace_add(job->worker->options.trace, MMUL_TRACE_UPLOAD, begin, args->m * args->n * each,
                   0);
    return status;
}

// Queues one gemm of a tile. The first one applies beta, later ones add.
static enum mmul_status multiply_tile(struct job *job, bool is_first, struct mmul_error *err) {
    const struct mmul_product *p = job->p;
    const struct way *w = job->ways;
    struct mmul_gemm args = {.dtype = job->c.whole.dtype,
                             .transpose_a = p->transpose_a,
                             .transpose_b = p->transpose_b,
                             .m = w[SIDE_M].end - w[SIDE_M].begin,
                             .n = w[SIDE_N].end - w[SIDE_N].begin,
                             .k = w[SIDE_K].end - w[SIDE_K].begin,
                             .alpha = p->alpha,
                             .beta = is_first ? p->beta : 1};
    mmul_tile_cache_pin(&job->worker->kept);
    enum mmul_status status = load_operands(job, &args, err);
    if (status == MMUL_OK && is_first)
        status = begin_result(job, &args, err);
    args.c = job->result;
    return status == MMUL_OK ? mmul_device_gemm(job->worker->context->device, &args, err) : status;
}

static enum mmul_status multiply_tiles(struct job *job, struct mmul_error *err) {
    struct way *m = &job->ways[SIDE_M], *n = &job->ways[SIDE_N], *k = &job->ways[SIDE_K];
    struct mmul_worker *worker = job->worker;
    enum mmul_status status = MMUL_OK;
    if (result_stays(job)) {
        mmul_tile_cache_pin(&worker->kept);
        status = mmul_tile_cache_reserve_result(&worker->kept, worker->context->device, MMUL_F32,
                                                job->p->m * job->p->n, &job->all, err);
    }
    for (start_way(n, true); status == MMUL_OK && next_part(job, SIDE_N);)
        for (start_way(m, n->begin == 0); status == MMUL_OK && next_part(job, SIDE_M);) {
            bool is_first = true;
            for (start_way(k, job->tiles == 0); status == MMUL_OK && next_part(job, SIDE_K);) {
                status = multiply_tile(job, is_first, err);
                is_first = false;
            }
            job->tiles++;
        }
    if (status == MMUL_OK && job->all != NULL)
        mmul_worker_mark_absent(worker, job->all, &job->c.whole);
    for (int i = 0; status == MMUL_OK && i < c_lanes(job); i++)
        status = download_result(job, &job->on_device[(job->tiles + i) % c_lanes(job)], err);
    return status == MMUL_OK ? mmul_device_wait(worker->context->device, err) : status;
}

static enum mmul_status multiply_on_device(struct mmul_worker *worker, const struct mmul_product *p,
                                           int64_t extra_device_bytes, struct mmul_error *err) {
    // A device that works in place needs no tiles.
    const bool in_place = mmul_worker_uses_in_place(worker, p->a_dtype) &&
                          mmul_worker_uses_in_place(worker, p->b_dtype);
    const struct mmul_tile tile =
        in_place ? (struct mmul_tile){.m = p->m, .n = p->n, .k = p->k} : worker->tile;
    struct job job = {.worker = worker,
                      .p = p,
                      .extra_device_bytes = extra_device_bytes,
                      .ways = {[SIDE_M] = {.size = p->m, .most = tile.m},
                               [SIDE_N] = {.size = p->n, .most = tile.n},
                               [SIDE_K] = {.size = p->k, .most = tile.k}}};
    int64_t a_rows = p->transpose_a ? p->k : p->m, a_cols = p->transpose_a ? p->m : p->k;
    int64_t b_rows = p->transpose_b ? p->n : p->k, b_cols = p->transpose_b ? p->k : p->n;
    const struct mmul_host_tile a = {p->a, a_rows, a_cols, p->lda, p->a_dtype},
                                b = {p->b, b_rows, b_cols, p->ldb, p->b_dtype},
                                c = {p->c, p->m, p->n, p->ldc, mmul_product_dtype(p)};
    enum mmul_status status = open_source(worker, &job.a, a, MMUL_LASTING_A, err);
    if (status == MMUL_OK)
        status = open_source(worker, &job.b, b, MMUL_LASTING_B, err);
    if (status == MMUL_OK)
        status = open_source(worker, &job.c, c, MMUL_LASTING_C, err);
    if (status == MMUL_OK)
        status = multiply_tiles(&job, err);
    mmul_device_buffer_destroy(worker->context->device, job.c.borrowed);
    mmul_device_buffer_destroy(worker->context->device, job.b.borrowed);
    mmul_device_buffer_destroy(worker->context->device, job.a.borrowed);
    return status;
}

// ------------------------------------------------------------------------------------ fallback

// Chooses tiles for the successor of a device. All successors work in host memory.
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

static void drop_lanes(struct mmul_worker *worker) {
    mmul_tile_cache_clear(&worker->a, worker->context->device);
    mmul_tile_cache_clear(&worker->b, worker->context->device);
    mmul_tile_cache_clear(&worker->c, worker->context->device);
}

struct mmul_device_traffic mmul_worker_traffic(const struct mmul_worker *worker) {
    const struct mmul_device_traffic here = worker->context->device->traffic;
    return (struct mmul_device_traffic){worker->left.uploaded + here.uploaded,
                                        worker->left.downloaded + here.downloaded};
}

static void release_device(struct mmul_worker *worker) {
    worker->must_repeat_product |= worker->absent[0] != NULL;
    memset(worker->absent, 0, sizeof worker->absent);
    worker->left = mmul_worker_traffic(worker);
    drop_lanes(worker);
    mmul_tile_cache_clear(&worker->kept, worker->context->device);
    worker->kept.most = MMUL_CACHED_TILES; // the successor may need several at once
    mmul_staging_buffer_fini(&worker->staging);
    worker->replaced = true;
}

enum mmul_status mmul_worker_fall_back(struct mmul_worker *worker, struct mmul_error *err) {
    release_device(worker);
    return mmul_context_fall_back(worker->context, worker->options.no_fallback, err);
}

enum mmul_status mmul_worker_replace_device(struct mmul_worker *worker, const char *why,
                                            struct mmul_error *err) {
    release_device(worker);
    return mmul_context_replace_device(worker->context, why, err);
}

enum mmul_status mmul_worker_replace_wrong_device(struct mmul_worker *worker, const char *why,
                                                  const char *place, struct mmul_error *err) {
    if (mmul_worker_replace_device(worker, why, err) == MMUL_OK)
        return MMUL_OK;
    mmul_fail(err, MMUL_ERR_WRONG,
              "rank %d: result is wrong in %s, also after a second computation",
              worker->context->comm->rank, place);
    mmul_hint(err, "suspect the memory or the processor of that machine");
    return MMUL_ERR_WRONG;
}

void mmul_worker_abandon(struct mmul_worker *worker) {
    worker->a = worker->b = worker->c = (struct mmul_tile_cache){0};
    worker->kept = (struct mmul_tile_cache){.most = MMUL_CACHED_TILES}; // as in release_device
    worker->staging = (struct mmul_staging_buffer){0};
    memset(worker->absent, 0, sizeof worker->absent);
    worker->replaced = true;
    worker->fallback_products++;
}

void mmul_worker_invalidate_operands(struct mmul_worker *worker) {
    mmul_tile_cache_invalidate(&worker->a, NULL, NULL);
    mmul_tile_cache_invalidate(&worker->b, NULL, NULL);
}

void mmul_worker_invalidate_memory(struct mmul_worker *worker, const void *begin, const void *end) {
    mmul_tile_cache_invalidate(&worker->kept, begin, end);
}

// Copies C_in to C for a device that works in place, also before a product is repeated. A caller
// that adds to C itself (C_in is C) must repeat from its first terms.
static void load_c_in(const struct mmul_worker *worker, const struct mmul_product *p) {
    const enum mmul_dtype dtype = mmul_product_dtype(p);
    const int64_t each = (int64_t)mmul_dtype_bytes(dtype);
    if (!mmul_worker_uses_in_place(worker, dtype) || p->beta == 0 || p->c == p->c_in)
        return;
    mmul_copy_rows(p->c_in, p->ldc_in * each, p->c, p->ldc * each, p->m, p->n * each);
}

// Computes C = beta C_in, or zeros, for alpha = 0, when A and B do not exist.
static void scale_c(const struct mmul_product *p) {
    const enum mmul_dtype dtype = mmul_product_dtype(p);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            const double c_in =
                p->beta == 0 ? 0 : mmul_dtype_get_real(dtype, p->c_in, i * p->ldc_in + j);
            mmul_dtype_set_real(dtype, p->c, i * p->ldc + j, p->beta * c_in);
        }
}

enum mmul_status mmul_worker_multiply_absent(struct mmul_worker *worker,
                                             const struct mmul_product *product,
                                             int64_t extra_device_bytes, struct mmul_error *err) {
    worker->products++;
    if (product->alpha == 0) {
        scale_c(product);
        return MMUL_OK;
    }
    for (;;) {
        load_c_in(worker, product);
        enum mmul_status status = worker->replaced ? resize_tile(worker, product, err) : MMUL_OK;
        if (status == MMUL_OK)
            status = multiply_on_device(worker, product, extra_device_bytes, err);
        if (status == MMUL_OK)
            return MMUL_OK;
        worker->fallback_products++;
        status = mmul_worker_fall_back(worker, err);
        if (status != MMUL_OK)
            return status;
    }
}

enum mmul_status mmul_worker_multiply(struct mmul_worker *worker,
                                      const struct mmul_product *product, struct mmul_error *err) {
    return mmul_worker_multiply_absent(worker, product, 0, err);
}

// ---------------------------------------------------------- preparation for the following products

// Halves tiles along their longest side until the temporary memory of a gemm fits into one
// allocation. The plan only estimates that memory; the device knows it.
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
        // Operands with one tile get two of half the size: the second lane costs no memory.
        if (side != &tile.n && tile.a_lanes == 1)
            tile.a_lanes = 2;
        if (side != &tile.m && tile.b_lanes == 1)
            tile.b_lanes = 2;
        if (side != &tile.k && tile.c_lanes == 1)
            tile.c_lanes = 2;
    }
    return tile;
}

// Allocates lanes for matrices that are not lasting, and gives the remaining memory to the cache of
// lasting ones.
static enum mmul_status reserve_tiles(struct mmul_worker *worker, struct mmul_error *err) {
    const struct mmul_worker_options *o = &worker->options;
    const struct mmul_tile t = worker->tile;
    const enum mmul_dtype c_dtype = mmul_dtype_of_product(o->a_dtype, o->b_dtype);
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
    const int64_t spare = o->tile.free_bytes;
    int64_t kept = spare, tile = 0;
    for (int i = 0; i < 3; i++) {
        if (!is_lasting(worker, matrices[i].which))
            continue;
        kept += matrices[i].count * matrices[i].capacity * each;
        tile = mmul_max(tile, matrices[i].capacity * each);
    }
    // A gemm uses at most four entries. If each is larger than a tile by at most this, all four
    // still fit.
    enum mmul_status status =
        mmul_tile_cache_set_limit(&worker->kept, device, kept, tile + spare / 4, err);
    for (int i = 0; status == MMUL_OK && i < 3; i++)
        if (!mmul_worker_uses_in_place(worker, matrices[i].dtype) &&
            !is_lasting(worker, matrices[i].which))
            status = mmul_tile_cache_reserve(matrices[i].lanes, device, c_dtype, matrices[i].count,
                                             matrices[i].capacity, err);
    return status;
}

// Prepares the device for products with worker->options.
static enum mmul_status prepare_for_products(struct mmul_worker *worker, struct mmul_error *err) {
    struct mmul_tile *tile = &worker->tile;
    struct mmul_device *device = worker->context->device;
    const enum mmul_dtype c_dtype =
        mmul_dtype_of_product(worker->options.a_dtype, worker->options.b_dtype);
    *tile = worker->options.tile;
    if (tile->m == 0)
        return MMUL_OK;
    if (!mmul_device_can_borrow(device))
        *tile = fit_temporary(device, c_dtype, *tile);
    enum mmul_status status = MMUL_OK;
    if (!mmul_worker_uses_in_place(worker, c_dtype))
        status = mmul_staging_buffer_reserve(
            &worker->staging, tile->m * tile->n * (int64_t)mmul_dtype_bytes(c_dtype), err);
    if (status != MMUL_OK)
        return status;
    status = reserve_tiles(worker, err);
    return status == MMUL_OK ? status
                             : mmul_worker_fall_back(worker, err); // entries are created on demand
}

enum mmul_status mmul_worker_init(struct mmul_worker *worker, struct mmul_context *context,
                                  const struct mmul_worker_options *options,
                                  struct mmul_error *err) {
    *worker = (struct mmul_worker){.context = context, .options = *options};
    return prepare_for_products(worker, err);
}

static bool are_alike(const struct mmul_worker_options *a, const struct mmul_worker_options *b) {
    const struct mmul_tile *s = &a->tile, *t = &b->tile;
    return s->m == t->m && s->n == t->n && s->k == t->k && s->a_lanes == t->a_lanes &&
           s->b_lanes == t->b_lanes && s->c_lanes == t->c_lanes && s->free_bytes == t->free_bytes &&
           a->a_dtype == b->a_dtype && a->b_dtype == b->b_dtype && a->lasting == b->lasting;
}

// Prepares for operations other than products: all spare memory of the device caches values.
static enum mmul_status prepare_for_maps(struct mmul_worker *worker,
                                         const struct mmul_worker_options *options,
                                         struct mmul_error *err) {
    struct mmul_device *device = worker->context->device;
    if (options->kept_bytes == 0 || mmul_device_can_borrow(device))
        return MMUL_OK;
    drop_lanes(worker);
    worker->options = *options;
    enum mmul_status status =
        mmul_tile_cache_set_limit(&worker->kept, device, options->kept_bytes, INT64_MAX, err);
    return status == MMUL_OK ? status : mmul_worker_fall_back(worker, err);
}

enum mmul_status mmul_worker_reconfigure(struct mmul_worker *worker,
                                         const struct mmul_worker_options *options,
                                         struct mmul_error *err) {
    mmul_worker_invalidate_operands(worker);
    if (options->tile.m == 0)
        return prepare_for_maps(worker, options, err);
    if (are_alike(&worker->options, options))
        return MMUL_OK;
    drop_lanes(worker);
    worker->options = *options;
    return prepare_for_products(worker, err);
}

void mmul_worker_fini(struct mmul_worker *worker) {
    if (worker->context != NULL)
        release_device(worker);
    struct mmul_device *own[] = {worker->host, worker->judge};
    for (int i = 0; i < 2; i++)
        if (own[i] != NULL)
            mmul_device_close(own[i]);
    worker->host = worker->judge = NULL;
}
