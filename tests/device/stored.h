// SPDX-License-Identifier: MIT
//
// Matrices in a buffer with gaps before, between and behind their rows. Each test is one file, so
// everything here is static.
#pragma once

#include "tap.h"

// A matrix with gaps before, between and behind its rows.
struct stored {
    int64_t rows, cols, offset, ld, count;
    float *host;
    struct mmul_buffer *buffer; // copy of the bytes on the device
};

typedef float fill(uint64_t seed, int64_t e);

static struct stored store_matrix(struct mmul_device *device, int64_t rows, int64_t cols,
                                  int64_t pad, fill *at, uint64_t seed, float padding) {
    struct stored s = {.rows = rows, .cols = cols, .offset = 3 * pad, .ld = cols + pad};
    struct mmul_error err;
    s.count = s.offset + rows * s.ld + pad;
    s.host = must_allocate(s.count, sizeof(float));
    for (int64_t e = 0; e < s.count; e++) {
        int64_t inside = e - s.offset;
        bool is_element = inside >= 0 && inside / s.ld < rows && inside % s.ld < cols;
        s.host[e] =
            is_element && at != NULL ? at(seed, inside / s.ld * cols + inside % s.ld) : padding;
    }
    must_succeed(mmul_device_buffer_create(device, MMUL_F32, s.count, &s.buffer, &err), &err);
    struct mmul_operand whole = {s.buffer, 0, s.count};
    must_succeed(
        mmul_device_upload(
            device, &(struct mmul_upload){whole, 1, s.count, s.host, s.count, MMUL_F32}, &err),
        &err);
    return s;
}

static void discard_matrix(struct mmul_device *device, struct stored *s) {
    mmul_device_buffer_destroy(device, s->buffer);
    free(s->host);
}

static struct mmul_operand operand_of(const struct stored *s) {
    return (struct mmul_operand){s->buffer, s->offset, s->ld};
}

static inline float *download_all(struct mmul_device *device, const struct stored *s) {
    struct mmul_error err;
    struct mmul_operand whole = {s->buffer, 0, s->count};
    float *copy = must_allocate(s->count, sizeof(float));
    must_succeed(
        mmul_device_download(
            device, &(struct mmul_download){whole, 1, s->count, copy, s->count, MMUL_F32}, &err),
        &err);
    must_succeed(mmul_device_wait(device, &err), &err);
    return copy;
}

static bool is_equal(float a, float b) {
    return a == b || (isnan(a) && isnan(b));
}

// Returns true if everything outside the elements is unchanged.
static inline bool check_padding(const struct stored *s, const float *found, char *detail) {
    for (int64_t e = 0; e < s->count; e++) {
        int64_t inside = e - s->offset;
        bool is_element = inside >= 0 && inside / s->ld < s->rows && inside % s->ld < s->cols;
        if (!is_element && !is_equal(found[e], s->host[e])) {
            snprintf(detail, 256, "element %lld outside the matrix changed", (long long)e);
            return false;
        }
    }
    return true;
}
