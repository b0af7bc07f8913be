// SPDX-License-Identifier: MIT
// Sums for the check from the device that has the matrix: only vectors travel. What the device cannot say, or what is
// not a finite number, the host sums; so does it what is read for the first time, which costs it no more than to see
// that the device has the same. The bits are added up whenever sums are asked for, so what changes there is found.
#include <math.h>

#include "device/project.h"
#include "exec/worker/worker.h"

static struct mmul_project all_of(const struct mmul_cached_tile *entry, uint32_t *bits) {
    return (struct mmul_project){.dtype = MMUL_F32,
                                 .x = {entry->buffer, 0, entry->holds.cols},
                                 .rows = entry->holds.rows,
                                 .cols = entry->holds.cols,
                                 .bits = bits};
}

// Once both sides add up the bits, then the device alone: what it has must not change either.
static bool is_sound(struct mmul_worker *worker, struct mmul_cached_tile *entry) {
    const struct mmul_host_tile *t = &entry->holds;
    uint32_t there = 0;
    struct mmul_error err;
    const struct mmul_project all = all_of(entry, &there);
    if (!entry->is_sound) {
        entry->bits = 0;
        for (int64_t i = 0; i < t->rows; i++)
            entry->bits +=
                mmul_project_bits((const float *)t->at + i * t->ld, t->cols, i * t->cols);
    }
    entry->is_sound =
        mmul_device_project(worker->context->device, &all, &err) == MMUL_OK && there == entry->bits;
    if (!entry->is_sound)
        entry->holds.at = NULL; // the host finds what was made from it
    return entry->is_sound;
}

static bool are_finite(const double *sums, int64_t count) {
    for (int64_t i = 0; sums != NULL && i < count; i++)
        if (!isfinite(sums[i]))
            return false;
    return true;
}

bool mmul_worker_project(void *worker, const struct mmul_check_request *request) {
    struct mmul_worker *w = worker;
    const struct mmul_host_tile tile = {request->data, request->lines, request->length, request->ld,
                                        request->dtype};
    int64_t offset = 0;
    struct mmul_error err;
    struct mmul_cached_tile *entry = mmul_tile_cache_entry(&w->kept, &tile, &offset);
    if (entry == NULL || entry->dtype != MMUL_F32 || tile.dtype != MMUL_F32)
        return false;
    const bool is_absent = entry == w->absent[0];
    // A sample of it is read faster than all its bits; the first time counts from its beginning.
    entry->asked += offset == 0;
    if (!is_absent &&
        (entry->asked < 2 || 8 * tile.rows * tile.cols < entry->holds.rows * entry->holds.cols ||
         !is_sound(w, entry)))
        return false;
    const struct mmul_project args = {.dtype = MMUL_F32,
                                      .x = {entry->buffer, offset, entry->holds.cols},
                                      .rows = tile.rows,
                                      .cols = tile.cols,
                                      .along = request->along,
                                      .across = request->across,
                                      .row_sums = request->line_sums,
                                      .row_squares = request->line_squares,
                                      .col_sums = request->place_sums,
                                      .col_squares = request->place_squares};
    if (mmul_device_project(w->context->device, &args, &err) != MMUL_OK)
        return false;
    w->projections++;
    const bool is_told =
        are_finite(request->line_sums, tile.rows) && are_finite(request->line_squares, tile.rows) &&
        are_finite(request->place_sums, tile.cols) && are_finite(request->place_squares, tile.cols);
    w->told += is_absent && is_told ? tile.rows * tile.cols : 0;
    return is_told;
}
