// SPDX-License-Identifier: MIT
// Sums, means and extremes along an axis: a line of elements becomes one. The axis does not matter,
// only the memory order: either the elements of a line are adjacent, or those of different lines
// are, and then many lines are reduced at a time. Sums are double.
#include "device/cpu_map.h"

#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"

// Number of lines at a time and of elements in a piece of a long line. They do not depend on
// threads, so the result does not depend on the number of threads.
enum { LINES = 2048, PIECE = 4096 };

struct lines {
    const struct mmul_map *map;
    const mmul_real *at; // one matrix: element p of line l is at[l * line_step + p * step]
    int64_t lines, length, line_step, step;
    int64_t result_step;
    int64_t pieces; // per line, of PIECE elements
    double *found;  // result per matrix, piece and line; NULL: each line has one piece
};

// Returns the lines of the t-th matrix.
static struct lines matrix_lines(const struct lines *s, int64_t t) {
    struct lines one = *s;
    one.at = mmul_cpu_operand(s->map, 0, t).at;
    if (s->found != NULL)
        one.found += t * s->pieces * s->lines;
    return one;
}

static double neutral_element(enum mmul_operation_kind kind) {
    return kind == MMUL_MAX ? -INFINITY : kind == MMUL_MIN ? INFINITY : 0;
}

// Propagates NaN, as numpy does.
static double combine(enum mmul_operation_kind kind, double x, double y) {
    if (kind == MMUL_MAX)
        return x >= y || isnan(x) ? x : y;
    if (kind == MMUL_MIN)
        return x <= y || isnan(x) ? x : y;
    return x + y;
}

// ------------------------------------------------------------------------------- along memory

// Block by block with prefetching. Interleaving several lines would use fewer of the hardware's own
// prefetch streams.
enum { BLOCK = 256 };

MMUL_TARGET_CLONES static double add_line(const mmul_real *x, int64_t n) {
    double sum = 0;
    for (int64_t j = 0; j < n; j += BLOCK) {
        const int64_t end = mmul_min(n, j + BLOCK);
        mmul_cpu_prefetch(x + j, end - j);
#pragma omp simd reduction(+ : sum)
        for (int64_t l = j; l < end; l++)
            sum += (double)x[l];
    }
    return sum;
}

// Comparisons lose NaN, so NaN is tracked separately.
MMUL_TARGET_CLONES mmul_real mmul_cpu_largest(const mmul_real *x, int64_t n) {
    mmul_real most = -INFINITY;
    int32_t odd = 0;
    for (int64_t j = 0; j < n; j += BLOCK) {
        const int64_t end = mmul_min(n, j + BLOCK);
        mmul_cpu_prefetch(x + j, end - j);
#pragma omp simd reduction(max : most) reduction(| : odd)
        for (int64_t l = j; l < end; l++) {
            odd |= x[l] != x[l];
            most = x[l] > most ? x[l] : most;
        }
    }
    return odd ? NAN : most;
}

MMUL_TARGET_CLONES mmul_real mmul_cpu_smallest(const mmul_real *x, int64_t n) {
    mmul_real least = INFINITY;
    int32_t odd = 0;
    for (int64_t j = 0; j < n; j += BLOCK) {
        const int64_t end = mmul_min(n, j + BLOCK);
        mmul_cpu_prefetch(x + j, end - j);
#pragma omp simd reduction(min : least) reduction(| : odd)
        for (int64_t l = j; l < end; l++) {
            odd |= x[l] != x[l];
            least = x[l] < least ? x[l] : least;
        }
    }
    return odd ? NAN : least;
}

static double reduce_line(enum mmul_operation_kind kind, const mmul_real *x, int64_t n) {
    return kind == MMUL_MAX   ? (double)mmul_cpu_largest(x, n)
           : kind == MMUL_MIN ? (double)mmul_cpu_smallest(x, n)
                              : add_line(x, n);
}

// ------------------------------------------------------------------------------- across memory

#define ACROSS(NAME, TYPE, JOINED)                                                              \
    MMUL_TARGET_CLONES static void NAME(const mmul_real *restrict x, int64_t lines,             \
                                        int64_t length, int64_t step, double *restrict found) { \
        TYPE all[LINES];                                                                        \
        for (int64_t l = 0; l < lines; l++)                                                     \
            all[l] = (TYPE)found[l];                                                            \
        int64_t p = 0;                                                                          \
        for (; p + MMUL_CPU_INTERLEAVED_ROWS <= length; p += MMUL_CPU_INTERLEAVED_ROWS)         \
            for (int64_t l = 0; l < lines; l++) {                                               \
                TYPE was = all[l];                                                              \
                for (int64_t q = p; q < p + MMUL_CPU_INTERLEAVED_ROWS; q++) {                   \
                    const TYPE y = (TYPE)x[q * step + l];                                       \
                    was = (JOINED);                                                             \
                }                                                                               \
                all[l] = was;                                                                   \
            }                                                                                   \
        for (; p < length; p++)                                                                 \
            for (int64_t l = 0; l < lines; l++) {                                               \
                const TYPE was = all[l], y = (TYPE)x[p * step + l];                             \
                all[l] = (JOINED);                                                              \
            }                                                                                   \
        for (int64_t l = 0; l < lines; l++)                                                     \
            found[l] = (double)all[l];                                                          \
    }
ACROSS(add_across, double, was + y)
ACROSS(largest_across, mmul_real, (was >= y) | (was != was) ? was : y)
ACROSS(smallest_across, mmul_real, (was <= y) | (was != was) ? was : y)

static void reduce_across(enum mmul_operation_kind kind, const mmul_real *x, int64_t lines,
                          int64_t length, int64_t step, double *found) {
    (kind == MMUL_MAX   ? largest_across
     : kind == MMUL_MIN ? smallest_across
                        : add_across)(x, lines, length, step, found);
}

// ---------------------------------------------------------------------------------------- both

// Reduces lines [begin, end) of a piece; `found` belongs to the first of them. Packs lines if
// neither the lines nor their elements are adjacent.
static void reduce_piece(const struct lines *s, int64_t begin, int64_t end, int64_t piece,
                         double *found) {
    const enum mmul_operation_kind kind = s->map->kind;
    const int64_t p = piece * PIECE, length = mmul_min(PIECE, s->length - p);
    const mmul_real *x = s->at + p * s->step + begin * s->line_step;
    if (s->step != 1 && s->line_step == 1) {
        for (int64_t l = 0; l < end - begin; l++)
            found[l] = neutral_element(kind);
        reduce_across(kind, x, end - begin, length, s->step, found);
        return;
    }
    for (int64_t l = 0; l < end - begin; l++) {
        mmul_real buffer[PIECE];
        const mmul_real *line = x + l * s->line_step;
        if (s->step != 1) {
            mmul_cpu_pack((struct mmul_strided){line, 0, s->step}, 1, length, buffer, length);
            line = buffer;
        }
        found[l] = reduce_line(kind, line, length);
    }
}

// Result l is element (l, 0) or (0, l).
static void write_lines(const struct lines *s, mmul_real *out, int64_t begin, int64_t end,
                        const double *found) {
    for (int64_t l = begin; l < end; l++) {
        double all = found[l - begin];
        for (int64_t piece = 1; piece < s->pieces; piece++)
            all = combine(s->map->kind, all, found[piece * s->lines + l - begin]);
        out[l * s->result_step] =
            (mmul_real)(s->map->kind == MMUL_MEAN ? all / (double)s->length : all);
    }
}

static void reduce_pieces(void *context, int part, int64_t t, int64_t begin, int64_t end) {
    const struct lines one = matrix_lines(context, t), *s = &one;
    (void)part;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t first = unit / s->pieces * LINES, piece = unit % s->pieces;
        const int64_t last = mmul_min(s->lines, first + LINES);
        double buffer[LINES];
        double *found = s->found != NULL ? s->found + piece * s->lines + first : buffer;
        reduce_piece(s, first, last, piece, found);
        if (s->found == NULL)
            write_lines(s, mmul_cpu_result(s->map, t), first, last, found);
    }
}

// ------------------------------------------------------------------------------ rows by an index

// Adds each row of the operand to the result row of its index, in order. Threads share the columns.
enum { STRIP = 1024 / sizeof(mmul_real) };

static void sum_strip(void *context, int part, int64_t t, int64_t begin, int64_t end) {
    const struct mmul_map *map = context;
    const struct mmul_strided x = mmul_cpu_operand(map, 0, t), ids = mmul_cpu_operand(map, 1, t);
    mmul_real *out = mmul_cpu_result(map, t);
    (void)part;
    for (int64_t strip = begin; strip < end; strip++) {
        const int64_t j = strip * STRIP, n = mmul_min(STRIP, map->cols - j);
        for (int64_t i = 0; i < map->rows; i++)
            memset(out + i * map->result.ld + j, 0, (size_t)n * sizeof *out);
        for (int64_t p = 0; p < map->operands[0].rows; p++) {
            const int64_t to = (int64_t)ids.at[p * ids.row_step] - map->row;
            const mmul_real *from = x.at + p * x.row_step + j * x.col_step;
            if (to < 0 || to >= map->rows)
                continue;
            mmul_real *sum = out + to * map->result.ld + j;
            for (int64_t c = 0; c < n; c++)
                sum[c] += from[c * x.col_step];
        }
    }
}

static void sum_rows_at(const struct mmul_map *map) {
    const int64_t strips = (map->cols + STRIP - 1) / STRIP;
    const double cost = (double)(map->operands[0].rows + map->rows) * STRIP;
    mmul_cpu_run_parts(map, mmul_cpu_count_parts(map, strips, cost), strips, sum_strip,
                       (void *)(uintptr_t)map);
}

enum mmul_status mmul_cpu_map_reduce(const struct mmul_map *map, struct mmul_error *err) {
    const bool down = map->with->axis == -2;
    const struct mmul_strided x = mmul_cpu_operand(map, 0, 0);
    struct lines s = {.map = map,
                      .lines = down ? map->cols : map->rows,
                      .length = down ? map->operands[0].rows : map->operands[0].cols,
                      .line_step = down ? x.col_step : x.row_step,
                      .step = down ? x.row_step : x.col_step,
                      .result_step = down ? 1 : map->result.ld};
    s.pieces = (s.length + PIECE - 1) / PIECE;
    const int64_t units = (s.lines + LINES - 1) / LINES * s.pieces;
    const double cost = (double)s.lines * (double)s.length / (double)units;
    enum mmul_status status = MMUL_OK;
    if (map->kind == MMUL_SUM_AT) {
        sum_rows_at(map);
        return MMUL_OK;
    }
    if (s.pieces > 1)
        status = MMUL_ALLOCATE_RAW(s.found, map->matrices * s.pieces * s.lines, "sums", err);
    if (status == MMUL_OK)
        mmul_cpu_run_parts(map, mmul_cpu_count_parts(map, units, cost), units, reduce_pieces, &s);
    for (int64_t t = 0; status == MMUL_OK && s.pieces > 1 && t < map->matrices; t++) {
        const struct lines one = matrix_lines(&s, t);
        write_lines(&one, mmul_cpu_result(map, t), 0, s.lines, one.found);
    }
    mmul_free(s.found);
    return status;
}
