// SPDX-License-Identifier: MIT
//
// Our own OpenCL kernels.
#pragma once

#include <CL/cl.h>

#include "device/device.h"

// Builds texts, at most three, one behind the other (NULL behind fewer), for one device; `label` names the device in
// the error, which carries the beginning of the compiler's log. What does not build is tried again.
// Fails with MMUL_ERR_UNAVAILABLE.
enum mmul_status mmul_opencl_program_create(cl_context context, cl_device_id device,
                                            const char *label, const char *const sources[],
                                            cl_program *program, struct mmul_error *err);

// Whether what failed with `code`, for the `failures`-th time, is to be tried once more; naps before it says so. A text
// that is wrong fails each time: three times in all.
bool mmul_opencl_builds_again(cl_int code, int failures);

// A kernel of a program by name. Fails with MMUL_ERR_UNAVAILABLE.
enum mmul_status mmul_opencl_kernel_create(cl_program program, const char *label, const char *name,
                                           cl_kernel *kernel, struct mmul_error *err);
