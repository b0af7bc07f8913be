// SPDX-License-Identifier: MIT
//
// The kinds of stages that compute: this rank's tasks (plan/lists/tasks.h), then lines stolen from
// other ranks (exec/tasks/work.h), block by block.
// A product with a schedule gets its operands by its own transfers, as pieces and panels. A product
// of two grids gets them by the move before it.
#pragma once

#include "exec/steps/stage.h"

extern const struct mmul_stage_kind mmul_computing_kind, mmul_product_kind;
