// SPDX-License-Identifier: MIT
// Element-wise operations and copies: one loop over contiguous elements for every operation.
// Repeated operands and operands stored by columns are packed into cache-sized tiles first.
#include "device/cpu_map_elements.h"

#include <string.h>

#include "base/integer.h"
#include "device/cpu_map_real.h"
#include "device/host_buffer.h"

// Tile sizes: a row or a part of it; for operands stored by columns a block of several rows
// (cpu_map_operands.c).
enum {
    ROW = 16384 / sizeof(mmul_real),
    TILE = 128,
    TILE_COLS = 512 / sizeof(mmul_real),
    COPY_COLS = 2 * TILE_COLS,
    TILE_ELEMENTS = TILE * TILE_COLS
};

// ------------------------------------------------------------------------------------- functions

#define KERNEL(NAME)                                                           \
    MMUL_TARGET_CLONES static void NAME##_kernel(                              \
        int64_t n, const mmul_real *restrict xs, const mmul_real *restrict ys, \
        const mmul_real *restrict zs, mmul_real *restrict out)
enum { STEP = 64 };

#define EACH(ASKED, DONE)                              \
    int64_t begin = 0;                                 \
    for (; begin + STEP <= n; begin += STEP) {         \
        ASKED;                                         \
        for (int64_t j = begin; j < begin + STEP; j++) \
            DONE;                                      \
    }                                                  \
    for (int64_t j = begin; j < n; j++)                \
        DONE;
#define TWO(NAME, VALUE)                                                                 \
    KERNEL(NAME) {                                                                       \
        (void)zs;                                                                        \
        EACH(mmul_cpu_prefetch(xs + begin, STEP); mmul_cpu_prefetch(ys + begin, STEP), { \
            const mmul_real x = xs[j];                                                   \
            const mmul_real y = ys[j];                                                   \
            out[j] = (VALUE);                                                            \
        })                                                                               \
    }

// One value: computed in whole vectors (cpu_map_real.h), which functions of the C library need.
#define ONE(NAME, VALUE)                                                    \
    KERNEL(NAME) {                                                          \
        const int64_t whole = mmul_cpu_count_in_vectors(n);                 \
        (void)ys;                                                           \
        (void)zs;                                                           \
        int64_t begin = 0;                                                  \
        for (; begin + STEP <= whole; begin += STEP) {                      \
            mmul_cpu_prefetch(xs + begin, STEP);                            \
            for (int64_t j = begin; j < begin + STEP; j++) {                \
                const mmul_real x = xs[j];                                  \
                out[j] = (VALUE);                                           \
            }                                                               \
        }                                                                   \
        for (int64_t j = begin; j < whole; j++) {                           \
            const mmul_real x = xs[j];                                      \
            out[j] = (VALUE);                                               \
        }                                                                   \
        if (whole < n) {                                                    \
            mmul_real buffer[MMUL_CPU_VECTOR] = {0};                        \
            memcpy(buffer, xs + whole, (size_t)(n - whole) * sizeof *xs);   \
            MMUL_CPU_AS_VECTOR                                              \
            for (int64_t j = 0; j < MMUL_CPU_VECTOR; j++) {                 \
                const mmul_real x = buffer[j];                              \
                buffer[j] = (VALUE);                                        \
            }                                                               \
            memcpy(out + whole, buffer, (size_t)(n - whole) * sizeof *out); \
        }                                                                   \
    }

#ifdef MMUL_CPU_F64
#define VALUE(NAME, FORMULA) (FORMULA)
#else
#define VALUE(NAME, FORMULA) mmul_##NAME##f(x)
#endif
#define FUNCTION(KIND, NAME, FLOPS, ACCURACY, ULPS, FORMULA, HELP) ONE(NAME, VALUE(NAME, FORMULA))
#define UNARY(KIND, NAME, FLOPS, ACCURACY, ULPS, FORMULA)          ONE(NAME, VALUE(NAME, FORMULA))
#define BINARY(KIND, NAME, COUNT, FLOPS, ACCURACY, ULPS, FORMULA)  TWO(NAME, (mmul_real)(FORMULA))
#define BINARY_OWN(...)
#include "model/operations.def"

// A function with a vector form that is valid only up to some angle. Larger angles and NaN go to
// the C library's function. (libmvec's functions of double do so themselves.)
#ifdef MMUL_CPU_F64
#define sin_of_any_angle_kernel sin_kernel
#define cos_of_any_angle_kernel cos_kernel
#else
#define OF_ANY_ANGLE(NAME)                                                  \
    KERNEL(NAME##_of_any_angle) {                                           \
        NAME##_kernel(n, xs, ys, zs, out);                                  \
        for (int64_t begin = 0; begin < n; begin += STEP)                   \
            if (mmul_has_farf(xs + begin, mmul_min(STEP, n - begin)))       \
                for (int64_t j = begin; j < mmul_min(begin + STEP, n); j++) \
                    if (mmul_is_farf(xs[j]))                                \
                        out[j] = (mmul_real)NAME((double)xs[j]);            \
    }
OF_ANY_ANGLE(sin)
OF_ANY_ANGLE(cos)
#endif

// The derivatives of x's functions, times the gradient of their result.
#define SLOPE(NAME)                                                       \
    KERNEL(NAME##_backward) {                                             \
        const int64_t whole = mmul_cpu_count_in_vectors(n);               \
        (void)zs;                                                         \
        for (int64_t j = 0; j < whole; j++)                               \
            out[j] = REAL(NAME##_slope)(xs[j]) * ys[j];                   \
        if (whole < n) {                                                  \
            mmul_real buffer[MMUL_CPU_VECTOR] = {0};                      \
            memcpy(buffer, xs + whole, (size_t)(n - whole) * sizeof *xs); \
            MMUL_CPU_AS_VECTOR                                            \
            for (int64_t j = 0; j < MMUL_CPU_VECTOR; j++)                 \
                buffer[j] = REAL(NAME##_slope)(buffer[j]);                \
            for (int64_t j = whole; j < n; j++)                           \
                out[j] = buffer[j - whole] * ys[j];                       \
        }                                                                 \
    }
SLOPE(silu)
SLOPE(gelu)
SLOPE(gelu_tanh)

KERNEL(where) {
    for (int64_t j = 0; j < n; j++) {
        const mmul_real y = ys[j], z = zs[j];
        out[j] = xs[j] != 0 ? y : z;
    }
}

MMUL_INLINE int32_t is_odd_division(mmul_real x, mmul_real y) {
    return !(fabs((double)x / (double)y) < 0x1p29) | (y - y != 0);
}

// Exact in double: q below 2^29 and the 24 bits of y fit the mantissa together.
MMUL_INLINE struct mmul_quotient_and_rest divide_simple(double x, double y) {
    // 1.5 2^52: adding it rounds to whole numbers
    const double ratio = x / y, magic = 6755399441055744.0;
    const double nearest = (ratio + magic) - magic;
    const double floor = nearest - (nearest > ratio ? 1.0 : 0.0), left = fma(-floor, y, x);
    // Opposite sign: the ratio was rounded up to a whole number.
    const double high = ((left < 0) ^ (y < 0)) & (left != 0) ? 1.0 : 0.0, quotient = floor - high;
    return (struct mmul_quotient_and_rest){quotient == 0.0 ? copysign(0.0, ratio) : quotient,
                                           copysign(left + high * y, y)};
}

// Each loop leaves difficult divisions to a slower one. A step that has any goes to the _long loop,
// which does its own difficult ones one by one.
#define DIVISION(NAME, PART)                                                            \
    MMUL_TARGET_CLONES static void NAME##_long(int64_t n, const mmul_real *restrict xs, \
                                               const mmul_real *restrict ys,            \
                                               mmul_real *restrict out) {               \
        int32_t others = 0;                                                             \
        for (int64_t j = 0; j < n; j++) {                                               \
            out[j] = (mmul_real)divide_simple((double)xs[j], (double)ys[j]).PART;       \
            others |= is_odd_division(xs[j], ys[j]);                                    \
        }                                                                               \
        for (int64_t j = 0; others && j < n; j++)                                       \
            if (is_odd_division(xs[j], ys[j]))                                          \
                out[j] = (mmul_real)mmul_division((double)xs[j], (double)ys[j]).PART;   \
    }                                                                                   \
    KERNEL(NAME) {                                                                      \
        (void)zs;                                                                       \
        for (int64_t begin = 0; begin < n; begin += STEP) {                             \
            const int64_t end = mmul_min(n, begin + STEP);                              \
            int32_t others = 0;                                                         \
            mmul_cpu_prefetch(xs + begin, STEP);                                        \
            for (int64_t j = begin; j < end; j++) {                                     \
                out[j] = REAL(divide)(xs[j], ys[j]).PART;                               \
                others |= REAL(is_long_division)(xs[j], ys[j]);                         \
            }                                                                           \
            if (others)                                                                 \
                NAME##_long(end - begin, xs + begin, ys + begin, out + begin);          \
        }                                                                               \
    }
DIVISION(floor_divide, quotient)
DIVISION(remainder, left)
#ifdef MMUL_CPU_F64
KERNEL(power) {
    const int64_t whole = mmul_cpu_count_in_vectors(n);
    (void)zs;
    for (int64_t j = 0; j < whole; j++)
        out[j] = REAL(pow)(xs[j], ys[j]);
    if (whole < n) {
        mmul_real x[MMUL_CPU_VECTOR] = {0}, y[MMUL_CPU_VECTOR] = {0};
        memcpy(x, xs + whole, (size_t)(n - whole) * sizeof *xs);
        memcpy(y, ys + whole, (size_t)(n - whole) * sizeof *ys);
        MMUL_CPU_AS_VECTOR
        for (int64_t j = 0; j < MMUL_CPU_VECTOR; j++)
            x[j] = REAL(pow)(x[j], y[j]);
        memcpy(out + whole, x, (size_t)(n - whole) * sizeof *out);
    }
}
#define power_of_number_kernel power_kernel
#else
TWO(power, REAL(pow)(x, y))

// Evaluates conditions on the exponent alone only once. An exponent that is infinite, NaN or 0
// takes the general loop.
KERNEL(power_of_number) {
    const float y = ys[0], rest = (float)mmul_fraction((double)y);
    const int32_t sign = mmul_odd_sign(y);
    if (y - y != 0 || y == 0.0f) {
        power_kernel(n, xs, ys, zs, out);
        return;
    }
    EACH(mmul_cpu_prefetch(xs + begin, STEP), {
        const float x = xs[j];
        const int32_t is_none = (mmul_is_undefined_power(x, rest) != 0.0f) | (x != x);
        out[j] = mmul_from_bits(mmul_to_bits(mmul_power_of_size(x, (double)y, sign)) |
                                (is_none ? 0x7fc00000 : 0));
    })
}
#endif

static void copy(int64_t n, const mmul_real *xs, const mmul_real *ys, const mmul_real *zs,
                 mmul_real *out) {
    (void)ys;
    (void)zs;
    memcpy(out, xs, (size_t)n * sizeof *out);
}

static mmul_cpu_kernel *const kernels[MMUL_OPERATION_KINDS] = {
#define UNARY(KIND, NAME, ...) [MMUL_##KIND] = NAME##_kernel,
#define FUNCTION               UNARY
#define BINARY                 UNARY
#define BINARY_OWN             UNARY
#include "model/operations.def"
    [MMUL_WHERE] = where_kernel, [MMUL_SLICE] = copy,  [MMUL_RESHAPE] = copy,
    [MMUL_PERMUTE] = copy,       [MMUL_CONCAT] = copy, [MMUL_CAST] = copy,
};

// ----------------------------------------------------------------------------------------- tiles

struct job {
    mmul_cpu_kernel *kernel;
    struct mmul_strided operands[MMUL_CPU_OPERANDS];
    int operand_count;
    int64_t rows, cols, ld;
    mmul_real *out;
    int64_t tile_rows, tile_cols; // tile_rows 1: a row, or the part of it that fits a tile
    int64_t tiles_along;
};

// Returns true for one element that all of the block shares; a float64 number lies in memory.
static bool is_number(const struct mmul_map_operand *x) {
    return x->buffer == NULL || (x->row_step == 0 && x->col_step == 0 && x->stack.batch_step == 0 &&
                                 x->stack.depth_step == 0);
}

// x^2 becomes x * x, rounded once like the exact square.
mmul_cpu_kernel *mmul_cpu_kernel_of(const struct mmul_map *map, bool *is_square) {
    *is_square = map->kind == MMUL_POWER && is_number(&map->operands[1]) &&
                 *mmul_cpu_operand(map, 1, 0).at == 2;
    if (*is_square)
        return multiply_kernel;
    if (map->kind == MMUL_POWER && is_number(&map->operands[1]))
        return power_of_number_kernel;
    if (map->kind == MMUL_SIN)
        return sin_of_any_angle_kernel;
    if (map->kind == MMUL_COS)
        return cos_of_any_angle_kernel;
    return kernels[map->kind];
}

static bool is_contiguous(struct mmul_strided x, int64_t cols) {
    return (x.col_step == 0 && x.row_step == 0) || (x.col_step == 1 && x.row_step == cols);
}

// Minimises the number of rows: one row if all rows are adjacent, and a single column becomes a
// row.
static void flatten(struct job *job) {
    bool is_flat = job->ld == job->cols;
    for (int i = 0; i < job->operand_count; i++)
        is_flat = is_flat && is_contiguous(job->operands[i], job->cols);
    if (is_flat) {
        job->cols *= job->rows;
        job->rows = 1;
    }
    if (job->cols > 1 || job->ld > 1)
        return;
    job->cols = job->rows;
    job->rows = 1;
    for (int i = 0; i < job->operand_count; i++)
        job->operands[i] = (struct mmul_strided){job->operands[i].at, 0, job->operands[i].row_step};
}

// Returns the job for the t-th matrix.
static struct job matrix_job(const struct mmul_map *map, int64_t t) {
    bool is_square;
    struct job job = {.kernel = mmul_cpu_kernel_of(map, &is_square),
                      .operand_count = map->operand_count,
                      .rows = map->rows,
                      .cols = map->cols,
                      .ld = map->result.ld,
                      .out = mmul_cpu_result(map, t),
                      .tile_rows = 1,
                      .tile_cols = ROW};
    for (int i = 0; i < job.operand_count; i++)
        job.operands[i] = mmul_cpu_operand(map, i, t);
    if (is_square)
        job.operands[1] = job.operands[0];
    flatten(&job);
    for (int i = 0; i < job.operand_count; i++)
        if (job.operands[i].col_step > 1 && job.rows > 1) {
            job.tile_rows = TILE;
            job.tile_cols = job.kernel == copy ? COPY_COLS : TILE_COLS; // a copy needs no buffer
        }
    job.tiles_along = (job.cols + job.tile_cols - 1) / job.tile_cols;
    return job;
}

// Returns the rows of a tile of operand x: in place, or packed in `buffer`. Constants are in
// `buffer` already.
static struct mmul_strided locate_rows(struct mmul_strided x, int64_t rows, int64_t cols,
                                       mmul_real *buffer) {
    if (x.col_step == 1)
        return x;
    const bool is_one = x.row_step == 0;
    if (!mmul_cpu_is_constant(x))
        mmul_cpu_pack(x, is_one ? 1 : rows, cols, buffer, cols);
    return (struct mmul_strided){buffer, is_one ? 0 : cols, 1};
}

static void make_tile(const struct job *job, int64_t i, int64_t j, int64_t rows, int64_t cols,
                      mmul_real *const buffers[MMUL_CPU_OPERANDS]) {
    struct mmul_strided x[MMUL_CPU_OPERANDS] = {{0}};
    mmul_real *out = job->out + i * job->ld + j;
    // copies directly, without a tile in between
    if (job->kernel == copy && job->operands[0].col_step != 1) {
        mmul_cpu_pack(mmul_cpu_strided_at(job->operands[0], i, j), rows, cols, out, job->ld);
        return;
    }
    for (int p = 0; p < job->operand_count; p++)
        x[p] = locate_rows(mmul_cpu_strided_at(job->operands[p], i, j), rows, cols, buffers[p]);
    for (int64_t r = 0; r < rows; r++)
        job->kernel(cols, x[0].at + r * x[0].row_step, x[1].at + r * x[1].row_step,
                    x[2].at + r * x[2].row_step, out + r * job->ld);
}

// Constants stay in their buffer from the first tile to the last.
static void make_tiles_in(const struct job *job, int64_t begin, int64_t end,
                          mmul_real *const buffers[MMUL_CPU_OPERANDS]) {
    for (int p = 0; p < job->operand_count; p++)
        if (mmul_cpu_is_constant(job->operands[p]))
            mmul_cpu_pack(job->operands[p], 1, mmul_min(job->cols, job->tile_cols), buffers[p], 0);
    for (int64_t tile = begin; tile < end; tile++) {
        const int64_t i = tile / job->tiles_along * job->tile_rows;
        const int64_t j = tile % job->tiles_along * job->tile_cols;
        make_tile(job, i, j, mmul_min(job->tile_rows, job->rows - i),
                  mmul_min(job->tile_cols, job->cols - j), buffers);
    }
}

// make_rows suffices for rows in memory and constants. It needs less stack: touching the stack
// pages of make_packed takes as long as a small block.
static __attribute__((noinline)) void make_packed(const struct job *job, int64_t begin,
                                                  int64_t end) {
    mmul_real buffer[MMUL_CPU_OPERANDS][TILE_ELEMENTS];
    mmul_real *const buffers[MMUL_CPU_OPERANDS] = {buffer[0], buffer[1], buffer[2]};
    make_tiles_in(job, begin, end, buffers);
}

static __attribute__((noinline)) void make_rows(const struct job *job, int64_t begin, int64_t end) {
    mmul_real buffer[MMUL_CPU_OPERANDS][ROW];
    mmul_real *const buffers[MMUL_CPU_OPERANDS] = {buffer[0], buffer[1], buffer[2]};
    make_tiles_in(job, begin, end, buffers);
}

// A map, and the job for its first matrix.
struct making {
    const struct mmul_map *map;
    struct job first;
};

static void make_tiles(void *context, int part, int64_t t, int64_t begin, int64_t end) {
    const struct making *making = context;
    struct job later;
    const struct job *job = &making->first;
    bool is_packed = false;
    (void)part;
    if (t > 0) {
        later = matrix_job(making->map, t);
        job = &later;
    }
    for (int p = 0; p < job->operand_count; p++)
        is_packed |= job->operands[p].col_step != 1 && !mmul_cpu_is_constant(job->operands[p]);
    if (is_packed)
        make_packed(job, begin, end);
    else
        make_rows(job, begin, end);
}

void mmul_cpu_map_elements(const struct mmul_map *map) {
    struct making making = {map, matrix_job(map, 0)};
    const struct job *job = &making.first;
    const int64_t tiles = (job->rows + job->tile_rows - 1) / job->tile_rows * job->tiles_along;
    const double flops = mmul_operation_row(map->kind)->flops_each;
    const double cost = (double)map->rows * (double)map->cols * (1 + flops / 16) / (double)tiles;
    mmul_cpu_run_parts(map, mmul_cpu_count_parts(map, tiles, cost), tiles, make_tiles, &making);
}
