// SPDX-License-Identifier: MIT
//
// A few products that show whether a device multiplies at all rightly: odd sizes, all transposes,
// coefficients, sizes on both sides of where the device changes its way, 16-bit inputs, rectangles of
// wider matrices, two products at once. Whole numbers, so that results are equal to plain loops,
// element by element.
#pragma once

#include "device/device.h"

// Fails with MMUL_ERR_WRONG (which product and element), or as the device fails.
enum mmul_status mmul_device_self_test(struct mmul_device *device, struct mmul_error *err);

// Floating-point operations per second of a product of side `side`, the best of three after one
// more, operands lying on the device. Fails as the device fails.
enum mmul_status mmul_device_time_product(struct mmul_device *device, int64_t side, double *flops,
                                          struct mmul_error *err);
