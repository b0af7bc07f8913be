// SPDX-License-Identifier: MIT
//
// The kind of stage that computes: this rank's tasks (plan/lists/tasks.h), then what it can claim of others'
// (exec/tasks/work.h), block by block. What a block is made from is there, or comes in pieces and panels: of a product
// with a schedule by its transfers, of a product of two grids by the move before it.
#pragma once

#include "exec/steps/stage.h"

extern const struct mmul_stage_kind mmul_computing_kind;
