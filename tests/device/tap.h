// SPDX-License-Identifier: MIT
//
// What the device tests share: TAP, and the device that the command line names. Each test is one
// file, so everything here is static.
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "device/tuning.h"

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

static inline void *must_allocate(int64_t count, size_t bytes_each) {
    void *memory = calloc((size_t)count, bytes_each);
    if (memory == NULL) {
        printf("Bail out! no memory for the test\n");
        exit(1);
    }
    return memory;
}

// CLBlast changes its way where products are of some 900^3, and takes seconds for one of them on Mesa's llvmpipe:
// there it is to do so from 128^3 on, so that both ways are tested with little.
static inline void make_quick(struct mmul_device *device, const struct mmul_device_info *info) {
    const struct mmul_tuned_kernel kernel = {
        .kernel = "GemmRoutine", .count = 1, .names = {"XGEMM_MIN_INDIRECT_SIZE"}, .values = {128}};
    struct mmul_error err;
    if (strcmp(info->platform, "rusticl") == 0 && info->type == MMUL_DEVICE_CPU)
        must(mmul_device_tune(device, &kernel, &err), &err);
}

// Opens the device that the command line names; leaves with a skip when it is not there.
static inline struct mmul_device *open_device(int argc, char **argv) {
    struct mmul_device *device = NULL;
    struct mmul_error err = {0};
    enum mmul_status status = mmul_device_open(argc == 2 ? argv[1] : "", &device, &err);
    if (status == MMUL_ERR_UNAVAILABLE) {
        printf("1..0 # SKIP opencl: %s\n", err.text);
        exit(0);
    }
    must(status, &err);
    struct mmul_device_info info;
    mmul_device_describe(device, &info);
    make_quick(device, &info);
    must(mmul_device_warm_up(device, MMUL_F32, INFINITY, &err), &err);
    printf("# %s: %s, %s, %s, %d units\n", info.id, info.name, info.platform, info.driver,
           info.compute_units);
    return device;
}

// Closes it and ends the test; the exit code.
static inline int close_device(struct mmul_device *device) {
    point(!device->lost, "the device is still there", "it is marked as lost");
    mmul_device_close(device);
    point(mmul_live_bytes() == 0, "nothing is left", "bytes are left");
    printf("1..%d\n", points);
    return failures > 0;
}
