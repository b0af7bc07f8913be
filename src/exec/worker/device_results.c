// SPDX-License-Identifier: MIT
// Download of results, and results that stay on the device ("absent") because only fused operations
// read them there (exec/steps/epilogue.h). The device computes their check sums, and samples of
// them are downloaded. A function that needs more downloads them first. There is no other copy: if
// the device is lost, they are lost, and the product is made again.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "device/map.h"
#include "device/matrix_sums.h"
#include "exec/worker/worker.h"
#include "model/dtype.h"

enum mmul_status mmul_worker_download(struct mmul_worker *worker, struct mmul_operand from,
                                      const struct mmul_host_tile *to, struct mmul_error *err) {
    const struct mmul_download d = {from,   to->rows, to->cols, (void *)(uintptr_t)to->at,
                                    to->ld, to->dtype};
    const double begin = mmul_trace_now(worker->options.trace);
    const enum mmul_status status =
        mmul_staging_buffer_download(&worker->staging, worker->context->device, &d, err);
    mmul_trace_add(worker->options.trace, MMUL_TRACE_DOWNLOAD, begin,
                   to->rows * to->cols * (int64_t)mmul_dtype_bytes(to->dtype), 0);
    return status;
}

enum mmul_status mmul_worker_sum_device_bits(struct mmul_worker *worker, struct mmul_operand from,
                                             const struct mmul_host_tile *tile, uint32_t *bits,
                                             struct mmul_error *err) {
    const struct mmul_matrix_sums all = {
        .dtype = tile->dtype, .x = from, .rows = tile->rows, .cols = tile->cols, .bits = bits};
    return mmul_device_sum_matrix(worker->context->device, &all, err);
}

uint32_t mmul_worker_sum_host_bits(const struct mmul_host_tile *tile) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < tile->rows; i++)
        sum += mmul_matrix_sums_bits((const float *)tile->at + i * tile->ld, tile->cols,
                                     i * tile->cols);
    return sum;
}

// ---------------------------------------------------------------------------------- absent results

void mmul_worker_mark_absent(struct mmul_worker *worker, struct mmul_cached_tile *entry,
                             const struct mmul_host_tile *holds) {
    mmul_tile_cache_return_result(entry, holds);
    entry->is_taken = true; // until it is downloaded or released
    entry->summed = 0;
    int at = 0;
    while (at < MMUL_ABSENT_RESULTS - 1 && worker->absent[at] != NULL)
        at++;
    assert(worker->absent[at] == NULL);
    worker->absent[at] = entry;
}

static void remove_absent(struct mmul_worker *worker, int at) {
    for (; at < MMUL_ABSENT_RESULTS - 1; at++)
        worker->absent[at] = worker->absent[at + 1];
    worker->absent[at] = NULL;
}

static struct mmul_cached_tile *find_absent(struct mmul_worker *worker,
                                            const struct mmul_host_tile *tile, int64_t *offset) {
    struct mmul_cached_tile *entry = mmul_tile_cache_find_entry(&worker->kept, tile, offset);
    for (int i = 0; i < MMUL_ABSENT_RESULTS; i++)
        if (entry != NULL && entry == worker->absent[i])
            return entry;
    return NULL;
}

bool mmul_worker_is_absent(struct mmul_worker *worker, const struct mmul_host_tile *tile) {
    int64_t offset;
    return find_absent(worker, tile, &offset) != NULL;
}

bool mmul_worker_has_check_sums(const struct mmul_worker *worker) {
    const struct mmul_cached_tile *entry = worker->absent[0];
    return entry == NULL || entry->summed == entry->holds.rows * entry->holds.cols;
}

void mmul_worker_release_absent(struct mmul_worker *worker, const struct mmul_host_tile *from) {
    for (int i = MMUL_ABSENT_RESULTS - 1; i >= 0; i--) {
        struct mmul_cached_tile *entry = worker->absent[i];
        int64_t offset = 0;
        if (entry == NULL || (from != NULL && find_absent(worker, from, &offset) != entry))
            continue;
        entry->holds.rows = offset / entry->holds.cols;
        if (entry->holds.rows > 0)
            continue;
        mmul_tile_cache_return_result(entry, &(struct mmul_host_tile){0});
        remove_absent(worker, i);
    }
}

// ------------------------------------------------------------------------------------ lost results

enum mmul_status mmul_worker_check_lost_results(const struct mmul_worker *worker,
                                                struct mmul_error *err) {
    return worker->must_repeat_product
               ? mmul_fail(err, MMUL_ERR_STOPPED, "a result was lost: its device failed")
               : MMUL_OK;
}

// Replaces a failed device.
static enum mmul_status replace(struct mmul_worker *worker, struct mmul_error *err) {
    worker->fallback_products++;
    const enum mmul_status status = mmul_worker_fall_back(worker, err);
    return status == MMUL_OK ? mmul_worker_check_lost_results(worker, err) : status;
}

// ---------------------------------------------------------------------------------------- download

static enum mmul_status bring_first(struct mmul_worker *worker, struct mmul_error *err) {
    struct mmul_cached_tile *entry = worker->absent[0];
    const struct mmul_host_tile t = entry->holds;
    const struct mmul_operand from = {entry->buffer, 0, t.cols};
    uint32_t there = 0;
    enum mmul_status status = mmul_worker_sum_device_bits(worker, from, &t, &there, err);
    if (status == MMUL_OK)
        status = mmul_worker_download(worker, from, &t, err);
    if (status != MMUL_OK)
        return replace(worker, err);
    if (mmul_worker_sum_host_bits(&t) != there) {
        status = mmul_worker_replace_device(
            worker, "a product changed during its download from the device", err);
        return status == MMUL_OK ? mmul_worker_check_lost_results(worker, err) : status;
    }
    entry->is_taken = false;
    remove_absent(worker, 0);
    return MMUL_OK;
}

enum mmul_status mmul_worker_download_absent(struct mmul_worker *worker, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    while (status == MMUL_OK && worker->absent[0] != NULL)
        status = bring_first(worker, err);
    return status;
}

// ----------------------------------------------------------------------------------------- samples

// Sampled rows, stored one after the other.
struct sample {
    int64_t count, cols;
    int64_t first, last;  // offsets on the device of the first sample and of the last
    float *places, *rows; // owned: offsets of the samples relative to `first`; their rows
};

// Gathers the samples on the device, as a lookup in a table. The rows of the table are all runs of
// `cols` elements that begin between the first and the last sample. Indices and gathered rows share
// one buffer.
static enum mmul_status gather(struct mmul_worker *worker, const struct mmul_cached_tile *entry,
                               const struct sample *s, struct mmul_error *err) {
    const int64_t count = s->count, cols = s->cols;
    static const struct mmul_parameters none;
    struct mmul_device *device = worker->context->device;
    struct mmul_cached_tile *room = NULL;
    mmul_tile_cache_pin(&worker->kept);
    enum mmul_status status = mmul_tile_cache_reserve_result(&worker->kept, device, MMUL_F32,
                                                             count + count * cols, &room, err);
    if (status != MMUL_OK)
        return status;
    const struct mmul_upload indices = {
        {room->buffer, 0, count}, 1, count, s->places, count, MMUL_F32};
    const struct mmul_map take = {
        .kind = MMUL_TAKE,
        .with = &none,
        .rows = count,
        .cols = cols,
        .shape = {1, 1, count, cols},
        .matrices = 1,
        .operands =
            {{.buffer = entry->buffer,
              .offset = s->first,
              .row_step = 1,
              .col_step = 1,
              .rows = s->last - s->first + 1,
              .cols = cols},
             {.buffer = room->buffer, .row_step = count, .col_step = 1, .rows = 1, .cols = count}},
        .operand_count = 2,
        .result = {room->buffer, count, cols}};
    const struct mmul_host_tile home = {s->rows, count, cols, cols, MMUL_F32};
    status = mmul_device_upload(device, &indices, err);
    if (status == MMUL_OK)
        status = mmul_device_map(device, &take, err);
    if (status == MMUL_OK)
        status = mmul_worker_download(worker, take.result, &home, err);
    mmul_tile_cache_return_result(room, NULL);
    room->used = 0; // evicted first
    return status;
}

enum mmul_status mmul_worker_download_samples(struct mmul_worker *worker,
                                              const struct mmul_host_tile *parts, int64_t count,
                                              struct mmul_error *err) {
    const struct mmul_cached_tile *entry = NULL;
    struct sample s = {.count = count, .cols = parts[0].cols, .first = INT64_MAX};
    for (int64_t i = 0; i < count; i++) {
        int64_t offset = 0;
        entry = find_absent(worker, &parts[i], &offset);
        s.first = mmul_min(s.first, offset);
        s.last = mmul_max(s.last, offset);
    }
    enum mmul_status status = MMUL_ALLOCATE_RAW(s.places, count, "a sample", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE_RAW(s.rows, count * s.cols, "a sample", err);
    for (int64_t i = 0; status == MMUL_OK && i < count; i++) {
        int64_t offset = 0;
        (void)find_absent(worker, &parts[i], &offset);
        s.places[i] = (float)(offset - s.first);
    }
    if (status == MMUL_OK && gather(worker, entry, &s, err) != MMUL_OK)
        status = replace(worker, err);
    for (int64_t i = 0; status == MMUL_OK && i < count; i++)
        memcpy((void *)(uintptr_t)parts[i].at, s.rows + i * s.cols,
               (size_t)s.cols * sizeof *s.rows);
    mmul_free(s.places);
    mmul_free(s.rows);
    return status;
}

// ----------------------------------------------------------------------------- sums for the check
//
// The device that has the matrix computes them, so that only vectors travel. The host computes sums
// if the device cannot, or if one is not finite. The host also reads each matrix the first time,
// which costs no more than the comparison with the device. The bits are added up at every request,
// so a later change is detected.

// Returns true if the matrix on the device is unchanged: the first time both sides add up its bits,
// later only the device.
static bool is_sound(struct mmul_worker *worker, struct mmul_cached_tile *entry) {
    const struct mmul_host_tile *t = &entry->holds;
    uint32_t there = 0;
    struct mmul_error err;
    const struct mmul_operand from = {entry->buffer, 0, t->cols};
    if (!entry->is_sound)
        entry->bits = mmul_worker_sum_host_bits(t);
    entry->is_sound = mmul_worker_sum_device_bits(worker, from, t, &there, &err) == MMUL_OK &&
                      there == entry->bits;
    if (!entry->is_sound)
        entry->holds.at = NULL; // the check by the host finds results made from it
    return entry->is_sound;
}

static bool are_finite(const double *sums, int64_t count) {
    for (int64_t i = 0; sums != NULL && i < count; i++)
        if (!isfinite(sums[i]))
            return false;
    return true;
}

bool mmul_worker_compute_sums(void *worker, const struct mmul_check_request *request) {
    struct mmul_worker *w = worker;
    const struct mmul_host_tile tile = {request->data, request->lines, request->length, request->ld,
                                        request->dtype};
    int64_t offset = 0;
    struct mmul_error err;
    struct mmul_cached_tile *entry = mmul_tile_cache_find_entry(&w->kept, &tile, &offset);
    if (entry == NULL || entry->dtype != MMUL_F32 || tile.dtype != MMUL_F32)
        return false;
    const bool is_absent = entry == w->absent[0];
    // A sample is read faster than all bits. A request counts as first if it begins at offset 0.
    entry->asked += offset == 0;
    if (!is_absent &&
        (entry->asked < 2 || 8 * tile.rows * tile.cols < entry->holds.rows * entry->holds.cols ||
         !is_sound(w, entry)))
        return false;
    const struct mmul_matrix_sums args = {.dtype = MMUL_F32,
                                          .x = {entry->buffer, offset, entry->holds.cols},
                                          .rows = tile.rows,
                                          .cols = tile.cols,
                                          .along = request->along,
                                          .across = request->across,
                                          .row_sums = request->line_sums,
                                          .row_squares = request->line_squares,
                                          .col_sums = request->place_sums,
                                          .col_squares = request->place_squares};
    if (mmul_device_sum_matrix(w->context->device, &args, &err) != MMUL_OK)
        return false;
    w->projections++;
    const bool is_told =
        are_finite(request->line_sums, tile.rows) && are_finite(request->line_squares, tile.rows) &&
        are_finite(request->place_sums, tile.cols) && are_finite(request->place_squares, tile.cols);
    entry->summed += is_absent && is_told ? tile.rows * tile.cols : 0;
    return is_told;
}
