// SPDX-License-Identifier: MIT
// Walks a block of rows in tiles from left to right, so an element stays behind equal ones from
// earlier columns.
#include "exec/steps/fused_topk.h"

#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "exec/steps/block.h"
#include "exec/steps/checks.h"
#include "exec/steps/map_check.h"
#include "exec/steps/rank_resources.h"
#include "exec/steps/stage_work.h"
#include "model/dtype.h"

// Returns the type of the product and of the result.
static enum mmul_dtype dtype_of(const struct mmul_stage *stage) {
    return stage->plan->program->values[stage->operation->result].dtype;
}

static enum mmul_status create_memory(struct mmul_stage *stage, struct mmul_error *err) {
    struct mmul_fused_topk *s = stage->search;
    const size_t each = mmul_dtype_bytes(dtype_of(stage));
    const struct {
        void **memory;
        int64_t elements;
    } all[] = {{&s->product, s->is.product}, {&s->best, s->is.best}, {&s->merged, s->is.merged}};
    for (int i = 0; i < 3; i++) {
        if (*all[i].memory == NULL)
            *all[i].memory = mmul_allocate_raw(all[i].elements, each, "a search", err);
        if (*all[i].memory == NULL)
            return err->status;
    }
    return MMUL_OK;
}

void mmul_fused_topk_abandon(struct mmul_stage *stage) {
    if (stage->search != NULL)
        stage->search->product = stage->search->best = NULL;
}

void mmul_fused_topk_release(struct mmul_fused_topk *search) {
    MMUL_FREE_ALL(search->product, search->best, search->merged);
    search->product = search->best = search->merged = NULL;
}

enum mmul_status mmul_fused_topk_init(struct mmul_stage *stage, int64_t rows,
                                      struct mmul_error *err) {
    enum mmul_status status = MMUL_ALLOCATE(stage->search, 1, "a search", err);
    if (status == MMUL_OK)
        stage->search->is = mmul_program_search_size(stage->plan, stage->is.step, rows);
    return status;
}

void mmul_fused_topk_fini(struct mmul_stage *stage) {
    if (stage->search != NULL)
        mmul_fused_topk_release(stage->search);
    mmul_free(stage->search);
}

// ------------------------------------------------------------------------------------------- tiles

// Region of the product.
struct tile {
    const struct mmul_block_owner *part; // owner of the block
    struct mmul_region at;
    int64_t rows, cols;
    int64_t best; // number of elements per row that may be among the k largest
};

static struct mmul_product describe_product(const struct mmul_stage *stage, const struct tile *tile,
                                            int64_t inner) {
    const struct mmul_view x = mmul_block_operand(stage, tile->part, 0, tile->at.matrix),
                           y = mmul_block_operand(stage, tile->part, 1, tile->at.matrix);
    return (struct mmul_product){.transpose_a = x.transposed,
                                 .transpose_b = y.transposed,
                                 .m = tile->rows,
                                 .n = tile->cols,
                                 .k = inner,
                                 .alpha = 1,
                                 .a_dtype = x.dtype,
                                 .b_dtype = y.dtype,
                                 .a = mmul_view_element(&x, tile->at.row_begin, 0),
                                 .lda = x.ld,
                                 .b = mmul_view_element(&y, 0, tile->at.col_begin),
                                 .ldb = y.ld,
                                 .c = stage->search->product,
                                 .ldc = tile->cols};
}

static enum mmul_status find_largest(struct mmul_stage *stage, const struct tile *tile,
                                     const char *place, struct mmul_error *err) {
    struct mmul_parameters with = stage->operation->with;
    with.count = tile->best;
    const struct mmul_host_map host = {.map = {.kind = MMUL_TOPK,
                                               .with = &with,
                                               .rows = tile->rows,
                                               .cols = 2 * tile->best,
                                               .shape = {1, 1, tile->rows, 2 * tile->best},
                                               .matrices = 1,
                                               .operand_count = 1},
                                       .operands = {{.at = stage->search->product,
                                                     .dtype = dtype_of(stage),
                                                     .row_step = tile->cols,
                                                     .col_step = 1,
                                                     .rows = tile->rows,
                                                     .cols = tile->cols}},
                                       .result = stage->search->best,
                                       .dtype = dtype_of(stage),
                                       .ld = 2 * tile->best};
    return mmul_stage_run_map(stage, stage->operation, &host, place, err);
}

// Largest elements of a row in order, followed at index `most` by their columns.
struct list {
    const void *at;
    int64_t most, count;
};

// Orders elements as topk does: NaN first, then larger ones. Equal elements keep their order.
static bool is_before(double x, double y) {
    return isnan(y) ? false : isnan(x) || x > y;
}

// Merges two lists and keeps the first k. `right` holds later columns than `left`, counted from
// `begin`.
static void merge_lists(enum mmul_dtype dtype, struct list left, struct list right, int64_t begin,
                        int64_t k, void *to) {
    for (int64_t i = 0, l = 0, r = 0; i < k; i++) {
        const double x = l < left.count ? mmul_dtype_get_real(dtype, left.at, l) : 0,
                     y = r < right.count ? mmul_dtype_get_real(dtype, right.at, r) : 0;
        const bool is_left = l < left.count && (r == right.count || !is_before(y, x));
        const struct list from = is_left ? left : right;
        const int64_t place = is_left ? l : r;
        mmul_dtype_set_real(dtype, to, i, is_left ? x : y);
        mmul_dtype_set_real(dtype, to, k + i,
                            (is_left ? 0 : (double)begin) +
                                mmul_dtype_get_real(dtype, from.at, from.most + place));
        l += is_left;
        r += !is_left;
    }
}

static void merge_rows(struct mmul_stage *stage, const struct tile *tile) {
    const struct mmul_fused_topk *s = stage->search;
    const enum mmul_dtype dtype = dtype_of(stage);
    const int64_t k = stage->operation->with.count, begin = tile->at.col_begin;
    const struct mmul_view view = mmul_block_result(stage, tile->part, tile->at.matrix);
    for (int64_t i = 0; i < tile->rows; i++) {
        void *to = mmul_view_element(&view, tile->at.row_begin + i, 0);
        const struct list left = {to, k, begin > 0 ? k : 0},
                          right = {mmul_dtype_advance(dtype, s->best, i * 2 * tile->best),
                                   tile->best, tile->best};
        merge_lists(dtype, left, right, begin, k, s->merged);
        memcpy(to, s->merged, (size_t)(2 * k) * mmul_dtype_bytes(dtype));
    }
}

// Drops the device's copies of the search's memory: they belong to the previous tile.
static void drop_from_device(struct mmul_stage *stage) {
    const struct mmul_fused_topk *s = stage->search;
    const size_t each = mmul_dtype_bytes(dtype_of(stage));
    mmul_worker_invalidate_memory(&stage->rank_resources->worker, s->product,
                                  (char *)s->product + (size_t)s->is.product * each);
    mmul_worker_invalidate_memory(&stage->rank_resources->worker, s->best,
                                  (char *)s->best + (size_t)s->is.best * each);
}

static enum mmul_status make_tile(struct mmul_stage *stage, const struct tile *tile, int64_t inner,
                                  struct mmul_error *err) {
    const struct mmul_product product = describe_product(stage, tile, inner);
    char place[MMUL_BLOCK_NAME_BYTES];
    mmul_block_name(stage, tile->at, place);
    drop_from_device(stage);
    enum mmul_status status = mmul_stage_multiply(stage, &product, 0, err);
    if (status == MMUL_OK)
        status = mmul_stage_check_product(
            stage, &(struct mmul_verifier_block){.product = &product, .place = place}, false, err);
    if (status == MMUL_OK)
        status = find_largest(stage, tile, place, err);
    if (status == MMUL_OK)
        merge_rows(stage, tile);
    return status;
}

enum mmul_status mmul_fused_topk_make_block(struct mmul_stage *stage,
                                            const struct mmul_block_owner *part,
                                            const struct mmul_block *block,
                                            struct mmul_error *err) {
    const struct mmul_region b = block->at;
    const int64_t cols = stage->plan->program->values[stage->operation->operands[1]].shape.cols,
                  k = stage->operation->with.count;
    struct mmul_fused_topk *s = stage->search;
    enum mmul_status status = create_memory(stage, err);
    mmul_verifier_invalidate(&stage->verifier);
    for (int64_t row = b.row_begin; row < b.row_end; row += s->is.rows)
        for (int64_t col = 0; status == MMUL_OK && col < cols; col += s->is.cols) {
            struct tile tile = {.part = part,
                                .at = {b.matrix, row, mmul_min(row + s->is.rows, b.row_end), col,
                                       mmul_min(col + s->is.cols, cols)}};
            tile.rows = tile.at.row_end - row;
            tile.cols = tile.at.col_end - col;
            tile.best = mmul_min(k, tile.cols);
            if (mmul_failure_is_void(&stage->rank_resources->failure))
                return MMUL_OK; // another failure has ended the run
            status = make_tile(stage, &tile, block->inner_end, err);
        }
    if (status == MMUL_OK && s->product != NULL)
        drop_from_device(stage);
    return status;
}
