// SPDX-License-Identifier: MIT
//
// A stage in which every rank makes its blocks of the result (exec/steps/block.h) from values that are there, element
// by element, or as products without a plan of their own (summands, and what is wanted whole on every node). The
// compute thread's; moves nothing.
#pragma once

#include "exec/steps/stage.h"

extern const struct mmul_stage_kind mmul_blocks_kind;
