// SPDX-License-Identifier: MIT
//
// The kind of stage that moves a value, or two that are the operands of one product: what stays on the node is copied
// by its ranks, the rest goes in messages between the leaders (exec/traffic/mover.h), piece by piece. Root's files are
// read and written as ends of a move, by its main thread alone.
#pragma once

#include "exec/steps/stage.h"
#include "plan/lists/transfers.h"

extern const struct mmul_stage_kind mmul_move_kind;

// What a stage of that kind moves; of any other nothing.
struct mmul_moving mmul_stage_moving(const struct mmul_stage *stage);

// Does it come from a file of root's? Then the compute threads have no half.
bool mmul_move_is_load(const struct mmul_stage *stage);

// Bytes of the largest piece that it copies within the node.
int64_t mmul_move_staging_bytes(const struct mmul_stage *stage);

// The main thread. A piece as this node has it, of summands the sum of those of its ranks; what has come, where it
// belongs (add: to what is there already). Fail as files do.
enum mmul_status mmul_piece_fetch(struct mmul_stage *stage, const struct mmul_transfer *transfer,
                                  void *to, struct mmul_error *err);
enum mmul_status mmul_piece_store(struct mmul_stage *stage, const struct mmul_transfer *transfer,
                                  bool add, const void *from, struct mmul_error *err);

// Where a piece can leave, or come to, without a copy; NULL: nowhere.
void *mmul_piece_run(const struct mmul_stage *stage, const struct mmul_transfer *transfer);
