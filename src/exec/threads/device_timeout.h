// SPDX-License-Identifier: MIT
// Timeout for work on a device that may hang, before a plan predicts its duration.
#pragma once

#include "device/device.h"

struct mmul_timed_work {
    struct mmul_device *device;
    enum mmul_status (*work)(void *argument, struct mmul_error *err); // makes no MPI call
    void *argument;
    double call_seconds; // limit of one call of the device
};

// Does the work on a thread of its own and returns its status. A device with one call in progress
// for longer than call_seconds is abandoned (device.h), with MMUL_ERR_UNAVAILABLE. The work is
// never resumed, so the caller owns `argument` again.
enum mmul_status mmul_run_with_timeout(const struct mmul_timed_work *watched,
                                       struct mmul_error *err);

// Builds the device's kernels (device.h: warm_up). Fails with the device, and with
// MMUL_ERR_UNAVAILABLE if that takes more than 300 s.
enum mmul_status mmul_warm_up_with_timeout(struct mmul_device *device, enum mmul_dtype dtype,
                                           double most, struct mmul_error *err);
