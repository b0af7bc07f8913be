// SPDX-License-Identifier: MIT
//
// One trial of map_test.c: operands in chosen layouts, an operation on them on two devices, and the
// distance of the results.
#pragma once

#include <float.h>

#include "device/map.h"
#include "exec/threads/compute_thread.h"
#include "model/dtype.h"
#include "tap.h"

// ------------------------------------------------------------------------------------ operands

// Position of an operand's elements in its buffer.
enum layout {
    PLAIN,      // rows without gaps
    PADDED,     // rows with gaps, after an offset
    DISTANT,    // rows far from each other
    TRANSPOSED, // by columns, with gaps
    PERMUTED,   // by columns, with steps, as after a permutation of axes
    SPREAD,     // rows, with steps between elements
    ROW_AGAIN,  // one row repeated
    COL_AGAIN,  // one column repeated
    ONE_AGAIN,  // one element repeated
    NUMBER,
    LAYOUTS
};

static struct mmul_map_operand layout_operand(enum layout layout, int64_t rows, int64_t cols) {
    // Elements. Used for few rows only: otherwise allocating memory would dominate the time of a
    // trial.
    static const int64_t far = 70001;
    switch (layout) {
    case PLAIN:
        return (struct mmul_map_operand){.offset = 0, .row_step = cols, .col_step = 1};
    case PADDED:
        return (struct mmul_map_operand){.offset = 5, .row_step = cols + 3, .col_step = 1};
    case DISTANT:
        return (struct mmul_map_operand){
            .offset = 1, .row_step = rows < 8 ? far : cols + 64, .col_step = 1};
    case TRANSPOSED:
        return (struct mmul_map_operand){.offset = 2, .row_step = 1, .col_step = rows + 1};
    case PERMUTED:
        return (struct mmul_map_operand){.offset = 3, .row_step = 2, .col_step = 2 * rows + 3};
    case SPREAD:
        return (struct mmul_map_operand){.offset = 1, .row_step = 3 * cols + 2, .col_step = 3};
    case ROW_AGAIN:
        return (struct mmul_map_operand){.offset = 4, .row_step = 0, .col_step = 1};
    case COL_AGAIN:
        return (struct mmul_map_operand){.offset = 4, .row_step = 2, .col_step = 0};
    default:
        return (struct mmul_map_operand){.offset = 6};
    }
}

// Values of an operand's elements.
enum flavour {
    REAL,
    POSITIVE,
    WHOLE,
    WIDE,
    SPECIAL,
    TIES,
    LOW,
    OFFSET,
    INDICES,
    EDGES,
    ANGLES,
    LARGE
};

static uint64_t random_state;

// Returns a random number in [0, 1) with as many bits as the type has.
static double random_real(enum mmul_dtype dtype) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return dtype == MMUL_F64 ? (double)(random_state >> 11) * 0x1p-53
                             : (double)(random_state >> 40) * 0x1p-24;
}

static double special_value(enum mmul_dtype dtype, int which) {
    static const double specials[] = {NAN, INFINITY, -INFINITY, 0.0,  -0.0,
                                      1.0, -1.0,     2.0,       -3.0, 0.5};
    // doubles: special values beyond the range of a float, too
    const bool is_double = dtype == MMUL_F64;
    return which < 10    ? specials[which]
           : which == 10 ? (is_double ? 1e300 : 1e30)
                         : (is_double ? -1e-300 : -1e-30);
}

// Returns an angle of any magnitude, up to those with digits that no longer tell the position in a
// circle.
static double random_angle(double random) {
    static const double most[] = {4, 100, 1e6, 1e9, 1e30};
    return (2 * random - 1) * most[(int)(random * 4096) % 5];
}

static double random_value(enum mmul_dtype dtype, enum flavour flavour, int64_t limit) {
    const double random = random_real(dtype);
    switch (flavour) {
    case POSITIVE:
        return 0x1p-7 + 9 * random;
    case WHOLE:
        return (int)(9 * random) - 4;
    case WIDE:
        return 160 * random - 80;
    case SPECIAL:
        return random < 0.5 ? special_value(dtype, (int)(random * 24)) : 16 * random - 12;
    case TIES:
        return random < 0.02 ? NAN : (int)(40 * random);
    case LOW: // a mask
        return random < 0.3 ? -INFINITY : random;
    case OFFSET:
        return 100 + random;
    case INDICES:
        return (double)(int64_t)(random * (double)limit);
    case EDGES: // special values, but no large ones
        return random < 0.4 ? special_value(dtype, (int)(random * 25)) : 10 * random - 7;
    case LARGE: // squares overflow a float
        return (8 * random - 4) * 1e25;
    case ANGLES:
        return random < 0.02 ? special_value(dtype, (int)(random * 250)) : random_angle(random);
    default:
        return 8 * random - 4;
    }
}

struct source {
    enum layout layout;
    enum flavour flavour;
    int64_t rows, cols;
    int64_t limit; // upper limit of indices
    // (rows, cols) without gaps, all matrices; one row, column or element if it repeats.
    void *values;
    enum mmul_dtype dtype; // type of `values`: the trial's
    int64_t batch, depth;  // sizes of its own stack; 0 counts as 1
    bool is_turned;        // depth is the outer index: matrices of one batch entry lie far apart
};

static int64_t source_rows(const struct source *s) {
    return s->layout == ROW_AGAIN || s->layout >= ONE_AGAIN ? 1 : s->rows;
}

static int64_t source_cols(const struct source *s) {
    return s->layout == COL_AGAIN || s->layout >= ONE_AGAIN ? 1 : s->cols;
}

static int64_t source_count(const struct source *s) {
    return source_rows(s) * source_cols(s);
}

static int64_t source_batch(const struct source *s) {
    return s->batch > 0 ? s->batch : 1;
}

static int64_t source_depth(const struct source *s) {
    return s->depth > 0 ? s->depth : 1;
}

// Returns the operand's matrix that matches matrix t of a stack: a batch of 1 repeats, and groups
// in depth share one matrix.
static int64_t source_matrix(const struct source *s, struct mmul_shape shape, int64_t t) {
    const int64_t batch = source_batch(s) == 1 ? 0 : t / shape.depth;
    return batch * source_depth(s) + t % shape.depth * source_depth(s) / shape.depth;
}

static void fill_source(struct source *s, enum mmul_dtype dtype) {
    const int64_t count = source_count(s) * source_batch(s) * source_depth(s);
    s->dtype = dtype;
    s->values = must_allocate(count, mmul_dtype_bytes(dtype));
    for (int64_t e = 0; e < count; e++)
        mmul_dtype_set_real(dtype, s->values, e, random_value(dtype, s->flavour, s->limit));
}

static void fill_buffer(enum mmul_dtype dtype, void *all, int64_t count, double value) {
    for (int64_t e = 0; e < count; e++)
        if (dtype == MMUL_F64)
            ((double *)all)[e] = value;
        else
            ((float *)all)[e] = (float)value;
}

// Copies `count` elements, contiguous in `from`, `step` apart in `to`.
static void copy_row(enum mmul_dtype dtype, void *to, int64_t at, int64_t step, const void *from,
                     int64_t first, int64_t count) {
    for (int64_t e = 0; e < count; e++)
        if (dtype == MMUL_F64)
            ((double *)to)[at + e * step] = ((const double *)from)[first + e];
        else
            ((float *)to)[at + e * step] = ((const float *)from)[first + e];
}

// Returns a new buffer with these elements.
static struct mmul_buffer *put_elements(struct mmul_device *device, enum mmul_dtype dtype,
                                        const void *host, int64_t count) {
    struct mmul_buffer *buffer = NULL;
    struct mmul_error err;
    must_succeed(mmul_device_buffer_create(device, dtype, count, &buffer, &err), &err);
    const struct mmul_upload upload = {{buffer, 0, count}, 1, count, host, count, dtype};
    must_succeed(mmul_device_upload(device, &upload, &err), &err);
    must_succeed(mmul_device_wait(device, &err), &err);
    return buffer;
}

// Creates the operand on a device in its layout, beginning with the matrix for matrix t. Gaps hold
// NaN. A number of float64 is also in host memory.
static struct mmul_map_operand create_operand(struct mmul_device *device, const struct source *s,
                                              struct mmul_shape shape, int64_t t) {
    struct mmul_map_operand o = layout_operand(s->layout, s->rows, s->cols);
    const int64_t batch = source_batch(s), depth = source_depth(s);
    o.rows = s->rows;
    o.cols = s->cols;
    if (s->layout == NUMBER && s->dtype == MMUL_F32) {
        o.number = (float)mmul_dtype_get_real(s->dtype, s->values, 0);
        return o;
    }
    const int64_t rows = source_rows(s), cols = source_cols(s);
    const int64_t each = (rows - 1) * o.row_step + (cols - 1) * o.col_step + 1, pitch = each + 3;
    const int64_t count = o.offset + pitch * batch * depth;
    const struct mmul_stack stack = {s->is_turned ? pitch : pitch * depth,
                                     s->is_turned ? pitch * batch : pitch, shape.depth / depth};
    void *host = must_allocate(count, mmul_dtype_bytes(s->dtype));
    fill_buffer(s->dtype, host, count, NAN);
    for (int64_t row = 0; row < batch * depth * rows; row++) {
        const int64_t matrix = row / rows;
        const int64_t at = o.offset + matrix / depth * stack.batch_step +
                           matrix % depth * stack.depth_step + row % rows * o.row_step;
        copy_row(s->dtype, host, at, o.col_step, s->values, row * cols, cols);
    }
    const int64_t first = source_matrix(s, shape, t);
    o.offset += first / depth * stack.batch_step + first % depth * stack.depth_step;
    o.stack = stack;
    if (batch == 1)
        o.stack.batch_step = 0;
    o.buffer = put_elements(device, s->dtype, host, count);
    free(host);
    return o;
}

// --------------------------------------------------------------------------------------- trials

// Allowed |found - expected|: `ulps` times 2^-23 |expected|, plus `absolute`, plus the smallest
// normal number, since devices may flush smaller ones. For float64 the first two are 2^-29 times as
// much.
struct tolerance {
    double ulps, absolute;
};

struct trial {
    enum mmul_operation_kind kind;
    enum mmul_dtype dtype; // type of all operands and the result, from the bench
    struct mmul_parameters with;
    int64_t rows, cols, row, col;
    struct mmul_shape shape;
    int64_t matrix, matrices; // `matrices` 0 counts as 1
    struct source sources[MMUL_OPERANDS];
    int source_count;
    int64_t pad; // gap between the result's rows
    struct tolerance tolerance;
};

// Sets the sizes of the operands of an operation by rows; the first operand has `cols` columns. The
// others have its shape, or are columns or vectors. Then sets the size of the result.
static inline void shape_rows(struct trial *t, int64_t cols) {
    const struct mmul_operation_row *row = mmul_operation_row(t->kind);
    const bool is_hot = t->kind == MMUL_ONE_HOT;
    const bool is_loss = t->kind == MMUL_CROSS_ENTROPY || t->kind == MMUL_CROSS_ENTROPY_BACKWARD;
    for (int i = 0; i < t->source_count; i++) {
        struct source *s = &t->sources[i];
        s->rows = i < row->by_row ? t->rows : 1;
        s->cols = is_hot || (is_loss && i > 0) ? 1 : cols;
        if (i + 1 == row->indices) {
            s->flavour = INDICES;
            s->limit = cols;
        }
    }
    const bool is_column = (row->picks && row->has_integers) || t->kind == MMUL_CROSS_ENTROPY;
    t->cols = t->kind == MMUL_TOPK ? 2 * t->with.count : is_column ? 1 : cols;
    t->shape.cols = t->cols;
}

struct bench {
    struct mmul_device *device, *reference;
    enum mmul_dtype dtype;
    FILE *cases; // cases for numpy; NULL: numpy does not check
    int trials;
    double worst; // largest distance, in tolerances
    char detail[320];
};

static int64_t trial_rows(const struct trial *t) {
    return t->rows * (t->matrices > 0 ? t->matrices : 1);
}

// Returns the sum of bits that device/map.h defines.
// The formula of device/matrix_sums.h.
static uint32_t mix_bits(uint32_t bits, uint32_t index) {
    bits += index * 0x9e3779b1U;
    bits = (bits ^ bits >> 16) * 0x85ebca6bU;
    return bits ^ bits >> 15;
}

static uint32_t sum_of_bits(const float *found, int64_t count) {
    uint32_t sum = 0, bits;
    for (int64_t e = 0; e < count; e++) {
        memcpy(&bits, &found[e], sizeof bits);
        sum += mix_bits(bits, (uint32_t)e);
    }
    return sum;
}

// Initial contents of the result's buffer; the gaps must keep it.
static const double untouched = -77;

static bool are_gaps(enum mmul_dtype dtype, const void *all, int64_t first, int64_t end) {
    bool are = true;
    for (int64_t e = first; e < end; e++)
        are = are && mmul_dtype_get_real(dtype, all, e) == untouched;
    return are;
}

// Copies trial t's result out of its buffer, without gaps; NULL if a gap changed.
static void *copy_result(const struct trial *t, const void *all, struct mmul_operand at,
                         int64_t count) {
    const int64_t rows = trial_rows(t), bytes = mmul_dtype_bytes(t->dtype);
    char *found = must_allocate(rows * t->cols, (size_t)bytes);
    bool are = are_gaps(t->dtype, all, 0, at.offset);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t first = at.offset + i * at.ld, end = i + 1 < rows ? first + at.ld : count;
        memcpy(found + i * t->cols * bytes, (const char *)all + first * bytes,
               (size_t)(t->cols * bytes));
        are = are && are_gaps(t->dtype, all, first + t->cols, end);
    }
    if (are)
        return found;
    free(found);
    return NULL;
}

// Returns the result, allocated on the heap. NULL if a gap changed or the sum of bits is wrong.
static void *run_on_device(struct mmul_device *device, const struct trial *t) {
    struct mmul_error err;
    const int64_t rows = trial_rows(t), ld = t->cols + t->pad,
                  count = 3 * t->pad + rows * ld + t->pad;
    void *all = must_allocate(count, mmul_dtype_bytes(t->dtype));
    fill_buffer(t->dtype, all, count, untouched);
    uint32_t carried = 0;
    struct mmul_map map = {
        .kind = t->kind,
        .with = &t->with,
        .rows = t->rows,
        .cols = t->cols,
        .row = t->row,
        .col = t->col,
        .shape = t->shape,
        .matrix = t->matrix,
        .matrices = rows / t->rows,
        .result_step = t->rows * ld,
        .operand_count = t->source_count,
        .result = {put_elements(device, t->dtype, all, count), 3 * t->pad, ld},
        .parallel = {3, mmul_helper_threads_run},
        .carried = t->dtype == MMUL_F32 && mmul_map_supports_checksum(t->kind) ? &carried : NULL};
    for (int i = 0; i < t->source_count; i++)
        map.operands[i] = create_operand(device, &t->sources[i], t->shape, t->matrix);
    must_succeed(mmul_device_map(device, &map, &err), &err);
    const struct mmul_operand whole = {map.result.buffer, 0, count};
    const struct mmul_download home = {whole, 1, count, all, count, t->dtype};
    must_succeed(mmul_device_download(device, &home, &err), &err);
    must_succeed(mmul_device_wait(device, &err), &err);
    void *found = copy_result(t, all, map.result, count);
    if (found != NULL && map.carried != NULL && carried != sum_of_bits(found, rows * t->cols)) {
        free(found);
        found = NULL;
    }
    free(all);
    mmul_device_buffer_destroy(device, map.result.buffer);
    for (int i = 0; i < t->source_count; i++)
        mmul_device_buffer_destroy(device, map.operands[i].buffer);
    return found;
}

// Returns the distance of two numbers, in tolerances.
static double distance(enum mmul_dtype dtype, double found, double expected,
                       struct tolerance tolerance) {
    const bool is_double = dtype == MMUL_F64;
    const double part = is_double ? 0x1p-29 : 1, least = is_double ? DBL_MIN : (double)FLT_MIN;
    if (found == expected || (isnan(found) && isnan(expected)))
        return 0;
    if (!isfinite(found) || !isfinite(expected))
        return INFINITY;
    return fabs(found - expected) /
           (part * (tolerance.ulps * 0x1p-23 * fabs(expected) + tolerance.absolute) + least);
}

static void write_matrix(FILE *file, enum mmul_dtype dtype, const void *values, int64_t first,
                         int64_t count) {
    fwrite(mmul_dtype_advance(dtype, values, first), mmul_dtype_bytes(dtype), (size_t)count, file);
}

// Writes a case for map_numpy.py: a line of JSON, then operands and result of one matrix.
static void write_case(FILE *file, const struct trial *t, int64_t matrix, const void *result) {
    const struct mmul_parameters *w = &t->with;
    fprintf(file,
            "{\"op\": \"%s\", \"dtype\": \"%s\", \"rows\": %lld, \"cols\": %lld, \"row\": %lld, "
            "\"all_rows\": %lld, "
            "\"causal\": %d, \"interleaved\": %d, \"descending\": %d, \"axis\": %d, \"count\": "
            "%lld, \"epsilon\": %.17g, "
            "\"scale\": %.17g, \"base\": %.17g, \"operands\": [",
            mmul_operation_row(t->kind)->name, mmul_dtype_name(t->dtype), (long long)t->rows,
            (long long)t->cols, (long long)t->row, (long long)t->shape.rows, w->causal,
            w->interleaved, w->descending, w->axis, (long long)w->count, w->epsilon, w->scale,
            w->base);
    for (int i = 0; i < t->source_count; i++)
        fprintf(file, "%s[%lld, %lld, %lld, %lld]", i > 0 ? ", " : "",
                (long long)source_rows(&t->sources[i]), (long long)source_cols(&t->sources[i]),
                (long long)t->sources[i].rows, (long long)t->sources[i].cols);
    fprintf(file, "]}\n");
    for (int i = 0; i < t->source_count; i++) {
        const struct source *source = &t->sources[i];
        const int64_t count = source_count(source);
        write_matrix(file, t->dtype, source->values,
                     source_matrix(source, t->shape, t->matrix + matrix) * count, count);
    }
    write_matrix(file, t->dtype, result, matrix * t->rows * t->cols, t->rows * t->cols);
}

static void compare_results(struct bench *b, const struct trial *t, const void *all_found,
                            const void *all_expected) {
    for (int64_t e = 0; e < trial_rows(t) * t->cols; e++) {
        const double found = mmul_dtype_get_real(t->dtype, all_found, e);
        const double expected = mmul_dtype_get_real(t->dtype, all_expected, e);
        const double off = distance(t->dtype, found, expected, t->tolerance);
        if (off <= b->worst)
            continue;
        b->worst = off;
        snprintf(b->detail, sizeof b->detail,
                 "%lld x %lld, layouts %d %d %d, element (%lld, %lld): %.17g, expected %.17g, %.3g "
                 "times the tolerance",
                 (long long)t->rows, (long long)t->cols, t->sources[0].layout, t->sources[1].layout,
                 t->sources[2].layout, (long long)(e / t->cols), (long long)(e % t->cols), found,
                 expected, off);
    }
}

static void try_on_both(struct bench *b, struct trial *t) {
    t->dtype = b->dtype;
    for (int i = 0; i < t->source_count; i++)
        fill_source(&t->sources[i], b->dtype);
    void *expected = run_on_device(b->reference, t);
    // NULL: only the reference itself runs
    void *found = b->cases == NULL ? run_on_device(b->device, t) : NULL;
    b->trials++;
    if (b->cases != NULL && expected != NULL) {
        for (int64_t matrix = 0; matrix < trial_rows(t) / t->rows; matrix++)
            write_case(b->cases, t, matrix, expected);
    } else if (expected == NULL || found == NULL) {
        b->worst = INFINITY;
        snprintf(b->detail, sizeof b->detail, "%lld x %lld: something outside the result changed",
                 (long long)t->rows, (long long)t->cols);
    } else {
        compare_results(b, t, found, expected);
    }
    for (int i = 0; i < t->source_count; i++)
        free(t->sources[i].values);
    free(expected);
    free(found);
}

// Resets the random sequence, so that an operation's values do not depend on earlier operations.
static void begin_operation(struct bench *b) {
    random_state = 0;
    b->trials = 0;
    b->worst = 0;
    b->detail[0] = '\0';
}

static inline void end_operation(struct bench *b, enum mmul_operation_kind kind) {
    char title[64];
    snprintf(title, sizeof title, "%s%s", mmul_operation_row(kind)->name,
             b->dtype == MMUL_F64 ? " in float64" : "");
    printf("# %s: %d trials, at most %.2g of the tolerance\n", title, b->trials, b->worst);
    report_point(b->worst <= 1 && b->trials > 0, title, b->detail);
}
