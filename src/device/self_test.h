// SPDX-License-Identifier: MIT
//
// A few products that show whether a device multiplies at all rightly: odd sizes, all transposes,
// coefficients, sizes on both sides of where the device changes its way, 16-bit inputs (of float32), rectangles
// of wider matrices, two products at once. Whole numbers, so that results are equal to plain loops,
// element by element; in float64 of more digits than float32 has.
#pragma once

#include "device/device.h"

// dtype: of the products, float32 or float64, of which the device must have buffers. Fails with MMUL_ERR_WRONG (which
// product and element), or as the device fails.
enum mmul_status mmul_device_self_test(struct mmul_device *device, enum mmul_dtype dtype,
                                       struct mmul_error *err);

// Floating-point operations per second of a product of side `side`, the best of three after one
// more, operands lying on the device. Fails as the device fails.
enum mmul_status mmul_device_time_product(struct mmul_device *device, int64_t side, double *flops,
                                          struct mmul_error *err);
