// SPDX-License-Identifier: MIT
// Gradients of attention in tiles. The scores of some result rows by some of the others are
// recomputed from the values that attention_sums stored for every query (Dao, "FlashAttention-2",
// 2023). They become exponentials and then slopes in place, and these times the others are added to
// the result. A matrix of all scores never exists. For q, result rows are queries and the others
// keys; for k and v the reverse. For the mask, the slopes are the result. Each gradient recomputes
// its own scores, because its rows may be on other ranks.
#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "device/cpu_map.h"
#include "device/cpu_map_attention.h"
#include "device/cpu_map_real.h"
#include "device/cpu_products.h"

enum {
    TILE_ROWS = MMUL_CPU_TILE_ROWS,
    TILE_OTHERS = MMUL_CPU_TILE_KEYS,
    TILE = TILE_ROWS * TILE_OTHERS
};

enum { Q, K, V, DY, SUMS, MASK, STRAIGHT = SUMS }; // operands; those before SUMS are multiplied

struct backward {
    const struct mmul_map *map;
    bool by_key; // result rows are keys
    int64_t tile_rows, others;
    // Operands of a matrix; from SUMS on, as rows of the result by others.
    struct mmul_strided operands[MMUL_OPERANDS];
    mmul_real *packed[STRAIGHT]; // packed operands of all matrices; NULL: col_step is 1
    mmul_real *out;
    mmul_real *scratch;     // per part: two tiles, and rows of the others
    int64_t scratch_length; // per part
};

// Rows of the result by others. If the others are queries, their sums are packed.
struct tile {
    int64_t row, rows, first, count;
    mmul_real *scores, *slopes; // ld TILE_OTHERS
    mmul_real *logs, *along, *mask;
};

// Finds the range of others that take part in row r, as in device/reference_map.c.
static void find_range(const struct backward *b, int64_t r, int64_t *begin, int64_t *end) {
    const struct mmul_map *map = b->map;
    const int64_t rows = b->by_key ? b->others : map->shape.rows;
    const int64_t more = (b->by_key ? map->shape.rows : b->others) - rows, at = map->row + r;
    *begin = 0;
    *end = b->others;
    if (map->with->causal && b->by_key)
        *begin = mmul_min(b->others, mmul_max(0, at - more));
    else if (map->with->causal)
        *end = mmul_max(0, mmul_min(b->others, at + 1 + more));
}

// ------------------------------------------------------------------------------------------ slopes

MMUL_TARGET_CLONES static void subtract(mmul_real *restrict x, const mmul_real *restrict y,
                                        int64_t n) {
    for (int64_t j = 0; j < n; j++)
        x[j] -= y[j];
}

MMUL_TARGET_CLONES static void exponentiate(mmul_real *x, int64_t n, mmul_real shift) {
    mmul_cpu_exponentiate(x, n, shift, x);
}

MMUL_TARGET_CLONES static void multiply_slopes(mmul_real *restrict x, const mmul_real *restrict dx,
                                               mmul_real along, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        x[j] *= dx[j] - along;
}

// Replaces the scores of row r by exponentials p = exp(s - log), and these by slopes p (dy v^T -
// along). Others that take no part get 0.
static void weigh_row(const struct backward *b, const struct tile *t, int64_t r) {
    mmul_real *scores = t->scores + r * TILE_OTHERS, *slopes = t->slopes + r * TILE_OTHERS;
    const struct mmul_strided sums = mmul_cpu_strided_at(b->operands[SUMS], t->row + r, 0);
    int64_t begin, end;
    find_range(b, t->row + r, &begin, &end);
    begin = mmul_min(t->count, mmul_max(0, begin - t->first));
    end = mmul_max(begin, mmul_min(t->count, end - t->first));
    memset(scores, 0, (size_t)begin * sizeof *scores);
    memset(scores + end, 0, (size_t)(t->count - end) * sizeof *scores);
    scores += begin;
    slopes += begin;
    const int64_t n = end - begin;
    if (b->map->operand_count > MASK)
        mmul_cpu_add_mask_row(mmul_cpu_strided_at(b->operands[MASK], t->row + r, t->first + begin),
                              n, t->mask, scores);
    if (b->by_key)
        subtract(scores, t->logs + begin, n);
    exponentiate(scores, n, b->by_key ? 0 : sums.at[0]);
    if (b->map->kind == MMUL_ATTENTION_BACKWARD_V)
        return;
    if (b->by_key)
        subtract(slopes, t->along + begin, n);
    multiply_slopes(scores, slopes, b->by_key ? 0 : sums.at[sums.col_step], n);
}

// Computes x y^T of result rows and others.
static void multiply_rows(const struct backward *b, const struct tile *t, int own, int other,
                          mmul_real *out) {
    const struct mmul_strided x = mmul_cpu_strided_at(b->operands[own], t->row, 0),
                              y = mmul_cpu_strided_at(b->operands[other], t->first, 0);
    const int64_t depth = b->map->operands[own].cols;
    mmul_cpu_multiply_tile(
        &(struct mmul_cpu_product){.x = x.at,
                                   .x_ld = mmul_max(x.row_step, depth),
                                   .y = y.at,
                                   .y_ld = mmul_max(y.row_step, depth),
                                   .transpose_y = true,
                                   .m = t->rows,
                                   .n = t->count,
                                   .k = depth,
                                   .alpha = own < V ? (mmul_real)b->map->with->scale : 1,
                                   .out = out,
                                   .ld = TILE_OTHERS});
}

static void make_slopes(const struct backward *b, const struct tile *t) {
    multiply_rows(b, t, b->by_key ? K : Q, b->by_key ? Q : K, t->scores);
    if (b->map->kind != MMUL_ATTENTION_BACKWARD_V)
        multiply_rows(b, t, b->by_key ? V : DY, b->by_key ? DY : V, t->slopes);
    if (b->by_key) {
        const struct mmul_strided sums = mmul_cpu_strided_at(b->operands[SUMS], t->first, 0);
        for (int64_t j = 0; j < t->count; j++) {
            t->logs[j] = sums.at[j * sums.row_step];
            t->along[j] = sums.at[j * sums.row_step + sums.col_step];
        }
    }
    for (int64_t r = 0; r < t->rows; r++)
        weigh_row(b, t, r);
}

// ------------------------------------------------------------------------------------------ result

static void add_to_result(const struct backward *b, const struct tile *t) {
    const struct mmul_map *map = b->map;
    const int with = map->kind == MMUL_ATTENTION_BACKWARD_Q      ? K
                     : b->map->kind == MMUL_ATTENTION_BACKWARD_K ? Q
                                                                 : DY;
    const int64_t ld = map->result.ld;
    mmul_real *out = b->out + t->row * ld;
    if (map->kind == MMUL_ATTENTION_BACKWARD_MASK) {
        for (int64_t r = 0; r < t->rows; r++)
            memcpy(out + r * ld + t->first, t->scores + r * TILE_OTHERS,
                   (size_t)t->count * sizeof *out);
        return;
    }
    const struct mmul_strided y = mmul_cpu_strided_at(b->operands[with], t->first, 0);
    mmul_cpu_multiply_tile(
        &(struct mmul_cpu_product){.x = t->scores,
                                   .x_ld = TILE_OTHERS,
                                   .y = y.at,
                                   .y_ld = mmul_max(y.row_step, map->cols),
                                   .m = t->rows,
                                   .n = map->cols,
                                   .k = t->count,
                                   .alpha = with == DY ? 1 : (mmul_real)map->with->scale,
                                   .beta = 1,
                                   .out = out,
                                   .ld = ld});
}

static void process_others(const struct backward *b, struct tile *t) {
    int64_t begin, end, unused;
    find_range(b, t->row, &begin, &unused);
    find_range(b, t->row + t->rows - 1, &unused, &end);
    for (int64_t r = 0; r < t->rows; r++)
        memset(b->out + (t->row + r) * b->map->result.ld, 0, (size_t)b->map->cols * sizeof *b->out);
    for (t->first = begin; t->first < end; t->first += TILE_OTHERS) {
        t->count = mmul_min(TILE_OTHERS, end - t->first);
        make_slopes(b, t);
        add_to_result(b, t);
    }
}

// Returns the arguments for the t-th matrix.
static struct backward matrix_backward(const struct backward *all, int64_t t) {
    const struct mmul_map *map = all->map;
    struct backward b = *all;
    for (int i = 0; i < map->operand_count; i++)
        b.operands[i] = mmul_cpu_operand(map, i, t);
    for (int i = 0; i < STRAIGHT; i++) {
        const int64_t rows = map->operands[i].rows, cols = map->operands[i].cols;
        if (b.packed[i] != NULL)
            b.operands[i] = (struct mmul_strided){b.packed[i] + t * rows * cols, cols, 1};
    }
    if (b.by_key && map->operand_count > MASK)
        b.operands[MASK] = (struct mmul_strided){b.operands[MASK].at, b.operands[MASK].col_step,
                                                 b.operands[MASK].row_step};
    b.out = mmul_cpu_result(map, t);
    return b;
}

static void process_tiles(void *context, int part, int64_t matrix, int64_t begin, int64_t end) {
    const struct backward one = matrix_backward(context, matrix), *b = &one;
    mmul_real *scratch = b->scratch + part * b->scratch_length, *rows = scratch + 2 * TILE;
    struct tile t = {.scores = scratch,
                     .slopes = scratch + TILE,
                     .logs = rows,
                     .along = rows + TILE_OTHERS,
                     .mask = rows + 2 * TILE_OTHERS};
    for (int64_t unit = begin; unit < end; unit++) {
        t.row = unit * b->tile_rows;
        t.rows = mmul_min(b->tile_rows, b->map->rows - t.row);
        process_others(b, &t);
    }
}

static enum mmul_status run_tiles(void *self, struct backward *b, struct mmul_error *err) {
    const struct mmul_map *map = b->map;
    const double cost =
        (double)b->others * (double)(map->operands[Q].cols + map->operands[V].cols) / 4;
    int parts = mmul_cpu_count_parts(map, map->rows, cost);
    enum mmul_status status = mmul_cpu_begin_products(self, &parts, err);
    b->tile_rows =
        mmul_max(MMUL_CPU_TILE_ROWS_LEAST, mmul_min(TILE_ROWS, map->matrices * map->rows / parts));
    b->scratch_length = 2 * TILE + 3 * TILE_OTHERS;
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE_RAW(b->scratch, parts * b->scratch_length, "scores", err);
    if (status == MMUL_OK)
        mmul_cpu_run_parts(map, parts, mmul_divide_up(map->rows, b->tile_rows), process_tiles, b);
    mmul_cpu_end_products(self);
    mmul_free(b->scratch);
    return status;
}

enum mmul_status mmul_cpu_map_attention_backward(void *self, const struct mmul_map *map,
                                                 struct mmul_error *err) {
    const bool by_key = mmul_operation_row(map->kind)->parts[Q] == 'a';
    struct backward b = {
        .map = map, .by_key = by_key, .others = map->operands[by_key ? Q : K].rows};
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < STRAIGHT; i++)
        status = mmul_cpu_pack_operand(map, i, &b.packed[i], err);
    if (status == MMUL_OK)
        status = run_tiles(self, &b, err);
    for (int i = 0; i < STRAIGHT; i++)
        mmul_free(b.packed[i]);
    return status;
}
