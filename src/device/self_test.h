// SPDX-License-Identifier: MIT
// A few products that show if a device multiplies correctly: odd sizes, all transposes,
// coefficients, sizes on both sides of a change of algorithm, 16-bit inputs (for float32),
// rectangles of wider matrices, two products at once. Matrices hold whole numbers, so that results
// equal those of plain loops element by element. Numbers of float64 products have more digits than
// float32 holds.
#pragma once

#include "device/device.h"

// Tests products of type `dtype`, float32 or float64; the device must support buffers of that type.
// Fails with MMUL_ERR_WRONG (names product and element), or as the device fails.
enum mmul_status mmul_device_self_test(struct mmul_device *device, enum mmul_dtype dtype,
                                       struct mmul_error *err);

// Measures the floating-point operations per second of a product of side `side` with operands on
// the device: the best of three runs after a warm-up. Fails as the device fails.
enum mmul_status mmul_device_time_product(struct mmul_device *device, int64_t side, double *flops,
                                          struct mmul_error *err);
