// SPDX-License-Identifier: MIT
// Building of our own OpenCL kernels.
#pragma once

#include <CL/cl.h>

#include "device/device.h"

// Most texts of a program.
enum { MMUL_OPENCL_TEXTS = 4 };

// Builds the concatenation of at most MMUL_OPENCL_TEXTS texts (fewer end with NULL) for one device.
// `label` names the device in the error, which includes the beginning of the compiler's log.
// Repeats a failed build. Fails with MMUL_ERR_UNAVAILABLE.
enum mmul_status mmul_opencl_program_create(cl_context context, cl_device_id device,
                                            const char *label, const char *const sources[],
                                            cl_program *program, struct mmul_error *err);

// Returns true if an action that failed with `code` for the `failures`-th time should be repeated,
// and naps before. An invalid text fails each time: three times in all.
bool mmul_opencl_should_rebuild(cl_int code, int failures);

// Creates a kernel of a program by name. Fails with MMUL_ERR_UNAVAILABLE.
enum mmul_status mmul_opencl_kernel_create(cl_program program, const char *label, const char *name,
                                           cl_kernel *kernel, struct mmul_error *err);
