// SPDX-License-Identifier: MIT
//
// What is not multiplied: the operands' parts that a block of the result depends on, found in the node's
// memory, and the operation on them (exec/worker/worker_map.h). The compute thread's; moves nothing.
#pragma once

#include "exec/steps/block.h"
#include "exec/worker/worker_map.h"

// Rows [row, ..) and columns [col, ..) of what is in memory of a matrix; where a size is 1 all of these are it.
struct mmul_host_operand mmul_maps_part(const struct mmul_view *view, int64_t row, int64_t rows,
                                        int64_t col, int64_t cols);

// The number everywhere, as an operand of such a block; of float64 it is read where it is.
struct mmul_host_operand mmul_maps_number(const double *number, enum mmul_dtype dtype, int64_t rows,
                                          int64_t cols);

// Are they rows of the table? ids: `step` apart. Fails with MMUL_ERR_DATA.
enum mmul_status mmul_maps_check_rows(const void *ids, enum mmul_dtype dtype, int64_t step,
                                      int64_t count, const struct mmul_value *table,
                                      struct mmul_error *err);

// A block, and those of the matrices behind it, which are alike: so many in all.
// Fails as mmul_worker_map, and with MMUL_ERR_DATA (an index that is not in its table).
enum mmul_status mmul_maps_make(struct mmul_stage *stage, const struct mmul_part *part,
                                const struct mmul_block *block, int64_t matrices,
                                struct mmul_error *err);
