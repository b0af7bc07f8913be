// SPDX-License-Identifier: MIT
//
// Shared by the device tests: TAP output, and opening the device that the command line names. Each
// test is one file, so everything here is static.
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "device/tuning.h"

static int points, failures;

// Reports one test point; prints `detail` below a failed one.
static void report_point(bool ok, const char *name, const char *detail) {
    printf("%sok %d - %s\n", ok ? "" : "not ", ++points, name);
    if (!ok) {
        printf("# %s\n", detail);
        failures++;
    }
}

// Ends the test unless a call that it depends on succeeded.
static void must_succeed(enum mmul_status status, const struct mmul_error *err) {
    if (status != MMUL_OK) {
        printf("Bail out! %s\n", err->text);
        exit(1);
    }
}

static inline void *must_allocate(int64_t count, size_t bytes_each) {
    void *memory = calloc((size_t)count, bytes_each);
    if (memory == NULL) {
        printf("Bail out! no memory for the test\n");
        exit(1);
    }
    return memory;
}

// CLBlast switches to another code path for products of about 900^3, which take seconds each on
// Mesa's llvmpipe. This lowers the threshold to 128^3, so that small products test both paths.
static inline void make_quick(struct mmul_device *device, const struct mmul_device_info *info) {
    const struct mmul_tuned_kernel kernel = {
        .kernel = "GemmRoutine", .count = 1, .names = {"XGEMM_MIN_INDIRECT_SIZE"}, .values = {128}};
    struct mmul_error err;
    if (strcmp(info->platform, "rusticl") == 0 && info->type == MMUL_DEVICE_CPU)
        must_succeed(mmul_device_tune(device, &kernel, &err), &err);
}

// Opens the device that the command line names. Without it the test exits as skipped.
static inline struct mmul_device *open_device(int argc, char **argv) {
    struct mmul_device *device = NULL;
    struct mmul_error err = {0};
    enum mmul_status status = mmul_device_open(argc == 2 ? argv[1] : "", &device, &err);
    if (status == MMUL_ERR_UNAVAILABLE) {
        printf("1..0 # SKIP opencl: %s\n", err.text);
        exit(0);
    }
    must_succeed(status, &err);
    struct mmul_device_info info;
    mmul_device_describe(device, &info);
    make_quick(device, &info);
    must_succeed(mmul_device_warm_up(device, MMUL_F32, INFINITY, &err), &err);
    printf("# %s: %s, %s, %s, %d units\n", info.id, info.name, info.platform, info.driver,
           info.compute_units);
    return device;
}

// Closes the device and ends the test. Returns the exit code.
static inline int close_device(struct mmul_device *device) {
    report_point(!device->lost, "the device is still there", "it is marked as lost");
    mmul_device_close(device);
    report_point(mmul_live_bytes() == 0, "the library has freed all memory", "bytes are left");
    printf("1..%d\n", points);
    return failures > 0;
}
