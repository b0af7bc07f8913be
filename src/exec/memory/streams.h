// SPDX-License-Identifier: MIT
//
// Files as streams of bytes, and values that are spread over the ranks of a node. What a node gets or
// gives in one go (its pieces of a round, a panel, its block of C of a step) is a list of rectangles,
// one after another: rank by rank, stretch by stretch. So transposes, column splits and repeated batches
// are all the same case.
#pragma once

#include "comm/channel.h"
#include "exec/memory/values.h"
#include "plan/lists/transfers.h"

// Lines of another node's block of a step, in a part of its width, which a rank of root's node computes into the
// mapped file (exec/tasks/lending.h): what comes for them from there means nothing.
struct mmul_lent {
    int rank;     // whose block
    int64_t step; // its index
    struct mmul_range lines, width;
};

// Root's files, and values of this node; counts what went through.
struct mmul_files {
    const struct mmul_plan *plan;
    struct mmul_matrix *split, *whole, *c_in; // borrowed
    struct mmul_output *output;               // borrowed
    const struct mmul_values *values;         // borrowed ...
    int spread;                               // ... and a place among them; -1: `whole` is the file
    int64_t bytes_read;                       // as stored
    int64_t done_bytes, result_bytes;         // of C as float32: what there is already, all of it
    const struct mmul_lent *lent;             // borrowed; the result's streams do not write them
    int lent_count;
};

struct mmul_stream {
    struct mmul_files *files;
    enum mmul_content content;
    struct mmul_step step; // of rounds: any step of it
    int64_t offset;        // of a panel: where the bytes begin in it
};

// Counts bytes of C (as float32) that are there.
void mmul_files_count(struct mmul_files *files, int64_t bytes);

// Bytes of the stream of a node from the files, or to them, for a channel (comm/channel.h) whose context is a struct
// mmul_stream; to nowhere: they are there already, and were counted. Files are root's. What was lent counts
// where it is computed.
extern const struct mmul_channel_end mmul_stream_end;
