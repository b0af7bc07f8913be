// SPDX-License-Identifier: MIT
//
// Carries moves out: what stays on the node is copied by its ranks, the rest goes in messages between
// the leaders, packed into one of two lanes while the other one travels. Nothing is negotiated:
// both ends walk the same pieces (plan/moves). Root's files are read and written as ends of a move.
#pragma once

#include "comm/message.h"
#include "exec/values.h"

enum { MMUL_MOVE_LANES = 2, MMUL_MOVE_ELEMENTS = 1 << 18 }; // 1 MiB of a piece

struct mmul_value_mover {
    const struct mmul_values *values;   // borrowed
    const struct mmul_comm *comm;       // borrowed
    const struct mmul_channel *channel; // borrowed, among all ranks
    float *staging;                     // owned: lanes of both directions
    int64_t moved_bytes;                // sent over the network
};

enum mmul_status mmul_value_mover_init(struct mmul_value_mover *mover,
                                       const struct mmul_values *values,
                                       const struct mmul_comm *comm,
                                       const struct mmul_channel *channel, struct mmul_error *err);
void mmul_value_mover_fini(struct mmul_value_mover *mover);

// Collective over world, one move after the other. A failure is kept in the channel's, and the
// traffic ends all the same; agree afterwards, then the result is complete everywhere.
void mmul_value_mover_move(struct mmul_value_mover *mover, const struct mmul_program_step *step);
