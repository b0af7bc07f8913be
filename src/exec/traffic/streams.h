// SPDX-License-Identifier: MIT
//
// Sources and destinations of transfers that are not in the node's memory as they travel: root's
// files, and values. One transfer of a product (a node's pieces of a round, a panel, its block of C
// of a pass) is a list of rectangles. They follow each other rank by rank, stretch by stretch.
// Transposes, column splits and repeated batches are therefore one case. A piece of a value that
// moves is one rectangle.
//
// Bytes travel in the types that model/problem.h gives for operands and result, from which sizes,
// memory and costs follow. Another type on the wire would be converted here, at root's end.
// exec/steps/block.c finds the bytes in memory, and uses the same type for mapped matrices. For
// values that move the type matters in plan/lists/transfers.c, exec/traffic/move.c and
// plan/cost/program_cost.c.
#pragma once

#include "comm/channel.h"
#include "exec/steps/product.h"
#include "plan/lists/transfers.h"

struct mmul_stream {
    struct mmul_stage *stage; // borrowed
    struct mmul_transfer transfer;
    char *staging; // borrowed: buffer for a piece that is copied
};

// Reads or writes the bytes of a node's stream, as the end of a channel (comm/channel.h) with a
// struct mmul_stream as context. Bytes that are in place already are neither moved nor counted
// again. Files belong to root. Lent lines count on the node that computes them.
extern const struct mmul_channel_end mmul_stream_end;
