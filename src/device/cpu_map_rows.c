// SPDX-License-Identifier: MIT
// Operations on one row at a time, in two passes while the row is in the cache. The first pass
// prefetches the memory that the second one writes, the second pass the next row. Otherwise one
// pass would only read and the other only write. Sums within a block use mmul_real, with few terms
// per vector lane, and double from block to block: the error is a few units in the last place for
// any row length.
#include "device/cpu_map_rows.h"

#include <math.h>

#include "base/integer.h"
#include "base/memory.h"
#include "device/cpu_map.h"
#include "device/cpu_map_real.h"

// block of a row; prefetch step; positions with the same base; longest row that is prefetched
enum { BLOCK = 256, STEP = 64, TURNS = 16, PREFETCH_MOST = 16384 / sizeof(mmul_real) };

// Memory to prefetch while a row is computed: the next row and its result. NULL: none.
struct upcoming {
    const mmul_real *x, *out;
};

// Prefetches n elements; NULL: none.
MMUL_INLINE void prefetch(const mmul_real *at, int64_t n) {
    for (int64_t j = 0; at != NULL && j < n; j += MMUL_CPU_CACHE_LINE)
        __builtin_prefetch(at + j);
}

MMUL_INLINE const mmul_real *offset_or_null(const mmul_real *at, int64_t j) {
    return at != NULL ? at + j : NULL;
}

// -------------------------------------------------------------------------------------- softmax

MMUL_INLINE mmul_real largest_of(const mmul_real *x, int64_t n, mmul_real most) {
#pragma omp simd reduction(max : most)
    for (int64_t j = 0; j < n; j++)
        most = x[j] > most ? x[j] : most;
    return most;
}

// Writes exp(x - shift) and returns their sum. This is the slowest pass, so the prefetches are
// issued here.
MMUL_INLINE double exponentiate(const mmul_real *restrict x, int64_t n, mmul_real shift,
                                mmul_real *restrict out, struct upcoming upcoming) {
    double all = 0;
    for (int64_t j = 0; j < n; j += BLOCK) {
        const int64_t end = mmul_min(n, j + BLOCK);
        mmul_real sum = 0;
        for (int64_t step = j; step < end; step += STEP) {
            const int64_t step_end = mmul_min(end, step + STEP);
            prefetch(offset_or_null(upcoming.x, step), step_end - step);
            prefetch(offset_or_null(upcoming.out, step), step_end - step);
            mmul_cpu_exponentiate(x + step, step_end - step, shift, out + step);
        }
#pragma omp simd reduction(+ : sum)
        for (int64_t l = j; l < end; l++)
            sum += out[l];
        all += (double)sum;
    }
    return all;
}

MMUL_INLINE void scale(mmul_real *x, int64_t n, mmul_real factor) {
    for (int64_t j = 0; j < n; j++)
        x[j] *= factor;
}

// Computes, part by part, exponentials relative to the largest element so far, and their sum, which
// a larger element rescales (Milakov, Gimelshein, "Online normalizer calculation for softmax",
// 2018). Then each part is scaled by its missing factor. While all elements are -infinity, 0 is
// subtracted: their exponentials are 0, those of NaN are NaN, and a row of -infinity ends as 0 / 0.
MMUL_TARGET_CLONES static void softmax(const struct mmul_cpu_rows *rows,
                                       const mmul_real *restrict x, int64_t count,
                                       mmul_real *restrict out, struct upcoming upcoming) {
    enum { STRETCHES = 64 };
    mmul_real shifts[STRETCHES], most = -INFINITY, shift = 0;
    const int64_t length = mmul_max(4 * BLOCK, (count + STRETCHES - 1) / STRETCHES);
    double sum = 0;
    for (int64_t j = 0; j < count; j += length) {
        const int64_t n = mmul_min(length, count - j);
        const mmul_real last = shift;
        most = largest_of(x + j, n, most);
        if (most > -INFINITY) {
            sum *= sum > 0 ? exp((double)(last - most)) : 1;
            shift = most;
        }
        sum += exponentiate(
            x + j, n, shift, out + j,
            (struct upcoming){offset_or_null(upcoming.x, j), offset_or_null(upcoming.out, j)});
        shifts[j / length] = shift;
    }
    for (int64_t j = 0; j < count; j += length) {
        const double missing_factor =
            shifts[j / length] == shift ? 1 : exp((double)(shifts[j / length] - shift));
        scale(out + j, mmul_min(length, count - j), (mmul_real)(missing_factor / sum));
    }
    for (int64_t j = count; j < rows->cols; j++)
        out[j] = 0;
}

// ---------------------------------------------------------------------------------------- norms

MMUL_INLINE double add_squares_slowly(const mmul_real *x, int64_t n) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++)
        sum += (double)x[j] * (double)x[j];
    return sum;
}

MMUL_INLINE double add_squares(const mmul_real *x, int64_t n, const mmul_real *upcoming) {
    double all = 0;
    for (int64_t j = 0; j < n; j += BLOCK) {
        const int64_t end = mmul_min(n, j + BLOCK);
        mmul_real sum = 0;
        prefetch(upcoming + j, end - j);
#pragma omp simd reduction(+ : sum)
        for (int64_t l = j; l < end; l++)
            sum += x[l] * x[l];
        all += (double)sum;
    }
    return REAL(is_accurate_sum)(all, n) ? all : add_squares_slowly(x, n);
}

// x times factor (times w). The factor may exceed float's range if the elements are very small or
// large.
MMUL_INLINE void scale_block(const mmul_real *restrict x, int64_t n, double factor,
                             const mmul_real *restrict w, mmul_real *restrict out) {
    const mmul_real close = (mmul_real)factor;
    if (!(factor < 1e30 && factor > 1e-30))
        for (int64_t j = 0; j < n; j++)
            out[j] = (mmul_real)((double)x[j] * factor * (w != NULL ? (double)w[j] : 1));
    else if (w == NULL)
        for (int64_t j = 0; j < n; j++)
            out[j] = x[j] * close;
    else
        for (int64_t j = 0; j < n; j++)
            out[j] = x[j] * close * w[j];
}

MMUL_INLINE void scale_by(const mmul_real *restrict x, int64_t n, double factor,
                          const mmul_real *restrict w, mmul_real *restrict out,
                          const mmul_real *next) {
    for (int64_t j = 0; j < n; j += BLOCK) {
        const int64_t some = mmul_min(BLOCK, n - j);
        prefetch(offset_or_null(next, j), some);
        scale_block(x + j, some, factor, w != NULL ? w + j : NULL, out + j);
    }
}

MMUL_TARGET_CLONES static void rms_norm(const struct mmul_cpu_rows *rows, const mmul_real *x,
                                        mmul_real *out, const mmul_real *next) {
    const double mean = add_squares(x, rows->cols, out) / (double)rows->cols;
    scale_by(x, rows->cols, 1 / sqrt(mean + rows->map->with->epsilon), rows->weights, out, next);
}

MMUL_TARGET_CLONES static void normalize(const struct mmul_cpu_rows *rows, const mmul_real *x,
                                         mmul_real *out, const mmul_real *next) {
    const double length = sqrt(add_squares(x, rows->cols, out));
    scale_by(x, rows->cols, 1 / (length < 1e-12 ? 1e-12 : length), NULL, out, next);
}

struct factors {
    const mmul_real *weights, *biases; // NULL: there are none
};

struct moments {
    double count, mean, squares; // squares: sum for deviations from the mean
};

MMUL_INLINE struct moments moments_slowly(const mmul_real *x, int64_t n) {
    struct moments m = {(double)n, 0, 0};
    double sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++)
        sum += (double)x[j];
    const double mean = sum / (double)n;
#pragma omp simd reduction(+ : squares)
    for (int64_t j = 0; j < n; j++)
        squares += ((double)x[j] - mean) * ((double)x[j] - mean);
    m.mean = mean;
    m.squares = squares;
    return m;
}

// Moments of a block. Subtracting the first element keeps precision if the mean is far from 0. The
// sum of the deviations gives the rounding error of the mean.
MMUL_INLINE struct moments moments_of_block(const mmul_real *x, int64_t n) {
    const mmul_real first = x[0];
    mmul_real sum = 0, rest = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++)
        sum += x[j] - first;
    const double mean = (double)first + (double)sum / (double)n;
    const mmul_real high = (mmul_real)mean, low = (mmul_real)(mean - (double)high);
#pragma omp simd reduction(+ : rest, squares)
    for (int64_t j = 0; j < n; j++) {
        const mmul_real off = (x[j] - high) - low;
        rest += off;
        squares += off * off;
    }
    const double missing = (double)rest / (double)n;
    return (struct moments){(double)n, mean + missing, (double)squares - missing * (double)rest};
}

// Merges blocks by Chan, Golub, LeVeque: "Algorithms for Computing the Sample Variance", 1983.
MMUL_INLINE struct moments find_moments(const mmul_real *x, int64_t n, const mmul_real *upcoming) {
    struct moments all = {0, 0, 0};
    for (int64_t j = 0; j < n; j += BLOCK) {
        prefetch(upcoming + j, mmul_min(BLOCK, n - j));
        const struct moments block = moments_of_block(x + j, mmul_min(BLOCK, n - j));
        const double off = block.mean - all.mean, count = all.count + block.count;
        all.mean += off * (block.count / count); // the first block sets the mean
        all.squares += block.squares + off * off * all.count * block.count / count;
        all.count = count;
    }
    return REAL(is_accurate_sum)(all.squares, n) ? all : moments_slowly(x, n);
}

// (x - mean) times factor (times w, plus b).
MMUL_INLINE void center_block(const mmul_real *restrict x, int64_t count, double mean,
                              double factor, struct factors of, mmul_real *restrict out) {
    const mmul_real *restrict w = of.weights, *restrict b = of.biases;
    const mmul_real high = (mmul_real)mean, low = (mmul_real)(mean - (double)high),
                    close = (mmul_real)factor;
    if (!(factor < 1e30 && factor > 1e-30))
        for (int64_t j = 0; j < count; j++)
            out[j] = (mmul_real)(((double)x[j] - mean) * factor * (w != NULL ? (double)w[j] : 1) +
                                 (b != NULL ? (double)b[j] : 0));
    else if (w == NULL)
        for (int64_t j = 0; j < count; j++)
            out[j] = ((x[j] - high) - low) * close;
    else if (b == NULL)
        for (int64_t j = 0; j < count; j++)
            out[j] = ((x[j] - high) - low) * close * w[j];
    else
        for (int64_t j = 0; j < count; j++)
            out[j] = ((x[j] - high) - low) * close * w[j] + b[j];
}

MMUL_TARGET_CLONES static void layer_norm(const struct mmul_cpu_rows *rows,
                                          const mmul_real *restrict x, mmul_real *restrict out,
                                          const mmul_real *next) {
    const int64_t count = rows->cols;
    const struct moments m = find_moments(x, count, out);
    const double factor = 1 / sqrt(m.squares / (double)count + rows->map->with->epsilon);
    for (int64_t j = 0; j < count; j += BLOCK) {
        const int64_t n = mmul_min(BLOCK, count - j);
        prefetch(offset_or_null(next, j), n);
        center_block(
            x + j, n, m.mean, factor,
            (struct factors){offset_or_null(rows->weights, j), offset_or_null(rows->biases, j)},
            out + j);
    }
}

// ------------------------------------------------------------------------------- sums, indices

static void cumsum(const mmul_real *restrict x, int64_t n, mmul_real *restrict out) {
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        out[j] = (mmul_real)(sum += (double)x[j]);
}

static void one_hot(mmul_real at, int64_t n, mmul_real *out) {
    for (int64_t j = 0; j < n; j++)
        out[j] = (mmul_real)j == at ? 1 : 0;
}

// ----------------------------------------------------------------------------------------- rope

// Computes the sines of all pairs at a position, then the cosines.
MMUL_TARGET_CLONES static void compute_angles(const struct mmul_cpu_rows *rows, int64_t position,
                                              mmul_real *restrict turns) {
    const int64_t pairs = rows->cols / 2;
    REAL(sincos_pairs)((double)position, rows->frequencies, pairs, turns, turns + pairs);
}

// `base` is for a position that is a multiple of TURNS, `more` for the row's distance from it: the
// angles add up.
MMUL_TARGET_CLONES static void rope_pairs(const struct mmul_cpu_rows *rows,
                                          const mmul_real *restrict x,
                                          const mmul_real *restrict base,
                                          const mmul_real *restrict more, mmul_real *restrict out,
                                          struct upcoming upcoming) {
    const int64_t pairs = rows->cols / 2;
    const bool in_halves = !rows->map->with->interleaved;
    for (int64_t p = 0; p < pairs; p += STEP) {
        const int64_t n = mmul_min(STEP, pairs - p);
        const mmul_real *s = base + p, *c = base + pairs + p, *t = more + p, *d = more + pairs + p;
        mmul_real sines[STEP], cosines[STEP];
        prefetch(offset_or_null(upcoming.x, 2 * p), 2 * n);
        prefetch(offset_or_null(upcoming.out, 2 * p), 2 * n);
        for (int64_t j = 0; j < n; j++) {
            sines[j] = s[j] * d[j] + c[j] * t[j];
            cosines[j] = c[j] * d[j] - s[j] * t[j];
        }
        const mmul_real *left = x + (in_halves ? p : 2 * p),
                        *right = in_halves ? left + pairs : left + 1;
        mmul_real *to_left = out + (left - x), *to_right = out + (right - x);
        if (in_halves)
            for (int64_t j = 0; j < n; j++) {
                to_left[j] = left[j] * cosines[j] - right[j] * sines[j];
                to_right[j] = left[j] * sines[j] + right[j] * cosines[j];
            }
        else
            for (int64_t j = 0; j < n; j++) {
                to_left[2 * j] = left[2 * j] * cosines[j] - right[2 * j] * sines[j];
                to_right[2 * j] = left[2 * j] * sines[j] + right[2 * j] * cosines[j];
            }
    }
}

// Private data of a part. position, for rope: the one that `turns` belongs to; -1: none yet.
// places: room for two rows.
struct scratch {
    int64_t position;
    mmul_real *turns;
    struct mmul_cpu_sort_entry *places;
};

// Rotates a row. Reuses the angles shared by neighbouring positions.
static void rope(const struct mmul_cpu_rows *rows, const mmul_real *x, int64_t position,
                 struct scratch *scratch, mmul_real *out, struct upcoming upcoming) {
    const int64_t beyond = position % TURNS;
    if (scratch->position != position - beyond)
        compute_angles(rows, position - beyond, scratch->turns);
    scratch->position = position - beyond;
    rope_pairs(rows, x, scratch->turns, rows->turns + beyond * rows->cols, out, upcoming);
}

// Computes the angles that all rows need; adds room per part for those that neighbouring rows
// share.
static enum mmul_status prepare_rope(struct mmul_cpu_rows *rows, int parts,
                                     struct mmul_error *err) {
    const int64_t pairs = rows->cols / 2;
    enum mmul_status status = MMUL_ALLOCATE(rows->frequencies, pairs, "frequencies", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(rows->turns, (TURNS + parts) * rows->cols, "turns", err);
    const double way = rows->map->with->scale < 0 ? -1 : 1;
    for (int64_t p = 0; status == MMUL_OK && p < pairs; p++)
        rows->frequencies[p] =
            way * pow(rows->map->with->base, -2.0 * (double)p / (double)rows->cols);
    for (int64_t t = 0; status == MMUL_OK && t < TURNS; t++)
        compute_angles(rows, t, rows->turns + t * rows->cols);
    return status;
}

// ----------------------------------------------------------------------------------------- rows

// Returns the elements of a row that take part (causal softmax), as in device/reference_map.c.
static int64_t count_elements(const struct mmul_cpu_rows *rows, int64_t i) {
    const int64_t until = rows->map->row + i + 1 + rows->cols - rows->map->shape.rows;
    if (rows->map->kind != MMUL_SOFTMAX || !rows->map->with->causal)
        return rows->cols;
    return mmul_max(0, mmul_min(until, rows->cols));
}

static void make_row(const struct mmul_cpu_rows *rows, int64_t i, const mmul_real *x,
                     mmul_real *out, struct upcoming upcoming, struct scratch *scratch) {
    const struct mmul_map *map = rows->map;
    switch (map->kind) {
    case MMUL_SOFTMAX:
        softmax(rows, x, count_elements(rows, i), out, upcoming);
        break;
    case MMUL_RMS_NORM:
        rms_norm(rows, x, out, upcoming.x);
        break;
    case MMUL_LAYER_NORM:
        layer_norm(rows, x, out, upcoming.x);
        break;
    case MMUL_NORMALIZE:
        normalize(rows, x, out, upcoming.x);
        break;
    case MMUL_TOPK:
        mmul_cpu_topk(x, rows->cols, map->with->count, out);
        break;
    case MMUL_ARGMAX:
    case MMUL_ARGMIN:
        *out = (mmul_real)mmul_cpu_find_extreme(x, rows->cols, map->kind == MMUL_ARGMIN);
        break;
    case MMUL_SORT:
    case MMUL_ARGSORT:
        mmul_cpu_sort(&(struct mmul_cpu_sort_options){map->with->descending,
                                                      map->kind == MMUL_ARGSORT, scratch->places},
                      x, rows->cols, out);
        break;
    case MMUL_CUMSUM:
        cumsum(x, rows->cols, out);
        break;
    case MMUL_ONE_HOT:
        one_hot(*x, map->cols, out);
        break;
    default: // MMUL_ROPE
        rope(rows, x, map->row + i, scratch, out, upcoming);
    }
}

// Computes rows. Strided rows are packed first, several at a time, so that each cache line is read
// once.
static void make_rows(void *context, int part, int64_t t, int64_t begin, int64_t end) {
    const struct mmul_cpu_rows *rows = context;
    const struct mmul_strided all = mmul_cpu_operand(rows->map, 0, t);
    mmul_real *out = mmul_cpu_result(rows->map, t);
    const int64_t ld = rows->map->result.ld;
    struct scratch scratch = {-1, NULL, NULL};
    if (rows->turns != NULL)
        scratch.turns = rows->turns + (TURNS + part) * rows->cols;
    if (rows->places != NULL)
        scratch.places = rows->places + 2 * part * rows->cols;
    for (int64_t group = begin; group < end; group += rows->group) {
        const int64_t n = mmul_min(rows->group, end - group);
        struct mmul_strided x = mmul_cpu_strided_at(all, group, 0);
        if (x.col_step != 1) {
            mmul_real *room = rows->room + (int64_t)part * rows->group * rows->cols;
            mmul_cpu_pack(x, n, rows->cols, room, rows->cols);
            x = (struct mmul_strided){room, rows->cols, 1};
        }
        for (int64_t r = 0; r < n; r++) {
            const mmul_real *at = x.at + r * x.row_step;
            mmul_real *to = out + (group + r) * ld;
            struct upcoming upcoming = {NULL, NULL};
            if (group + r + 1 < end && rows->cols <= PREFETCH_MOST)
                upcoming = (struct upcoming){at + x.row_step, to + ld};
            make_row(rows, group + r, at, to, upcoming, &scratch);
        }
    }
}

// Finds a vector operand; packs it if it is strided.
static enum mmul_status find_vector(const struct mmul_cpu_rows *rows, int operand, mmul_real **room,
                                    const mmul_real **vector, struct mmul_error *err) {
    if (operand >= rows->map->operand_count)
        return MMUL_OK;
    const struct mmul_strided x = mmul_cpu_operand(rows->map, operand, 0);
    enum mmul_status status = MMUL_OK;
    *vector = x.at;
    if (x.col_step != 1 &&
        (status = MMUL_ALLOCATE(*room, rows->cols, "a vector", err)) == MMUL_OK) {
        mmul_cpu_pack(x, 1, rows->cols, *room, rows->cols);
        *vector = *room;
    }
    return status;
}

// Returns the rows to pack together: enough to make the access to a column worthwhile, few enough
// for a second-level cache (cpu_map_operands.c packs as many), and whole cache lines.
static int64_t count_group(int64_t cols) {
    enum { HELD = (1 << 19) / sizeof(mmul_real), ROWS_MOST = 128 };
    return mmul_max(MMUL_CPU_CACHE_LINE, mmul_min(ROWS_MOST, HELD / mmul_max(1, cols)));
}

enum mmul_status mmul_cpu_map_rows(const struct mmul_map *map, struct mmul_error *err) {
    struct mmul_cpu_rows rows = {
        .map = map, .cols = map->operands[0].cols, .group = count_group(map->operands[0].cols)};
    const double cost = (double)rows.cols * (2 + mmul_operation_row(map->kind)->flops_each / 8);
    const int parts = mmul_cpu_count_parts(map, map->rows, cost);
    mmul_real *vectors[2] = {NULL, NULL};
    if (mmul_operation_row(map->kind)->by_row > 1)
        return mmul_cpu_map_rows_of_several(map, err);
    enum mmul_status status = find_vector(&rows, 1, &vectors[0], &rows.weights, err);
    if (status == MMUL_OK)
        status = find_vector(&rows, 2, &vectors[1], &rows.biases, err);
    if (status == MMUL_OK && map->operands[0].col_step != 1)
        status = MMUL_ALLOCATE(rows.room, parts * rows.group * rows.cols, "rows", err);
    if (status == MMUL_OK && map->kind == MMUL_ROPE)
        status = prepare_rope(&rows, parts, err);
    if (status == MMUL_OK && (map->kind == MMUL_SORT || map->kind == MMUL_ARGSORT))
        status = MMUL_ALLOCATE_RAW(rows.places, 2 * parts * rows.cols, "rows", err);
    if (status == MMUL_OK)
        mmul_cpu_run_parts(map, parts, map->rows, make_rows, &rows);
    MMUL_FREE_ALL(rows.frequencies, rows.turns, rows.places, rows.room, vectors[0], vectors[1]);
    return status;
}
