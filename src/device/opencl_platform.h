// SPDX-License-Identifier: MIT
//
// OpenCL platforms and devices by clinfo's numbers, described for people.
// Everything here loads the drivers into this process: see opencl_probe.c for the careful way.
#pragma once

#include <CL/cl.h>

#include "device/device.h"

enum { MMUL_OPENCL_DEVICES_MAX = 64 };

// Describes every device (at most MMUL_OPENCL_DEVICES_MAX; more are left out), duplicates marked.
// No platform at all is a list of none.
void mmul_opencl_list(struct mmul_device_info devices[static MMUL_OPENCL_DEVICES_MAX], int *count);

// Finds "P:D" and describes it. Fails with MMUL_ERR_UNAVAILABLE when there is no such device.
enum mmul_status mmul_opencl_find(const char *text, cl_platform_id *platform, cl_device_id *device,
                                  struct mmul_device_info *info, struct mmul_error *err);
