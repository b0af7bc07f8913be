// SPDX-License-Identifier: MIT
// Where the operands of a step are on this rank: mapped, values, or in the stage's memory.
#pragma once

#include "exec/steps/stage.h"
#include "model/product.h"

// A rank's part of a step, and where what belongs to it is. Pieces and C_in are those of the whole
// range, full in the other axis; not looked at where they are mapped or values.
struct mmul_part {
    int rank;
    struct mmul_range range;
    const char *pieces, *c_in;
    char *c; // the step's panel, packed, stretch after stretch; not looked at where C is
};

// Of a rank of this node.
struct mmul_part mmul_stage_part(const struct mmul_stage *stage, int rank, struct mmul_step step);

// C[stretch, the step's panel] of `part` as a product in memory. step_offset: units of the part that
// the step has computed before this stretch.
struct mmul_product mmul_part_product(const struct mmul_stage *stage, const struct mmul_part *part,
                                      struct mmul_step step, struct mmul_stretch stretch,
                                      int64_t step_offset);
