// SPDX-License-Identifier: MIT
// OpenCL platforms and devices by clinfo's numbers, described for people. Every function here loads
// the drivers into this process; opencl_probe.c does so in a child.
#pragma once

#include <CL/cl.h>

#include "device/device.h"

enum { MMUL_OPENCL_DEVICES_MAX = 64 };

// Describes every device and marks duplicates. Leaves out devices beyond MMUL_OPENCL_DEVICES_MAX.
// The list is empty if there is no platform.
void mmul_opencl_list(struct mmul_device_info devices[static MMUL_OPENCL_DEVICES_MAX], int *count);

// Finds and describes device "P:D". Fails with MMUL_ERR_UNAVAILABLE if it does not exist.
enum mmul_status mmul_opencl_find(const char *text, cl_platform_id *platform, cl_device_id *device,
                                  struct mmul_device_info *info, struct mmul_error *err);
