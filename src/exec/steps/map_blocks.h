// SPDX-License-Identifier: MIT
//
// Operations other than products: finds the parts of the operands that a block of the result
// depends on in the node's memory, and runs the operation on them (exec/worker/host_map.h). Runs
// on the compute thread. Moves no data between ranks.
#pragma once

#include "exec/steps/block.h"
#include "exec/worker/host_map.h"

// Returns rows [row, ..) and columns [col, ..) of a matrix in memory. A dimension of size 1
// repeats.
struct mmul_host_operand mmul_map_operand_from_view(const struct mmul_view *view, int64_t row,
                                                    int64_t rows, int64_t col, int64_t cols);

// Returns an operand with `number` in every element of a block. A float64 number is read in place,
// so it must stay valid.
struct mmul_host_operand mmul_map_operand_constant(const double *number, enum mmul_dtype dtype,
                                                   int64_t rows, int64_t cols);

// Checks that `ids`, `step` apart, are rows of the table. Fails with MMUL_ERR_DATA.
enum mmul_status mmul_map_check_row_indices(const void *ids, enum mmul_dtype dtype, int64_t step,
                                            int64_t count, const struct mmul_value *table,
                                            struct mmul_error *err);

// Makes a block in `matrices` consecutive matrices with equal regions. Fails as mmul_worker_map,
// and with MMUL_ERR_DATA (an index outside its table).
enum mmul_status mmul_map_make_block(struct mmul_stage *stage, const struct mmul_block_owner *part,
                                     const struct mmul_block *block, int64_t matrices,
                                     struct mmul_error *err);
