// SPDX-License-Identifier: MIT
// Where the operands of a step are on this rank: mapped, or in the node's segment.
#pragma once

#include "exec/run.h"
#include "model/product.h"

// C[segment, the step's panel] of this rank, as a product in memory. step_offset: units of the
// rank's part of the step before the segment; its pieces must be loaded, its panel and its slot
// of C at hand.
struct mmul_product mmul_run_product(const struct mmul_run *run, struct mmul_step step,
                                     struct mmul_segment segment, int64_t step_offset);
