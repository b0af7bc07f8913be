// SPDX-License-Identifier: MIT
//
// What a rank makes of values that are there: its blocks of the result (plan/program_tasks.h), element
// by element, or as products without a plan of their own (summands, and what is wanted whole on every
// node). The compute thread's; moves nothing.
#pragma once

#include "exec/stage.h"
#include "plan/program_tasks.h"

// Sizes of the products among them; local. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_blocks_init(struct mmul_stage *stage, struct mmul_error *err);

// Makes them, all of them again if it is called again. Fails as a product does.
enum mmul_status mmul_blocks_make(struct mmul_stage *stage, struct mmul_error *err);

// For their check. The rank's blocks; its part of an operand that meets a matrix of the result; a block as a
// product; and the check of a block, or some rows of it, by itself.
struct mmul_program_walk mmul_blocks_walk(const struct mmul_stage *stage);
struct mmul_view mmul_blocks_operand(const struct mmul_stage *stage, int index, int64_t matrix);
struct mmul_product mmul_blocks_product(const struct mmul_stage *stage,
                                        const struct mmul_program_task *task);
enum mmul_status mmul_blocks_check(struct mmul_stage *stage, const struct mmul_program_task *task,
                                   struct mmul_error *err);
