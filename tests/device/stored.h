// SPDX-License-Identifier: MIT
//
// What the device tests share: TAP, and matrices that lie in a buffer with something before their
// rows, between them and behind. Each test is one file, so everything here is static.
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

static int points, failures;

// One test point; `detail` is printed below a failed one.
static void point(bool ok, const char *name, const char *detail) {
    printf("%sok %d - %s\n", ok ? "" : "not ", ++points, name);
    if (!ok) {
        printf("# %s\n", detail);
        failures++;
    }
}

// The calls below must succeed for a test to make sense at all.
static void must(enum mmul_status status, const struct mmul_error *err) {
    if (status != MMUL_OK) {
        printf("Bail out! %s\n", err->text);
        exit(1);
    }
}

static void *must_allocate(int64_t count, size_t bytes_each) {
    void *memory = calloc((size_t)count, bytes_each);
    if (memory == NULL) {
        printf("Bail out! no memory for the test\n");
        exit(1);
    }
    return memory;
}

// ------------------------------------------------------------------------------------- operands

// A stored matrix with something before its rows, between them and behind.
struct stored {
    int64_t rows, cols, offset, ld, count;
    float *host;
    struct mmul_buffer *buffer; // the same bytes on the device
};

typedef float fill(uint64_t seed, int64_t e);

static struct stored store(struct mmul_device *device, int64_t rows, int64_t cols, int64_t pad,
                           fill *at, uint64_t seed, float padding) {
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
    must(mmul_device_buffer_create(device, s.count, &s.buffer, &err), &err);
    struct mmul_operand whole = {s.buffer, 0, s.count};
    must(mmul_device_upload(device, whole, 1, s.count, s.host, s.count, MMUL_F32, &err), &err);
    return s;
}

static void discard(struct mmul_device *device, struct stored *s) {
    mmul_device_buffer_destroy(device, s->buffer);
    free(s->host);
}

static struct mmul_operand operand_of(const struct stored *s) {
    return (struct mmul_operand){s->buffer, s->offset, s->ld};
}

static float *download_all(struct mmul_device *device, const struct stored *s) {
    struct mmul_error err;
    struct mmul_operand whole = {s->buffer, 0, s->count};
    float *copy = must_allocate(s->count, sizeof(float));
    must(mmul_device_download(device, whole, 1, s->count, copy, s->count, &err), &err);
    must(mmul_device_wait(device, &err), &err);
    return copy;
}

static bool is_equal(float a, float b) {
    return a == b || (isnan(a) && isnan(b));
}

// Whether everything but the elements is as it was.
static bool check_padding(const struct stored *s, const float *found, char *detail) {
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

// Opens the device that the command line names; leaves with a skip when it is not there.
static struct mmul_device *open_device(int argc, char **argv) {
    struct mmul_device *device = NULL;
    struct mmul_error err = {0};
    enum mmul_status status = mmul_device_open(argc == 2 ? argv[1] : "", &device, &err);
    if (status == MMUL_ERR_UNAVAILABLE) {
        printf("1..0 # SKIP opencl: %s\n", err.text);
        exit(0);
    }
    must(status, &err);
    must(mmul_device_warm_up(device, &err), &err);
    struct mmul_device_info info;
    mmul_device_describe(device, &info);
    printf("# %s: %s, %s, %s, %d units\n", info.id, info.name, info.platform, info.driver,
           info.compute_units);
    return device;
}

// Closes it and ends the test; the exit code.
static int close_device(struct mmul_device *device) {
    point(!device->lost, "the device is still there", "it is marked as lost");
    mmul_device_close(device);
    point(mmul_live_bytes() == 0, "nothing is left", "bytes are left");
    printf("1..%d\n", points);
    return failures > 0;
}
