// SPDX-License-Identifier: MIT
// How fast is each device? A short float32 gemm on all ranks at once, as they will compute.
#pragma once

#include "exec/context.h"

// Collective. Warms the devices up, multiplies squares of growing size until one takes long enough
// to measure, and writes the median rate of three to cluster->ranks[].speed_flops, everywhere.
// A device that fails here gets the CPU in its place, with a warning, unless no_fallback.
enum mmul_status mmul_calibrate(struct mmul_context *context, bool no_fallback,
                                struct mmul_error *err);
