// SPDX-License-Identifier: MIT
// Checks samples of results, and repeats wrong blocks on the next device. mmul_reference_map makes
// the sample in double. Two right devices differ by far less than the tolerance. An element off by
// a tenth of its row's size differs by far more.
#include "exec/steps/map_check.h"

#include <float.h>
#include <math.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"
#include "exec/steps/checks.h"
#include "exec/steps/rank_resources.h"
#include "exec/threads/compute_thread.h"
#include "model/dtype.h"

// WORK_MOST: elements of a sample; PIECE: columns of a piece of a row
enum { WORK_MOST = MMUL_SAMPLE_WORK, PIECE = 64 };

// ----------------------------------------------------------------------------------------- judging

// Returns the size of the largest finite element of an operand.
static double largest_of(const struct mmul_host_operand *o) {
    double most = 0;
    for (int64_t i = 0; o->at != NULL && i < o->rows; i++)
        for (int64_t j = 0; j < o->cols; j++) {
            const double size =
                fabs(mmul_dtype_get_real(o->dtype, o->at, i * o->row_step + j * o->col_step));
            most = size > most && isfinite(size) ? size : most;
        }
    return o->at == NULL ? fabs((double)o->number) : most;
}

// Returns the size of cancelled terms in gradients of attention and in the sums for them. A slope
// is a difference of products of rows. As many slopes are added up as there are queries.
static double find_attention_cancellation(const struct mmul_host_map *host) {
    const struct mmul_host_operand *o = host->operands;
    const double scale = fabs(host->map.with->scale), many = sqrt((double)o[0].rows),
                 slope = largest_of(&o[2]) * largest_of(&o[3]) * sqrt((double)o[2].cols);
    switch (host->map.kind) {
    case MMUL_ATTENTION_SUMS:
        return slope + scale * largest_of(&o[0]) * largest_of(&o[1]) * sqrt((double)o[0].cols);
    case MMUL_ATTENTION_BACKWARD_Q:
        return slope * scale * largest_of(&o[1]);
    case MMUL_ATTENTION_BACKWARD_K:
        return slope * scale * largest_of(&o[0]) * many;
    case MMUL_ATTENTION_BACKWARD_V:
        return largest_of(&o[3]) * many;
    default:
        return slope;
    }
}

// Returns the largest element of operand i; 1 if there is no such operand.
static double find_factor(const struct mmul_host_map *host, int i) {
    return i < host->map.operand_count ? largest_of(&host->operands[i]) : 1;
}

// Returns the number of elements of the first operand that are added up for one of the result.
static double count_terms(const struct mmul_host_map *host) {
    const struct mmul_host_operand *o = &host->operands[0];
    return (double)(mmul_map_reduces_columns(&host->map) ? o->rows : o->cols);
}

// Returns the relative error of a term. The reference adds up doubles one by one, so that their
// error is up to 2^-53 for each; devices add floats in many lanes.
static double find_rounding(const struct mmul_host_map *host) {
    return host->dtype == MMUL_F64 ? 1e-14 + count_terms(host) * 0x1p-53 : 1e-6;
}

// Returns the largest factor of a norm that rounding allows: 1 / sqrt(v + epsilon), with the
// variance v of the row, or the mean of its squares. The mean is rounded, so a row of equal numbers
// may have a deviation.
static double find_norm_factor(const struct mmul_host_map *row) {
    const struct mmul_host_operand *o = &row->operands[0];
    double sum = 0, squares = 0;
    for (int64_t j = 0; j < o->cols; j++)
        sum += mmul_dtype_get_real(o->dtype, o->at, j * o->col_step);
    const double mean = row->map.kind == MMUL_RMS_NORM_BACKWARD ? 0 : sum / (double)o->cols;
    for (int64_t j = 0; j < o->cols; j++) {
        const double x = mmul_dtype_get_real(o->dtype, o->at, j * o->col_step) - mean;
        squares += x * x;
    }
    const double deviation =
        fmax(0, sqrt(squares / (double)o->cols) - find_rounding(row) * find_factor(row, 0));
    return 1 / sqrt(deviation * deviation + row->map.with->epsilon + 1e-30);
}

// Returns the size of the terms that may cancel.
static double find_term_size(const struct mmul_host_map *host) {
    static const double far = 64; // functions of larger numbers are their limits, or do not cancel
    const enum mmul_operation_class class = mmul_operation_row(host->map.kind)->class;
    const double first = find_factor(host, 0);
    switch (host->map.kind) {
    case MMUL_SOFTMAX_BACKWARD: // y (dy - sum y dy)
        return first * find_factor(host, 1);
    case MMUL_CROSS_ENTROPY_BACKWARD: // (powers - 1) dy; powers carry the rounding of x
        return fmax(1, first) * find_factor(host, 2);
    case MMUL_LAYER_NORM: // (x - mean) factor weights
        return first * find_norm_factor(host) * find_factor(host, 1);
    case MMUL_LAYER_NORM_BACKWARD: // the same, times dy factor, and dy factor weights
    case MMUL_RMS_NORM_BACKWARD: {
        const double factor = find_norm_factor(host);
        return (1 + first * factor) * factor * find_factor(host, 1) * find_factor(host, 2);
    }
    default:
        return class == MMUL_CLASS_ELEMENTS ? fmin(fmax(1, first), far) * find_factor(host, 1)
                                            : first;
    }
}

// Returns the error that is allowed when terms, of size `term`, are large and the result is not. An
// operation on rows is given one row at a time; any other, several rows.
static double find_cancellation_error(const struct mmul_host_map *host, enum mmul_accuracy accuracy,
                                      double term) {
    if (accuracy < MMUL_CANCELS)
        return 0;
    const double rounding = find_rounding(host);
    if (accuracy == MMUL_CANCELS_IN_ATTENTION)
        return rounding * find_attention_cancellation(host);
    const double most = rounding * term;
    if (accuracy == MMUL_CANCELS_IN_SUMS)
        return most * (double)(host->operands[0].rows * host->operands[0].cols) /
               (double)(host->map.rows * host->map.cols);
    return most;
}

// Returns true if the operation adds up terms.
static bool adds_terms(const struct mmul_host_map *host, enum mmul_accuracy accuracy) {
    return accuracy == MMUL_CANCELS_IN_NORMS || accuracy == MMUL_CANCELS_IN_SUMS ||
           mmul_operation_row(host->map.kind)->class == MMUL_CLASS_REDUCE;
}

// Returns true if sums of terms may overflow, which depends on their order: Inf and NaN are right
// then. Norms also add up squares, and their gradients products of x and dy.
static bool may_overflow(const struct mmul_host_map *host, enum mmul_accuracy accuracy,
                         double term) {
    const bool is_norm = accuracy == MMUL_CANCELS_IN_NORMS;
    const double largest = host->dtype == MMUL_F64 ? DBL_MAX : (double)FLT_MAX;
    if (!is_norm)
        return term * count_terms(host) > largest / 2;
    const double first = find_factor(host, 0);
    term = fmax(term, fmax(1, first) * find_factor(host, 1) * find_factor(host, 2));
    return term * count_terms(host) > largest / 2 ||
           first * first * count_terms(host) > DBL_MAX / 2;
}

// Allowed differences of a row.
struct tolerance {
    double relative, absolute;
    bool is_exact, may_overflow;
    // An Inf may meet a term that is 0 as a float only, or another Inf in one order only: it is as
    // right as NaN.
    bool confuses_inf;
};

static struct tolerance find_tolerance(const struct mmul_host_map *row) {
    const enum mmul_accuracy accuracy = mmul_operation_row(row->map.kind)->accuracy;
    const bool has_powers = accuracy == MMUL_ROUNDED_EXP || accuracy == MMUL_CANCELS_IN_ATTENTION,
               is_double = row->dtype == MMUL_F64;
    const double of_floats = has_powers ? 1e-2 : 1e-3;
    if (accuracy == MMUL_EXACT)
        return (struct tolerance){.is_exact = true};
    const bool adds = adds_terms(row, accuracy);
    const double term = adds || accuracy >= MMUL_CANCELS ? find_term_size(row) : 0;
    // Devices may flush subnormal numbers to 0.
    return (struct tolerance){.relative = is_double ? of_floats * 1e-8 : of_floats,
                              .absolute = find_cancellation_error(row, accuracy, term) +
                                          (is_double ? DBL_MIN : (double)FLT_MIN),
                              .may_overflow = adds && may_overflow(row, accuracy, term),
                              .confuses_inf = accuracy >= MMUL_CANCELS};
}

// Returns true if an element differs from the expected one by no more than is allowed. typical: the
// root mean square of its row.
static bool is_near(double x, double y, double typical, const struct tolerance *t) {
    if (x == y || (isnan(x) && isnan(y)))
        return true;
    if (t->is_exact)
        return false;
    if (!isfinite(x) || !isfinite(y))
        return t->may_overflow || (t->confuses_inf && !isfinite(x) && !isfinite(y));
    return fabs(x - y) <= t->relative * (fabs(x) + typical) + t->absolute;
}

// Returns the root mean square of the finite elements. Their squares may overflow.
static double find_typical(enum mmul_dtype dtype, const void *elements, int64_t count) {
    const struct mmul_host_operand row = {
        .at = elements, .dtype = dtype, .col_step = 1, .rows = 1, .cols = count};
    const double most = largest_of(&row);
    double squares = 0;
    for (int64_t j = 0; j < count && most > 0; j++) {
        const double x = mmul_dtype_get_real(dtype, elements, j) / most;
        squares += isfinite(x) ? x * x : 0;
    }
    return most * sqrt(squares / (double)count);
}

// Counts the rows of a piece that differ from `expected`. Rows of a result that depend on rows of
// the operands have a tolerance each.
static int64_t count_wrong(const struct mmul_host_map *piece, const void *expected) {
    const struct mmul_map *map = &piece->map;
    const enum mmul_operation_class class = mmul_operation_row(map->kind)->class;
    const bool has_own = class == MMUL_CLASS_ROWS || class == MMUL_CLASS_ELEMENTS;
    struct tolerance tolerance = {0};
    int64_t wrong = 0;
    for (int64_t i = 0; i < map->rows; i++) {
        const void *want = mmul_dtype_advance(piece->dtype, expected, i * map->cols);
        const void *have = mmul_dtype_advance(piece->dtype, piece->result, i * piece->ld);
        const struct mmul_host_map row =
            has_own ? mmul_host_map_part(piece, i, 1, 0, map->cols) : *piece;
        if (has_own || i == 0)
            tolerance = find_tolerance(&row);
        const double typical = find_typical(piece->dtype, want, map->cols);
        bool is_wrong = false;
        for (int64_t j = 0; j < map->cols; j++)
            is_wrong |= !is_near(mmul_dtype_get_real(piece->dtype, want, j),
                                 mmul_dtype_get_real(piece->dtype, have, j), typical, &tolerance);
        wrong += is_wrong;
    }
    return wrong;
}

static enum mmul_status judge_piece(const struct mmul_host_map *piece, struct mmul_device *judge,
                                    int64_t *wrong, struct mmul_error *err) {
    double *expected = NULL; // room for either type
    struct mmul_host_map again = *piece;
    enum mmul_status status =
        MMUL_ALLOCATE_RAW(expected, piece->map.rows * piece->map.cols, "a sample", err);
    again.result = expected;
    again.ld = piece->map.cols;
    if (status == MMUL_OK)
        status = mmul_host_map_make(&again, judge, err);
    if (status == MMUL_OK)
        *wrong += count_wrong(piece, expected);
    mmul_free(expected);
    return status;
}

// ---------------------------------------------------------------------------------------- sampling

// Picks a place in part `part` of `count` equal parts of [0, size): the first place of the first
// part, the last of the last, any other one at random.
static int64_t pick_place(uint64_t seed, int64_t part, int64_t count, int64_t size) {
    const int64_t begin = part * size / count, end = (part + 1) * size / count;
    if (part == 0)
        return 0;
    return part == count - 1
               ? size - 1
               : begin + (int64_t)(mmul_random_at(seed, (uint64_t)part) % (uint64_t)(end - begin));
}

// Sampled pieces of a block that is too large to check whole. Each is `width` columns of one row.
struct sample {
    uint64_t seed;
    int64_t rows, width, pieces; // rows: of all matrices
};

static struct sample choose_sample(const struct mmul_host_map *host, uint64_t seed) {
    const enum mmul_operation_class class = mmul_operation_row(host->map.kind)->class;
    const bool takes_whole_rows = class == MMUL_CLASS_ROWS || class == MMUL_CLASS_ATTENTION ||
                                  (class == MMUL_CLASS_REDUCE && host->map.with->axis == -1);
    const int64_t cols = host->map.cols;
    struct sample s = {.seed = seed,
                       .rows = host->map.matrices * host->map.rows,
                       .width = takes_whole_rows ? cols : mmul_min(cols, PIECE)};
    const struct mmul_host_map first = mmul_host_map_matrix(host, 0);
    const struct mmul_host_map one = mmul_host_map_part(&first, 0, 1, 0, s.width);
    const int64_t enough = (int64_t)(WORK_MOST / mmul_host_map_work(&one));
    // A single row is sampled in several pieces.
    const int64_t lines = s.rows > 1 ? s.rows : cols / s.width;
    s.pieces = mmul_min(mmul_max(enough, 2), lines);
    return s;
}

static struct mmul_host_map find_piece(const struct mmul_host_map *host, const struct sample *s,
                                       int64_t p) {
    const int64_t row = s->rows > 1 ? pick_place(s->seed, p, s->pieces, s->rows) : 0;
    const int64_t places = host->map.cols - s->width + 1;
    const bool any = s->rows > 1 && p > 0 && p < s->pieces - 1;
    const int64_t col = any ? (int64_t)(mmul_random_at(s->seed + 1, (uint64_t)p) % (uint64_t)places)
                            : pick_place(s->seed + 1, p, s->pieces, places);
    const struct mmul_host_map matrix = mmul_host_map_matrix(host, row / host->map.rows);
    return mmul_host_map_part(&matrix, row % host->map.rows, 1, col, s->width);
}

// Returns operand i, or after the operands the result, as it is stored in host memory.
static struct mmul_host_tile get_tile(const struct mmul_host_map *host, int i) {
    const struct mmul_host_operand *o = &host->operands[i];
    return i < host->map.operand_count
               ? (struct mmul_host_tile){o->at, o->rows, o->cols, o->row_step, o->dtype}
               : (struct mmul_host_tile){host->result, host->map.rows, host->map.cols, host->ld,
                                         host->dtype};
}

// Downloads the parts of the pieces that only a device has.
static enum mmul_status download_pieces(const struct mmul_host_map *host, const struct sample *s,
                                        struct mmul_error *err) {
    struct mmul_host_tile *parts = NULL;
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && host->maker != NULL && i <= host->map.operand_count; i++) {
        const struct mmul_host_tile all = get_tile(host, i);
        if (all.at == NULL || !mmul_worker_is_absent(host->maker, &all))
            continue;
        status = parts == NULL ? MMUL_ALLOCATE_RAW(parts, s->pieces, "a sample", err) : MMUL_OK;
        for (int64_t p = 0; status == MMUL_OK && p < s->pieces; p++) {
            const struct mmul_host_map piece = find_piece(host, s, p);
            parts[p] = get_tile(&piece, i);
        }
        if (status == MMUL_OK)
            status = mmul_worker_download_samples(host->maker, parts, s->pieces, err);
    }
    mmul_free(parts);
    return status;
}

enum mmul_status mmul_map_check_sample(const struct mmul_host_map *host, struct mmul_device *judge,
                                       uint64_t seed, int64_t *wrong, int64_t *looked_at,
                                       struct mmul_error *err) {
    const int64_t rows = host->map.matrices * host->map.rows;
    const bool is_small = mmul_host_map_work(host) <= WORK_MOST; // checked whole, matrix by matrix
    const struct sample s =
        is_small ? (struct sample){.rows = rows, .width = host->map.cols, .pieces = rows}
                 : choose_sample(host, seed);
    enum mmul_status status = download_pieces(host, &s, err);
    *wrong = 0;
    *looked_at = s.pieces;
    for (int64_t p = 0; status == MMUL_OK && p < (is_small ? host->map.matrices : s.pieces); p++) {
        const struct mmul_host_map piece =
            is_small ? mmul_host_map_matrix(host, p) : find_piece(host, &s, p);
        status = judge_piece(&piece, judge, wrong, err);
    }
    return status;
}

// ------------------------------------------------------------------------------------ the method

struct sampled {
    const struct mmul_host_map *host;
    uint64_t seed;
};

static enum mmul_status compute(struct mmul_verification *v, struct mmul_error *err) {
    const struct sampled *block = v->block;
    const int64_t errors = v->worker->download_errors;
    const enum mmul_status status = mmul_worker_map(v->worker, block->host, err);
    v->changed = v->worker->download_errors - errors;
    return status;
}

static enum mmul_status recompute(struct mmul_verification *v, struct mmul_error *err) {
    const struct sampled *block = v->block;
    const enum mmul_status status = mmul_worker_check_lost_results(v->worker, err);
    v->recomputed = block->host->map.rows;
    return status == MMUL_OK ? compute(v, err) : status;
}

static enum mmul_status look(struct mmul_verification *v, struct mmul_error *err) {
    const struct sampled *block = v->block;
    struct mmul_worker *worker = v->worker;
    v->line = "row";
    if (worker->judge == NULL && mmul_device_open("reference", &worker->judge, err) != MMUL_OK)
        return err->status;
    return mmul_map_check_sample(block->host, worker->judge, block->seed, &v->wrong, &v->lines,
                                 err);
}

const struct mmul_check_method mmul_map_check = {
    .trusts_cpu = true, .look = look, .recompute = recompute};

// Returns true if argmax, argmin or topk found a NaN in the row. If the row holds any, the first
// place found is that of a NaN.
static bool is_row_nan(const struct mmul_host_map *host, int64_t matrix, int64_t row) {
    const struct mmul_host_operand *o = &host->operands[0];
    const int64_t first = host->map.kind == MMUL_TOPK ? host->map.with->count : 0;
    const double place = mmul_dtype_get_real(
        host->dtype, host->result, matrix * host->map.result_step + row * host->ld + first);
    if (!(place >= 0 && place < (double)o->cols))
        return false;
    const void *at =
        mmul_dtype_advance(o->dtype, o->at, mmul_stack_offset(&host->map, o->stack, matrix));
    return isnan(
        mmul_dtype_get_real(o->dtype, at, row * o->row_step + (int64_t)place * o->col_step));
}

void mmul_stage_find_nan(struct mmul_stage *stage, const struct mmul_operation *operation,
                         const struct mmul_host_map *host) {
    const enum mmul_operation_kind kind = host->map.kind;
    if ((kind != MMUL_TOPK && kind != MMUL_ARGMAX && kind != MMUL_ARGMIN) ||
        atomic_load(&stage->nan_operation) != NULL ||
        !mmul_device_can_borrow(stage->rank_resources->context->device))
        return;
    for (int64_t t = 0; t < host->map.matrices; t++)
        for (int64_t i = 0; i < host->map.rows; i++)
            if (is_row_nan(host, t, i)) {
                atomic_store(&stage->nan_operation, operation);
                return;
            }
}

enum mmul_status mmul_stage_run_map(struct mmul_stage *stage,
                                    const struct mmul_operation *operation,
                                    const struct mmul_host_map *host, const char *place,
                                    struct mmul_error *err) {
    // work per element; a device's speed is known for products only
    static const double flops_each = 10;
    struct mmul_rank_resources *resources = stage->rank_resources;
    const double flops = flops_each * mmul_host_map_work(host);
    uint32_t carried;
    struct mmul_host_map checked = *host;
    checked.maker = &resources->worker;
    checked.map.parallel =
        (struct mmul_parallel){resources->context->fallback_threads, mmul_helper_threads_run};
    if (!resources->options->no_verify)
        checked.map.carried = &carried;
    const struct sampled block = {&checked, resources->options->verify_seed};
    struct mmul_verification v = {.worker = &resources->worker,
                                  .block = &block,
                                  .place = place,
                                  .rows = host->map.matrices * host->map.rows,
                                  .cols = host->map.cols};
    mmul_watchdog_begin(&resources->watchdog, flops);
    enum mmul_status status = compute(&v, err);
    mmul_watchdog_end(&resources->watchdog);
    if (status == MMUL_OK)
        status = mmul_stage_check(stage, MMUL_CHECK_MAP, &v, flops, err);
    if (status == MMUL_OK)
        mmul_stage_find_nan(stage, operation, host);
    return status;
}
