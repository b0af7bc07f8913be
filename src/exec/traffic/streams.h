// SPDX-License-Identifier: MIT
//
// Where the bytes of a transfer come from or go to that are not in the node's memory as they travel: root's files, and
// values. What a node gets or gives of a product in one go (its pieces of a round, a panel, its block of C of a pass)
// is a list of rectangles, one after another: rank by rank, stretch by stretch. So transposes, column splits and
// repeated batches are all the same case. Of a value that moves it is one rectangle.
#pragma once

#include "comm/channel.h"
#include "exec/steps/product.h"
#include "plan/lists/transfers.h"

struct mmul_stream {
    struct mmul_stage *stage; // borrowed
    struct mmul_transfer transfer;
    char *staging; // borrowed: of a piece that is copied
};

// Bytes of the stream of a node from the files, or to them, for a channel (comm/channel.h) whose context is a struct
// mmul_stream; to nowhere: they are there already, and were counted. Files are root's. What was lent counts
// where it is computed.
extern const struct mmul_channel_end mmul_stream_end;
