// SPDX-License-Identifier: MIT
// A wrapper around another device that is slow, fails or computes wrongly by rule (faulty_rules.h).
// With it, balance, checks and fallback are tested on good hardware. Buffers belong to the inner
// device. Every call is counted, misbehaves if a rule applies, and is passed on. The work of the
// inner device is real: a repeated multiplication is really computed again.
#include "device/registry.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"
#include "base/text.h"
#include "device/faulty_rules.h"
#include "device/map.h"
#include "device/matrix_sums.h"
#include "model/dtype.h"

struct faulty {
    struct mmul_device *inner; // owned
    struct mmul_faulty_rules rules;
    double clock_lead_seconds;                                        // shift of its clock, by rule
    int64_t operations, allocations, uploads, downloads, projections; // calls so far
    struct mmul_buffer *scratch; // target of repetitions that must not change C; NULL until needed
    int64_t scratch_count;
    enum mmul_dtype scratch_dtype;
    char name[MMUL_DEVICE_NAME_MAX + 1];
};

// ----------------------------------------------------------------------------------------- names

static bool is_name(const char *text) {
    return strncmp(text, "faulty:", 7) == 0;
}

// Returns the name after the rules, valid or not.
static const char *inner_name(const char *text) {
    const char *colon = strchr(text + 7, ':');
    return colon != NULL ? colon + 1 : "";
}

static enum mmul_status check_name(const char *text, struct mmul_error *err) {
    struct mmul_faulty_rules rules;
    const char *inner = NULL;
    enum mmul_status status = mmul_faulty_rules_parse(text, &rules, &inner, err);
    return status == MMUL_OK ? mmul_device_check_name(inner, err) : status;
}

static const char *fallback_name(const char *text, char next[static 128]) {
    struct mmul_faulty_rules rules;
    const char *inner = NULL;
    struct mmul_error err;
    if (mmul_faulty_rules_parse(text, &rules, &inner, &err) != MMUL_OK)
        return NULL;
    char follower[128];
    if (mmul_device_fallback_name(inner, follower) == NULL)
        return NULL;
    int prefix = rules.everywhere ? (int)(inner - text) : 0;
    int length = snprintf(next, 128, "%.*s%s", prefix, text, follower);
    return length < 128 ? next : NULL;
}

// ------------------------------------------------------------------------------- open and close

static enum mmul_status open_faulty(const char *text, void **self, struct mmul_error *err) {
    struct faulty *faulty = mmul_allocate(1, sizeof *faulty, "a device", err);
    if (faulty == NULL)
        return err->status;
    mmul_text_copy(faulty->name, sizeof faulty->name, text);
    const char *inner = NULL;
    enum mmul_status status = mmul_faulty_rules_parse(text, &faulty->rules, &inner, err);
    if (status == MMUL_OK && faulty->rules.fail_open) {
        status = mmul_fail(err, MMUL_ERR_UNAVAILABLE, "cannot open device '%s': its rule fail-open",
                           text);
    }
    if (status == MMUL_OK)
        status = mmul_device_open(inner, &faulty->inner, err);
    if (status != MMUL_OK) {
        mmul_free(faulty);
        return status;
    }
    *self = faulty;
    return MMUL_OK;
}

static void close_faulty(void *self, bool lost) {
    (void)lost; // "lost" is by rule: the inner device knows its own state
    struct faulty *faulty = self;
    mmul_device_buffer_destroy(faulty->inner, faulty->scratch);
    mmul_device_close(faulty->inner);
    mmul_free(faulty);
}

static void describe(const void *self, struct mmul_device_info *info) {
    const struct faulty *faulty = self;
    mmul_device_describe(faulty->inner, info);
    mmul_text_copy(info->name, sizeof info->name, faulty->name);
    info->usable = false;
    info->has_double &= !faulty->rules.no_float64;
    mmul_text_copy(info->reason, sizeof info->reason, "deliberately faulty");
}

static enum mmul_status warm_up(void *self, enum mmul_dtype dtype, double most,
                                struct mmul_error *err) {
    struct faulty *faulty = self;
    return mmul_device_warm_up(faulty->inner, dtype, most, err);
}

static double now(const void *self) {
    const struct faulty *faulty = self;
    return mmul_device_now(faulty->inner) + faulty->clock_lead_seconds;
}

static void set_threads(void *self, int threads) {
    struct faulty *faulty = self;
    mmul_device_set_threads(faulty->inner, threads);
}

// ----------------------------------------------------------------------------------------- buffers

static bool can_borrow(const void *self) {
    const struct faulty *faulty = self;
    return faulty->rules.hang == MMUL_FAULTY_NEVER && mmul_device_can_borrow(faulty->inner);
}

// Loses the device by rule. Waits first for the inner device, because pending work could still
// touch the caller's memory.
static enum mmul_status lose_device(const struct faulty *faulty, const char *what, int64_t call,
                                    struct mmul_error *err) {
    struct mmul_error ignored;
    mmul_device_wait(faulty->inner, &ignored);
    return mmul_fail(err, MMUL_ERR_UNAVAILABLE, "device '%s' was lost at %s %lld by rule",
                     faulty->name, what, (long long)call);
}

// Counts a call and fails it if its rule applies.
static enum mmul_status count_call(const struct faulty *faulty, int64_t rule, int64_t *calls,
                                   const char *what, struct mmul_error *err) {
    (*calls)++;
    return mmul_faulty_rule_applies(rule, *calls) ? lose_device(faulty, what, *calls, err)
                                                  : MMUL_OK;
}

static bool has_dtype(const void *self, enum mmul_dtype dtype) {
    const struct faulty *faulty = self;
    return (dtype != MMUL_F64 || !faulty->rules.no_float64) &&
           mmul_device_has_dtype(faulty->inner, dtype);
}

static enum mmul_status buffer_create(void *self, enum mmul_dtype dtype, int64_t count,
                                      struct mmul_buffer **buffer, struct mmul_error *err) {
    struct faulty *faulty = self;
    enum mmul_status status =
        count_call(faulty, faulty->rules.fail_alloc, &faulty->allocations, "allocation", err);
    return status == MMUL_OK ? mmul_device_buffer_create(faulty->inner, dtype, count, buffer, err)
                             : status;
}

static enum mmul_status buffer_borrow(void *self, enum mmul_dtype dtype, void *memory,
                                      int64_t count, struct mmul_buffer **buffer,
                                      struct mmul_error *err) {
    struct faulty *faulty = self;
    enum mmul_status status =
        count_call(faulty, faulty->rules.fail_alloc, &faulty->allocations, "allocation", err);
    return status == MMUL_OK
               ? mmul_device_buffer_borrow(faulty->inner, dtype, memory, count, buffer, err)
               : status;
}

static void buffer_destroy(void *self, struct mmul_buffer *buffer, bool lost) {
    (void)lost;
    struct faulty *faulty = self;
    mmul_device_buffer_destroy(faulty->inner, buffer);
}

static enum mmul_status wait_inner(void *self, struct mmul_error *err) {
    struct faulty *faulty = self;
    return mmul_device_wait(faulty->inner, err);
}

static enum mmul_status wait_buffer(void *self, struct mmul_buffer *buffer,
                                    struct mmul_error *err) {
    struct faulty *faulty = self;
    return mmul_device_wait_buffer(faulty->inner, buffer, err);
}

// -------------------------------------------------------------------------- products, and all else

static int64_t gemm_temporary_bytes(const void *self, enum mmul_dtype dtype, int64_t m, int64_t n,
                                    int64_t k) {
    const struct faulty *faulty = self;
    int64_t scratch = faulty->rules.repeat > 1 ? m * n * (int64_t)mmul_dtype_bytes(dtype) : 0;
    return scratch + mmul_device_gemm_temporary_bytes(faulty->inner, dtype, m, n, k);
}

static enum mmul_status grow_scratch(struct faulty *faulty, enum mmul_dtype dtype, int64_t count,
                                     struct mmul_error *err) {
    if (count <= faulty->scratch_count && dtype == faulty->scratch_dtype)
        return MMUL_OK;
    mmul_device_buffer_destroy(faulty->inner, faulty->scratch);
    faulty->scratch = NULL;
    faulty->scratch_count = 0;
    enum mmul_status status =
        mmul_device_buffer_create(faulty->inner, dtype, count, &faulty->scratch, err);
    faulty->scratch_count = status == MMUL_OK ? count : 0;
    faulty->scratch_dtype = dtype;
    return status;
}

// Does the additional work of rule `repeat`: same operands, result discarded.
static enum mmul_status repeat_gemm(struct faulty *faulty, const struct mmul_gemm *args,
                                    struct mmul_error *err) {
    struct mmul_gemm extra = *args;
    enum mmul_status status = MMUL_OK;
    if (faulty->rules.repeat > 1 && args->beta != 0) { // C must be accumulated only once
        status = grow_scratch(faulty, args->dtype, args->m * args->n, err);
        extra.c = (struct mmul_operand){.buffer = faulty->scratch, .offset = 0, .ld = args->n};
        extra.beta = 0;
    }
    for (int64_t i = 1; i < faulty->rules.repeat && status == MMUL_OK; i++)
        status = mmul_device_gemm(faulty->inner, &extra, err);
    return status;
}

// The result of a product or another operation.
struct made {
    struct mmul_operand at;
    int64_t rows, cols;
    const char *what; // the operation, for errors
};

static enum mmul_dtype dtype_of(const struct made *made) {
    return ((const struct mmul_buffer_head *)made->at.buffer)->dtype;
}

// Returns a value that differs from element `at` of a row by 10 % of the row's root mean square.
static double wrong_value(enum mmul_dtype dtype, const void *row, int64_t count, int64_t at) {
    const double value = mmul_dtype_get_real(dtype, row, at);
    double squares = 0.0;
    for (int64_t i = 0; i < count; i++)
        squares += mmul_dtype_get_real(dtype, row, i) * mmul_dtype_get_real(dtype, row, i);
    double rms = sqrt(squares / (double)count);
    if (!isfinite(rms) || rms == 0.0) // no scale to measure by: change visibly
        return isfinite(value) ? value + 1 : 1;
    return value + 0.1 * rms;
}

// Changes one element of the result. The call's number determines the element.
static enum mmul_status corrupt_element(struct faulty *faulty, const struct made *made,
                                        struct mmul_error *err) {
    enum { SAMPLE = 1024 }; // this many neighbours of the element stand for a long row
    const enum mmul_dtype dtype = dtype_of(made);
    double row[SAMPLE];
    uint64_t random = mmul_random_at(1, (uint64_t)faulty->operations);
    int64_t count = made->cols < SAMPLE ? made->cols : SAMPLE;
    int64_t i = (int64_t)(random % (uint64_t)made->rows);
    int64_t begin = (int64_t)((random >> 16) % (uint64_t)(made->cols - count + 1));
    int64_t victim = (int64_t)((random >> 32) % (uint64_t)count);
    struct mmul_operand place = made->at;
    place.offset += i * made->at.ld + begin;
    enum mmul_status status = mmul_device_download(
        faulty->inner, &(struct mmul_download){place, 1, count, row, count, dtype}, err);
    if (status == MMUL_OK)
        status = mmul_device_wait(faulty->inner, err);
    if (status != MMUL_OK)
        return status;
    mmul_dtype_set_real(dtype, row, 0, wrong_value(dtype, row, count, victim));
    place.offset += victim;
    place.ld = 1;
    status =
        mmul_device_upload(faulty->inner, &(struct mmul_upload){place, 1, 1, row, 1, dtype}, err);
    return status == MMUL_OK ? mmul_device_wait(faulty->inner, err) : status;
}

static enum mmul_status garble_result(struct faulty *faulty, const struct made *made,
                                      struct mmul_error *err) {
    const int64_t m = made->rows, n = made->cols;
    const enum mmul_dtype dtype = dtype_of(made);
    void *c = mmul_allocate_raw(m * n, mmul_dtype_bytes(dtype), "a garbled result", err);
    if (c == NULL)
        return err->status;
    enum mmul_status status = mmul_device_download(
        faulty->inner, &(struct mmul_download){made->at, m, n, c, n, dtype}, err);
    if (status == MMUL_OK)
        status = mmul_device_wait(faulty->inner, err);
    // Walks along the diagonal, which starts again at each border.
    for (int64_t i = 0; i < m || i < n; i++) {
        const int64_t at = i % m * n + i % n;
        mmul_dtype_set_real(dtype, c, at, mmul_dtype_get_real(dtype, c, at) + (double)(1000 + i));
    }
    if (status == MMUL_OK)
        status = mmul_device_upload(faulty->inner,
                                    &(struct mmul_upload){made->at, m, n, c, n, dtype}, err);
    if (status == MMUL_OK)
        status = mmul_device_wait(faulty->inner, err);
    mmul_free(c);
    return status;
}

// Returns true from operation `from` on. Rules with `from` apply to operations only.
static bool is_active(const struct faulty *faulty) {
    return faulty->operations >= faulty->rules.from;
}

static bool applies_now(const struct faulty *faulty, int64_t rule) {
    return rule == MMUL_FAULTY_EVERY ? is_active(faulty)
                                     : mmul_faulty_rule_applies(rule, faulty->operations);
}

// Applies the rules before an operation; end_operation applies those after it.
static enum mmul_status begin_operation(struct faulty *faulty, const struct made *made,
                                        struct mmul_error *err) {
    faulty->operations++;
    if (applies_now(faulty, faulty->rules.fail)) {
        (void)corrupt_element(faulty, made, err); // the operation had begun
        return lose_device(faulty, made->what, faulty->operations, err);
    }
    if (applies_now(faulty, faulty->rules.hang)) {
        const double wake_seconds = faulty->rules.wake_seconds;
        do {
            mmul_clock_sleep(wake_seconds > 0 ? wake_seconds : 3600.0);
        } while (!(wake_seconds > 0));
    }
    if (is_active(faulty)) {
        faulty->clock_lead_seconds += faulty->rules.clock_seconds;
        mmul_clock_sleep(faulty->rules.delay_seconds);
    }
    return MMUL_OK;
}

static enum mmul_status end_operation(struct faulty *faulty, const struct made *made,
                                      struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    if (applies_now(faulty, faulty->rules.corrupt))
        status = corrupt_element(faulty, made, err);
    if (status == MMUL_OK && applies_now(faulty, faulty->rules.garble))
        status = garble_result(faulty, made, err);
    return status;
}

// ------------------------------------------------------------------------------------- transfers

static enum mmul_status upload(void *self, const struct mmul_upload *u, struct mmul_error *err) {
    struct faulty *faulty = self;
    const struct made made = {u->to, u->rows, u->cols, "upload"};
    enum mmul_status status =
        count_call(faulty, faulty->rules.fail_upload, &faulty->uploads, "upload", err);
    if (status == MMUL_OK)
        status = mmul_device_upload(faulty->inner, u, err);
    if (status != MMUL_OK || !mmul_faulty_rule_applies(faulty->rules.spoil_upload, faulty->uploads))
        return status;
    return corrupt_element(faulty, &made, err);
}

static enum mmul_status download(void *self, const struct mmul_download *d,
                                 struct mmul_error *err) {
    struct faulty *faulty = self;
    enum mmul_status status =
        count_call(faulty, faulty->rules.fail_download, &faulty->downloads, "download", err);
    if (status == MMUL_OK)
        status = mmul_device_download(faulty->inner, d, err);
    if (status != MMUL_OK ||
        !mmul_faulty_rule_applies(faulty->rules.spoil_download, faulty->downloads))
        return status;
    status = mmul_device_wait(faulty->inner, err);
    const int64_t victim = d->rows / 2 * d->host_ld + d->cols / 2;
    const double value = mmul_dtype_get_real(d->dtype, d->host, victim);
    if (status == MMUL_OK)
        mmul_dtype_set_real(d->dtype, d->host, victim,
                            isfinite(value) ? 1.1 * value + (value == 0) : 1);
    return status;
}

static enum mmul_status gemm(void *self, const struct mmul_gemm *args, struct mmul_error *err) {
    struct faulty *faulty = self;
    const struct made made = {args->c, args->m, args->n, "multiplication"};
    enum mmul_status status = begin_operation(faulty, &made, err);
    if (status == MMUL_OK && is_active(faulty))
        status = repeat_gemm(faulty, args, err);
    if (status == MMUL_OK)
        status = mmul_device_gemm(faulty->inner, args, err);
    return status == MMUL_OK ? end_operation(faulty, &made, err) : status;
}

// A device that hangs by rule does not work in host memory (can_borrow).
static bool gemm_depends_on_cut(const void *self) {
    const struct faulty *faulty = self;
    return can_borrow(self) && mmul_device_gemm_depends_on_cut(faulty->inner);
}

static enum mmul_status map(void *self, const struct mmul_map *args, struct mmul_error *err) {
    struct faulty *faulty = self;
    const struct made made = {args->result, args->rows, args->cols, "operation"};
    enum mmul_status status = begin_operation(faulty, &made, err);
    const int64_t times = is_active(faulty) ? faulty->rules.repeat : 1;
    for (int64_t i = 0; i < times && status == MMUL_OK; i++)
        status = mmul_device_map(faulty->inner, args, err);
    return status == MMUL_OK ? end_operation(faulty, &made, err) : status;
}

// Falsifies one sum by rule: the middle element of the first sum that is wanted.
static void falsify_sum(const struct mmul_matrix_sums *args) {
    double *const sums[] = {args->row_sums, args->col_sums, args->row_squares, args->col_squares};
    for (int i = 0; i < 4; i++)
        if (sums[i] != NULL) {
            double *victim = &sums[i][(i % 2 == 0 ? args->rows : args->cols) / 2];
            *victim = 2 * *victim + 1;
            return;
        }
    if (args->bits != NULL)
        *args->bits += 1;
}

static enum mmul_status project(void *self, const struct mmul_matrix_sums *args,
                                struct mmul_error *err) {
    struct faulty *faulty = self;
    enum mmul_status status = mmul_device_sum_matrix(faulty->inner, args, err);
    faulty->projections++;
    if (status == MMUL_OK && mmul_faulty_rule_applies(faulty->rules.lie, faulty->projections))
        falsify_sum(args);
    return status;
}

const struct mmul_device_table mmul_faulty_table = {
    .kind = "faulty",
    .names = "faulty:RULES:NAME",
    .is_name = is_name,
    .check_name = check_name,
    .inner_name = inner_name,
    .fallback_name = fallback_name,
    .open = open_faulty,
    .close = close_faulty,
    .describe = describe,
    .warm_up = warm_up,
    .gemm_temporary_bytes = gemm_temporary_bytes,
    .has_dtype = has_dtype,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .buffer_borrow = buffer_borrow,
    .can_borrow = can_borrow,
    .upload = upload,
    .download = download,
    .gemm = gemm,
    .gemm_depends_on_cut = gemm_depends_on_cut,
    .map = map,
    .project = project,
    .wait = wait_inner,
    .wait_buffer = wait_buffer,
    .now = now,
    .set_threads = set_threads,
};
