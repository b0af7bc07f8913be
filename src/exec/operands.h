// SPDX-License-Identifier: MIT
// Where the operands of a step are on this rank: mapped, or in the node's segment.
#pragma once

#include "exec/run.h"
#include "model/product.h"

// A rank's part of a step, and where what belongs to it is. Pieces and C_in are those of the whole
// range, full in the other axis; not looked at where they are mapped.
struct mmul_part {
    struct mmul_range range;
    const char *pieces, *c_in;
    char *c; // the step's panel, packed, segment after segment; not looked at where C is mapped
};

// Of a rank of this node, in the node's segment.
struct mmul_part mmul_run_part(const struct mmul_run *run, int rank, struct mmul_step step);

// C[segment, the step's panel] of `part` as a product in memory. step_offset: units of the part that
// the step has computed before this segment.
struct mmul_product mmul_part_product(const struct mmul_run *run, const struct mmul_part *part,
                                      struct mmul_step step, struct mmul_segment segment,
                                      int64_t step_offset);
