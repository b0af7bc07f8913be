// SPDX-License-Identifier: MIT
//
// Files as streams of bytes. The part of a node is the parts of its ranks one after another, the
// part of a rank its segments; so transposes, column splits and repeated batches are all the same
// case: a list of rectangles in a file.
#pragma once

#include "comm/panels.h"
#include "plan/plan.h"

// Which stream a call is about.
enum mmul_stream { MMUL_STREAM_PIECES, MMUL_STREAM_C_IN, MMUL_STREAM_RESULT, MMUL_STREAM_WHOLE };

// Root's end of all streams of a run; context of the callbacks of mmul_stream_end.
struct mmul_streams {
    const struct mmul_plan *plan;
    enum mmul_stream stream;
    struct mmul_matrix *split, *whole, *c_in; // borrowed
    struct mmul_output *output;               // borrowed
    int64_t bytes_read, bytes_written;
    void (*progress)(void *progress_context, const char *phase, int64_t done_bytes,
                     int64_t total_bytes); // NULL: none
    void *progress_context;
    int64_t done_bytes, total_bytes; // of this stream, for progress
};

// Bytes of a stream for each node; WHOLE has one size for all, in bytes[0].
void mmul_stream_sizes(const struct mmul_plan *plan, enum mmul_stream stream, int64_t *bytes);

// Starts `stream`: the callbacks of the returned end belong to it until the next one is started.
struct mmul_stream_end mmul_streams_begin(struct mmul_streams *streams, enum mmul_stream stream,
                                          int64_t total_bytes);
