// SPDX-License-Identifier: MIT
// Attention in tiles. The scores of some rows by some keys become exponentials in place, and these
// times the values are added to the result. Each row keeps its largest score so far and its sum of
// exponentials. A larger score rescales the earlier sums (Milakov, Gimelshein, "Online normalizer
// calculation for softmax", 2018; Dao, Fu, Ermon, Rudra, Re, "FlashAttention", 2022). The matrix of
// all scores therefore never exists. Each thread of the rank has rows of its own and multiplies
// alone. Tiles above the causal diagonal are skipped.
#include "device/cpu_map_attention.h"

#include <math.h>

#include "base/integer.h"
#include "base/memory.h"
#include "device/cpu_map.h"
#include "device/cpu_map_real.h"
#include "device/cpu_products.h"
#include "device/host_buffer.h"

enum {
    TILE_ROWS = MMUL_CPU_TILE_ROWS,
    TILE_ROWS_LEAST = MMUL_CPU_TILE_ROWS_LEAST,
    TILE_KEYS = MMUL_CPU_TILE_KEYS
};

struct attention {
    const struct mmul_map *map;
    int64_t tile_rows, keys, depth;
    struct mmul_strided q, k, v, mask; // operands of one matrix; k and v have col_step 1
    // attention_sums: the gradient of the result; v is the result itself then.
    struct mmul_strided gradient;
    mmul_real *out;
    bool has_mask, is_sums; // attention_sums: values per row, for gradients
    // k and v of all matrices, packed to col_step 1; NULL: they have it already.
    mmul_real *packed_keys, *packed_values;
    mmul_real *scratch;     // per part: a tile of scores, one of q, a row of the mask
    int64_t scratch_length; // per part
};

struct tile {
    int64_t row, rows, key, keys;
    mmul_real *scores; // ld TILE_KEYS
    mmul_real *mask;   // scratch memory for a row
    mmul_real *most;   // largest score per row; TILE_ROWS
    double *sums;
};

// Returns the number of keys that take part in row i, as in device/reference_map.c.
static int64_t count_keys(const struct attention *a, int64_t i) {
    const int64_t until = a->map->row + i + 1 + a->keys - a->map->shape.rows;
    return a->map->with->causal ? mmul_max(0, mmul_min(until, a->keys)) : a->keys;
}

void mmul_cpu_multiply_tile(const struct mmul_cpu_product *p) {
    struct mmul_buffer x = {.memory = (void *)(uintptr_t)p->x},
                       y = {.memory = (void *)(uintptr_t)p->y};
    struct mmul_buffer out = {.memory = p->out};
    mmul_cpu_multiply(&(struct mmul_gemm){.dtype = sizeof(mmul_real) == 8 ? MMUL_F64 : MMUL_F32,
                                          .transpose_b = p->transpose_y,
                                          .m = p->m,
                                          .n = p->n,
                                          .k = p->k,
                                          .alpha = p->alpha,
                                          .a = {&x, 0, p->x_ld},
                                          .b = {&y, 0, p->y_ld},
                                          .beta = p->beta,
                                          .c = {&out, 0, p->ld}});
}

// --------------------------------------------------------------------------------------- scores

// Replaces the first n scores of a row by exponentials and the rest by 0. Returns the factor for
// the row's result so far. Handles -infinity and NaN like softmax in cpu_map_rows.c.
MMUL_TARGET_CLONES static mmul_real exponentiate_row(mmul_real *scores, int64_t n, int64_t keys,
                                                     mmul_real *most, double *sum) {
    const mmul_real before = *most;
    mmul_real now = before;
    double powers = 0;
#pragma omp simd reduction(max : now)
    for (int64_t p = 0; p < n; p++)
        now = scores[p] > now ? scores[p] : now;
    const mmul_real shift = now > -INFINITY ? now : 0;
    mmul_cpu_exponentiate(scores, n, shift, scores);
#pragma omp simd reduction(+ : powers)
    for (int64_t p = 0; p < n; p++)
        powers += (double)scores[p];
    for (int64_t p = n; p < keys; p++)
        scores[p] = 0;
    const mmul_real factor = before > -INFINITY ? REAL(exp)(before - now) : 1;
    *sum = *sum * (double)factor + powers;
    *most = now;
    return factor;
}

MMUL_TARGET_CLONES static void add_mask(mmul_real *restrict scores, const mmul_real *restrict mask,
                                        int64_t n) {
    for (int64_t p = 0; p < n; p++)
        scores[p] += mask[p];
}

MMUL_TARGET_CLONES static void scale_row(mmul_real *row, int64_t n, mmul_real factor) {
    for (int64_t j = 0; j < n; j++)
        row[j] *= factor;
}

void mmul_cpu_add_mask_row(struct mmul_strided mask, int64_t n, mmul_real *scratch,
                           mmul_real *scores) {
    if (mask.col_step != 1) {
        mmul_cpu_pack(mask, 1, n, scratch, n);
        mask.at = scratch;
    }
    add_mask(scores, mask.at, n);
}

static void exponentiate_tile(const struct attention *a, const struct tile *t, mmul_real *out,
                              int64_t ld) {
    for (int64_t r = 0; r < t->rows; r++) {
        const int64_t n = mmul_max(0, mmul_min(count_keys(a, t->row + r) - t->key, t->keys));
        if (a->has_mask)
            mmul_cpu_add_mask_row(mmul_cpu_strided_at(a->mask, t->row + r, t->key), n, t->mask,
                                  t->scores + r * TILE_KEYS);
        const mmul_real factor =
            exponentiate_row(t->scores + r * TILE_KEYS, n, t->keys, &t->most[r], &t->sums[r]);
        if (t->key > 0 && factor != 1 && !a->is_sums)
            scale_row(out + r * ld, a->map->cols, factor);
    }
}

// --------------------------------------------------------------------------------------- result

static bool has_finite_values(const struct attention *a, const struct tile *t) {
    mmul_real sum = 0;
    for (int64_t p = 0; p < t->keys; p++) {
        const mmul_real *row = a->v.at + (t->key + p) * a->v.row_step;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < a->map->cols; j++)
            sum += row[j] * 0;
    }
    return sum == 0;
}

// Adds exponentials times values. On the diagonal, keys that take no part have exponential 0, but 0
// times infinity or NaN is NaN. Rows are then computed one by one.
static void add_values(const struct attention *a, const struct tile *t, mmul_real *out,
                       int64_t ld) {
    struct mmul_cpu_product product = {.x = t->scores,
                                       .x_ld = TILE_KEYS,
                                       .y = a->v.at + t->key * a->v.row_step,
                                       .y_ld = mmul_max(a->v.row_step, a->map->cols),
                                       .m = t->rows,
                                       .n = a->map->cols,
                                       .k = t->keys,
                                       .alpha = 1,
                                       .beta = t->key > 0 ? 1 : 0,
                                       .out = out,
                                       .ld = ld};
    if (count_keys(a, t->row) >= t->key + t->keys || has_finite_values(a, t)) {
        mmul_cpu_multiply_tile(&product);
        return;
    }
    product.m = 1;
    for (int64_t r = 0; r < t->rows; r++, product.x += TILE_KEYS, product.out += ld) {
        product.k = mmul_min(count_keys(a, t->row + r) - t->key, t->keys);
        if (product.k > 0)
            mmul_cpu_multiply_tile(&product);
    }
}

// Normalises rows. A row is 0 if no key takes part or each score is -infinity: its sum is 0 then.
static void normalise_rows(const struct attention *a, const struct tile *t, mmul_real *out,
                           int64_t ld) {
    for (int64_t r = 0; r < t->rows; r++) {
        const bool is_empty = t->sums[r] == 0;
        for (int64_t j = 0; is_empty && j < a->map->cols; j++)
            out[r * ld + j] = 0;
        if (!is_empty)
            scale_row(out + r * ld, a->map->cols, (mmul_real)(1 / t->sums[r]));
    }
}

// Writes for each row the log of its sum of exponentials, then the sum of products of the result
// and its gradient. The log of a sum of 0 is stored as +infinity: a gradient subtracts the log from
// the scores, so that each exponential of the row is 0 there.
static void finish_sums(const struct attention *a, const struct tile *t, mmul_real *out,
                        int64_t ld) {
    for (int64_t r = 0; r < t->rows; r++) {
        const struct mmul_strided y = mmul_cpu_strided_at(a->v, t->row + r, 0),
                                  dy = mmul_cpu_strided_at(a->gradient, t->row + r, 0);
        double sum = 0;
        for (int64_t j = 0; j < a->map->operands[2].cols; j++)
            sum += (double)y.at[j * y.col_step] * (double)dy.at[j * dy.col_step];
        out[r * ld] =
            (mmul_real)(t->sums[r] == 0 ? INFINITY : (double)t->most[r] + log(t->sums[r]));
        out[r * ld + 1] = (mmul_real)sum;
    }
}

static void attend_rows(const struct attention *a, struct tile *t, struct mmul_strided q) {
    const int64_t ld = a->map->result.ld, last = count_keys(a, t->row + t->rows - 1);
    mmul_real *out = a->out + t->row * ld;
    for (int64_t r = 0; r < t->rows; r++) {
        t->most[r] = -INFINITY;
        t->sums[r] = 0;
    }
    for (t->key = 0; t->key < last; t->key += TILE_KEYS) {
        t->keys = mmul_min(TILE_KEYS, last - t->key);
        mmul_cpu_multiply_tile(&(struct mmul_cpu_product){.x = q.at,
                                                          .x_ld = mmul_max(q.row_step, a->depth),
                                                          .y = a->k.at + t->key * a->k.row_step,
                                                          .y_ld = mmul_max(a->k.row_step, a->depth),
                                                          .transpose_y = true,
                                                          .m = t->rows,
                                                          .n = t->keys,
                                                          .k = a->depth,
                                                          .alpha = (mmul_real)a->map->with->scale,
                                                          .out = t->scores,
                                                          .ld = TILE_KEYS});
        exponentiate_tile(a, t, out, ld);
        if (!a->is_sums)
            add_values(a, t, out, ld);
    }
    if (a->is_sums)
        finish_sums(a, t, out, ld);
    else
        normalise_rows(a, t, out, ld);
}

// Returns the arguments for the t-th matrix.
static struct attention matrix_attention(const struct attention *a, int64_t t) {
    const struct mmul_map *map = a->map;
    struct attention one = *a;
    one.q = mmul_cpu_operand(map, 0, t);
    one.k = mmul_cpu_operand(map, 1, t);
    one.v = mmul_cpu_operand(map, 2, t);
    if (a->is_sums)
        one.gradient = mmul_cpu_operand(map, 3, t);
    if (a->has_mask)
        one.mask = mmul_cpu_operand(map, map->operand_count - 1, t);
    if (a->packed_keys != NULL)
        one.k = (struct mmul_strided){a->packed_keys + t * a->keys * a->depth, a->depth, 1};
    if (a->packed_values != NULL)
        one.v = (struct mmul_strided){a->packed_values + t * a->keys * map->cols, map->cols, 1};
    one.out = mmul_cpu_result(map, t);
    return one;
}

// The last rows, which have the most keys, come first.
static void attend_tiles(void *context, int part, int64_t matrix, int64_t begin, int64_t end) {
    const struct attention one = matrix_attention(context, matrix), *a = &one;
    const int64_t tiles = (a->map->rows + a->tile_rows - 1) / a->tile_rows;
    mmul_real most[TILE_ROWS];
    double sums[TILE_ROWS];
    mmul_real *scratch = a->scratch + part * a->scratch_length;
    struct tile t = {
        .scores = scratch, .mask = scratch + TILE_ROWS * TILE_KEYS, .most = most, .sums = sums};
    for (int64_t unit = begin; unit < end; unit++) {
        t.row = (tiles - 1 - unit) * a->tile_rows;
        t.rows = mmul_min(a->tile_rows, a->map->rows - t.row);
        struct mmul_strided q = mmul_cpu_strided_at(a->q, t.row, 0);
        if (q.col_step != 1) {
            mmul_real *packed = t.mask + TILE_KEYS;
            mmul_cpu_pack(q, t.rows, a->depth, packed, a->depth);
            q = (struct mmul_strided){packed, a->depth, 1};
        }
        attend_rows(a, &t, q);
    }
}

// ---------------------------------------------------------------------------------------- whole

enum mmul_status mmul_cpu_pack_operand(const struct mmul_map *map, int operand, mmul_real **packed,
                                       struct mmul_error *err) {
    const int64_t rows = map->operands[operand].rows, cols = map->operands[operand].cols;
    if (map->operands[operand].col_step == 1)
        return MMUL_OK;
    enum mmul_status status =
        MMUL_ALLOCATE_RAW(*packed, map->matrices * rows * cols, "attention", err);
    for (int64_t t = 0; status == MMUL_OK && t < map->matrices; t++)
        mmul_cpu_pack(mmul_cpu_operand(map, operand, t), rows, cols, *packed + t * rows * cols,
                      cols);
    return status;
}

static enum mmul_status run_tiles(void *self, struct attention *a, struct mmul_error *err) {
    const struct mmul_map *map = a->map;
    const double cost = (double)a->keys * (double)(a->depth + map->cols) / 8;
    int parts = mmul_cpu_count_parts(map, map->rows, cost);
    enum mmul_status status = mmul_cpu_begin_products(self, &parts, err);
    a->tile_rows =
        mmul_max(TILE_ROWS_LEAST, mmul_min(TILE_ROWS, map->matrices * map->rows / parts));
    a->scratch_length = (TILE_ROWS + 1) * TILE_KEYS + TILE_ROWS * a->depth;
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE_RAW(a->scratch, parts * a->scratch_length, "scores", err);
    if (status == MMUL_OK)
        mmul_cpu_run_parts(map, parts, (map->rows + a->tile_rows - 1) / a->tile_rows, attend_tiles,
                           a);
    mmul_cpu_end_products(self);
    mmul_free(a->scratch);
    return status;
}

enum mmul_status mmul_cpu_map_attention(void *self, const struct mmul_map *map,
                                        struct mmul_error *err) {
    struct attention a = {.map = map,
                          .keys = map->operands[1].rows,
                          .depth = map->operands[0].cols,
                          .has_mask = map->operand_count > mmul_operation_row(map->kind)->least,
                          .is_sums = map->kind == MMUL_ATTENTION_SUMS};
    enum mmul_status status = mmul_cpu_pack_operand(map, 1, &a.packed_keys, err);
    if (status == MMUL_OK && !a.is_sums)
        status = mmul_cpu_pack_operand(map, 2, &a.packed_values, err);
    if (status == MMUL_OK)
        status = run_tiles(self, &a, err);
    mmul_free(a.packed_keys);
    mmul_free(a.packed_values);
    return status;
}
