// SPDX-License-Identifier: MIT
//
// What a rank makes of values that are there: its blocks of the result (plan/program_tasks.h), element
// by element, or as products without a plan of their own (summands, and what is wanted whole on every
// node). The compute thread's; moves nothing.
#pragma once

#include "exec/stage.h"

// Sizes of the products among them; local. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_blocks_init(struct mmul_stage *stage, struct mmul_error *err);

// Makes them, all of them again if it is called again. Fails as a product does.
enum mmul_status mmul_blocks_make(struct mmul_stage *stage, struct mmul_error *err);
