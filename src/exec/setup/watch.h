// SPDX-License-Identifier: MIT
// Work on a device that may hang before there is a plan to say how long it should take.
#pragma once

#include "device/device.h"

struct mmul_watched {
    struct mmul_device *device;
    enum mmul_status (*work)(void *argument, struct mmul_error *err); // no MPI
    void *argument;
    double call_seconds; // longer than this no call of the device takes
};

// Does the work on a thread of its own and returns what it returned. A device with one call under
// way for longer is abandoned (device.h): MMUL_ERR_UNAVAILABLE, and the work is never resumed, so
// that `argument` is the caller's again.
enum mmul_status mmul_watch(const struct mmul_watched *watched, struct mmul_error *err);

// Builds the device's kernels (device.h: warm_up). Fails with the device, and with MMUL_ERR_UNAVAILABLE when that takes
// more than 300 s.
enum mmul_status mmul_watch_warm_up(struct mmul_device *device, enum mmul_dtype dtype, double most,
                                    struct mmul_error *err);
