// SPDX-License-Identifier: MIT
//
// A block of what a rank makes of values that are there (plan/program/program_tasks.h): its operands, as a product, and
// the check of that.
#pragma once

#include "exec/steps/stage.h"
#include "plan/program/program_tasks.h"

// The rank's blocks; its part of an operand that meets a matrix of the result, and of the result; a block as a
// product.
struct mmul_program_walk mmul_block_walk(const struct mmul_stage *stage);
struct mmul_view mmul_block_operand(const struct mmul_stage *stage, int index, int64_t matrix);
struct mmul_view mmul_block_result(const struct mmul_stage *stage, int64_t matrix);
struct mmul_product mmul_block_product(const struct mmul_stage *stage,
                                       const struct mmul_program_task *task);

// The check of a block by itself, of which these rows are looked at. Fails as a check does.
struct mmul_panel mmul_block_rows(const struct mmul_program_task *task);
enum mmul_status mmul_block_check(struct mmul_stage *stage, const struct mmul_program_task *task,
                                  struct mmul_panel rows, struct mmul_error *err);
