// SPDX-License-Identifier: MIT
// Tiles of a product on one device. Operands the device can use where they lie are not copied;
// others are staged: uploaded into a tile-sized buffer, widened there when they are 16-bit.
//
//        n0        for each column of tiles n0, for each row of tiles m0:
//      +----+          for each k0: C(m0,n0) += A(m0,k0) B(k0,n0)
//   m0 | C  |      so B's tile stays on the device while A's pass by, when k is not cut.
//      +----+
//
// Does not check results (exec/verify) and decides nothing about who computes what.
#include "exec/worker.h"

#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"

// ------------------------------------------------------------------------------------- staging

static bool in_place(const struct mmul_worker *worker, enum mmul_dtype dtype) {
    return dtype == MMUL_F32 && mmul_device_can_borrow(worker->context->device);
}

static void stage_drop(struct mmul_worker *worker, struct mmul_stage *stage) {
    mmul_device_buffer_destroy(worker->context->device, stage->buffer);
    *stage = (struct mmul_stage){0};
}

static enum mmul_status stage_reserve(struct mmul_worker *worker, struct mmul_stage *stage,
                                      int64_t count, struct mmul_error *err) {
    if (stage->capacity >= count)
        return MMUL_OK;
    stage_drop(worker, stage);
    enum mmul_status status =
        mmul_device_buffer_create(worker->context->device, count, &stage->buffer, err);
    if (status == MMUL_OK)
        stage->capacity = count;
    return status;
}

// Where the device finds a matrix of the product: borrowed whole for the time of the product, or
// tile by tile in a stage.
struct source {
    const char *host;
    enum mmul_dtype dtype;
    int64_t ld;
    struct mmul_buffer *borrowed;
    struct mmul_stage *stage;
};

// Borrows rows x cols elements at `host` when the device can use them there.
static enum mmul_status source_init(struct mmul_worker *worker, struct source *source,
                                    const void *host, enum mmul_dtype dtype, int64_t ld,
                                    int64_t rows, int64_t cols, struct mmul_stage *stage,
                                    struct mmul_error *err) {
    *source = (struct source){.host = host, .dtype = dtype, .ld = ld, .stage = stage};
    if (!in_place(worker, dtype))
        return MMUL_OK;
    return mmul_device_buffer_borrow(worker->context->device, (float *)(uintptr_t)host,
                                     (rows - 1) * ld + cols, &source->borrowed, err);
}

static void source_fini(struct mmul_worker *worker, struct source *source) {
    mmul_device_buffer_destroy(worker->context->device, source->borrowed);
}

// The tile of rows x cols at (row, col) as the device's operand; uploads it when it is not there.
static enum mmul_status source_tile(struct mmul_worker *worker, const struct source *source,
                                    int64_t row, int64_t col, int64_t rows, int64_t cols,
                                    struct mmul_operand *operand, struct mmul_error *err) {
    int64_t offset = row * source->ld + col;
    if (source->borrowed != NULL) {
        *operand = (struct mmul_operand){source->borrowed, offset, source->ld};
        return MMUL_OK;
    }
    struct mmul_stage *stage = source->stage;
    const char *host = source->host + offset * (int64_t)mmul_dtype_bytes(source->dtype);
    enum mmul_status status = stage_reserve(worker, stage, rows * cols, err);
    if (status != MMUL_OK)
        return status;
    *operand = (struct mmul_operand){stage->buffer, 0, cols};
    if (stage->holds == host && stage->rows == rows && stage->cols == cols)
        return MMUL_OK;
    stage->holds = NULL;
    status = mmul_device_upload(worker->context->device, *operand, rows, cols, host, source->ld,
                                source->dtype, err);
    if (status == MMUL_OK) {
        stage->holds = host;
        stage->rows = rows;
        stage->cols = cols;
    }
    return status;
}

// ---------------------------------------------------------------------------------- one product

struct tile_place {
    int64_t m0, n0, k0, m, n, k;
};

struct sources {
    struct source a, b, c;
};

// One gemm of a tile: the first along k applies beta, the later ones add.
static enum mmul_status multiply_tile(struct mmul_worker *worker, const struct mmul_product *p,
                                      const struct sources *s, const struct tile_place *at,
                                      struct mmul_operand c, struct mmul_error *err) {
    struct mmul_gemm args = {.transpose_a = p->transpose_a,
                             .transpose_b = p->transpose_b,
                             .m = at->m,
                             .n = at->n,
                             .k = at->k,
                             .alpha = p->alpha,
                             .beta = at->k0 == 0 ? p->beta : 1,
                             .c = c};
    enum mmul_status status =
        p->transpose_a ? source_tile(worker, &s->a, at->k0, at->m0, at->k, at->m, &args.a, err)
                       : source_tile(worker, &s->a, at->m0, at->k0, at->m, at->k, &args.a, err);
    if (status == MMUL_OK)
        status = p->transpose_b
                     ? source_tile(worker, &s->b, at->n0, at->k0, at->n, at->k, &args.b, err)
                     : source_tile(worker, &s->b, at->k0, at->n0, at->k, at->n, &args.b, err);
    return status == MMUL_OK ? mmul_device_gemm(worker->context->device, &args, err) : status;
}

// C of a tile: where it lies, or staged (with C_in in it when beta asks for it).
static enum mmul_status begin_c_tile(struct mmul_worker *worker, const struct mmul_product *p,
                                     const struct sources *s, const struct tile_place *at,
                                     struct mmul_operand *c, struct mmul_error *err) {
    if (s->c.borrowed != NULL) {
        *c = (struct mmul_operand){s->c.borrowed, at->m0 * p->ldc + at->n0, p->ldc};
        return MMUL_OK;
    }
    enum mmul_status status = stage_reserve(worker, &worker->c, at->m * at->n, err);
    *c = (struct mmul_operand){worker->c.buffer, 0, at->n};
    if (status != MMUL_OK || p->beta == 0)
        return status;
    return mmul_device_upload(worker->context->device, *c, at->m, at->n,
                              p->c + at->m0 * p->ldc + at->n0, p->ldc, MMUL_F32, err);
}

static enum mmul_status end_c_tile(struct mmul_worker *worker, const struct mmul_product *p,
                                   const struct sources *s, const struct tile_place *at,
                                   struct mmul_operand c, struct mmul_error *err) {
    if (s->c.borrowed != NULL)
        return MMUL_OK;
    enum mmul_status status = mmul_device_download(worker->context->device, c, at->m, at->n,
                                                   p->c + at->m0 * p->ldc + at->n0, p->ldc, err);
    // Waited for at once: a device that is lost later must not write into C any more.
    return status == MMUL_OK ? mmul_device_wait(worker->context->device, err) : status;
}

static enum mmul_status multiply_c_tile(struct mmul_worker *worker, const struct mmul_product *p,
                                        const struct sources *s, struct tile_place at,
                                        int64_t tile_k, struct mmul_error *err) {
    struct mmul_operand c;
    enum mmul_status status = begin_c_tile(worker, p, s, &at, &c, err);
    for (at.k0 = 0; status == MMUL_OK && at.k0 < p->k; at.k0 += tile_k) {
        at.k = mmul_smaller(tile_k, p->k - at.k0);
        status = multiply_tile(worker, p, s, &at, c, err);
    }
    return status == MMUL_OK ? end_c_tile(worker, p, s, &at, c, err) : status;
}

// A device that copies nothing needs no tiles.
static struct mmul_tile tile_for(const struct mmul_worker *worker, const struct mmul_product *p) {
    if (in_place(worker, p->a_dtype) && in_place(worker, p->b_dtype))
        return (struct mmul_tile){.m = p->m, .n = p->n, .k = p->k};
    return worker->tile;
}

static enum mmul_status multiply_tiles(struct mmul_worker *worker, const struct mmul_product *p,
                                       const struct sources *s, struct mmul_error *err) {
    struct mmul_tile tile = tile_for(worker, p);
    enum mmul_status status = MMUL_OK;
    for (int64_t n0 = 0; status == MMUL_OK && n0 < p->n; n0 += tile.n)
        for (int64_t m0 = 0; status == MMUL_OK && m0 < p->m; m0 += tile.m) {
            const struct tile_place at = {.m0 = m0,
                                          .n0 = n0,
                                          .m = mmul_smaller(tile.m, p->m - m0),
                                          .n = mmul_smaller(tile.n, p->n - n0)};
            status = multiply_c_tile(worker, p, s, at, tile.k, err);
        }
    return status == MMUL_OK ? mmul_device_wait(worker->context->device, err) : status;
}

static enum mmul_status multiply_on_device(struct mmul_worker *worker, const struct mmul_product *p,
                                           struct mmul_error *err) {
    struct sources s = {0};
    int64_t a_rows = p->transpose_a ? p->k : p->m, a_cols = p->transpose_a ? p->m : p->k;
    int64_t b_rows = p->transpose_b ? p->n : p->k, b_cols = p->transpose_b ? p->k : p->n;
    enum mmul_status status =
        source_init(worker, &s.a, p->a, p->a_dtype, p->lda, a_rows, a_cols, &worker->a, err);
    if (status == MMUL_OK)
        status =
            source_init(worker, &s.b, p->b, p->b_dtype, p->ldb, b_rows, b_cols, &worker->b, err);
    if (status == MMUL_OK)
        status = source_init(worker, &s.c, p->c, MMUL_F32, p->ldc, p->m, p->n, &worker->c, err);
    if (status == MMUL_OK)
        status = multiply_tiles(worker, p, &s, err);
    source_fini(worker, &s.c);
    source_fini(worker, &s.b);
    source_fini(worker, &s.a);
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
    stage_drop(worker, &worker->a);
    stage_drop(worker, &worker->b);
    stage_drop(worker, &worker->c);
    worker->replaced = true;
}

static enum mmul_status fall_back(struct mmul_worker *worker, struct mmul_error *err) {
    leave_device(worker);
    return mmul_context_fall_back(worker->context, worker->no_fallback, err);
}

enum mmul_status mmul_worker_distrust(struct mmul_worker *worker, const char *why,
                                      struct mmul_error *err) {
    leave_device(worker);
    return mmul_context_replace_device(worker->context, why, err);
}

// beta applies to what C holds when the product begins; a product done again begins again.
static void load_c_in(const struct mmul_product *p) {
    for (int64_t i = 0; p->beta != 0 && i < p->m; i++)
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
        load_c_in(product);
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
    }
    return tile;
}

enum mmul_status mmul_worker_init(struct mmul_worker *worker, struct mmul_context *context,
                                  struct mmul_tile tile, enum mmul_dtype a_dtype,
                                  enum mmul_dtype b_dtype, bool no_fallback,
                                  struct mmul_error *err) {
    *worker = (struct mmul_worker){.context = context, .tile = tile, .no_fallback = no_fallback};
    enum mmul_status status = MMUL_OK;
    if (tile.m == 0)
        return MMUL_OK;
    if (!mmul_device_can_borrow(context->device))
        worker->tile = tile = fit_temporary(context->device, tile);
    if (!in_place(worker, a_dtype))
        status = stage_reserve(worker, &worker->a, tile.m * tile.k, err);
    if (status == MMUL_OK && !in_place(worker, b_dtype))
        status = stage_reserve(worker, &worker->b, tile.k * tile.n, err);
    if (status == MMUL_OK && !in_place(worker, MMUL_F32))
        status = stage_reserve(worker, &worker->c, tile.m * tile.n, err);
    return status == MMUL_OK ? status : fall_back(worker, err); // stages come when needed
}

void mmul_worker_fini(struct mmul_worker *worker) {
    if (worker->context != NULL)
        leave_device(worker);
}
