// SPDX-License-Identifier: MIT
// Names of OpenCL's and CLBlast's codes, and failures written with them.
#pragma once

#include "device/device.h"

// Returns "CL_OUT_OF_RESOURCES" for -5, "CLBlastInsufficientMemoryTemp" for -2043, "an unknown
// code" for others.
const char *mmul_opencl_code_name(int code);

// Writes "WHAT: CL_OUT_OF_RESOURCES (-5)" and adds a hint to codes that mean memory. Returns
// MMUL_ERR_UNAVAILABLE.
enum mmul_status mmul_opencl_fail(struct mmul_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
