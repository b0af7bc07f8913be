// SPDX-License-Identifier: MIT
//
// The kind of stage that moves a value, or the two operands of one product. Pieces that stay on the
// node are copied by its ranks; the others travel as messages between the leaders
// (exec/traffic/mover.h). Root's files are read and written as ends of a move, by root's main
// thread only.
#pragma once

#include "exec/steps/stage.h"
#include "plan/lists/transfers.h"

extern const struct mmul_stage_kind mmul_move_kind;

// Returns the move of a stage of this kind; empty for any other stage.
struct mmul_move_set mmul_stage_moving(const struct mmul_stage *stage);

// Returns true if the stage loads from a file on root. The compute threads then have nothing to
// copy.
bool mmul_move_is_load(const struct mmul_stage *stage);

// Returns the bytes of the largest piece that the stage copies within the node.
int64_t mmul_move_buffer_bytes(const struct mmul_stage *stage);

// The main thread. read: reads a piece as this node has it; for summands, the sum over its ranks.
// write: writes a piece that has arrived to its place (add: adds it to the present content). Both
// fail as files do.
enum mmul_status mmul_piece_read(struct mmul_stage *stage, const struct mmul_transfer *transfer,
                                 void *to, struct mmul_error *err);
enum mmul_status mmul_piece_write(struct mmul_stage *stage, const struct mmul_transfer *transfer,
                                  bool add, const void *from, struct mmul_error *err);

// Returns the memory from which a piece can be sent, or into which it can be received, without a
// copy. NULL: there is none.
void *mmul_piece_contiguous(const struct mmul_stage *stage, const struct mmul_transfer *transfer);
