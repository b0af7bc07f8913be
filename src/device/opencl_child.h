// SPDX-License-Identifier: MIT
//
// Listing OpenCL devices in a child process, where a driver may crash or hang.
#pragma once

#include <sys/types.h>

#include "device/opencl_platform.h"

struct mmul_listing {
    int count;
    struct mmul_device_info devices[MMUL_OPENCL_DEVICES_MAX];
};

// A child under way.
struct mmul_child {
    pid_t pid;  // 0: none
    int output; // our end of its pipe
};

// How a child ended.
enum mmul_child_end { MMUL_CHILD_DONE, MMUL_CHILD_CRASHED, MMUL_CHILD_EXITED, MMUL_CHILD_HUNG };

// Starts a child that lists the devices of the drivers in `folder` (mmul_drivers_store), or of the
// drivers of its environment when `folder` is NULL. Fails with MMUL_ERR_SYSTEM.
enum mmul_status mmul_child_start(const char *folder, struct mmul_child *child,
                                  struct mmul_error *err);

// Waits until the child is done or the clock (mmul_clock_now) reaches `deadline`, then ends and
// reaps it. `listing` is written when it is done; `*detail` gets the signal or the exit status.
enum mmul_child_end mmul_child_finish(struct mmul_child *child, double deadline,
                                      struct mmul_listing *listing, int *detail);
