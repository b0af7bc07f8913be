// SPDX-License-Identifier: MIT
//
// What a rank did when: spans of time, kept in memory of a fixed size while a run is under way and
// written afterwards as Chrome trace events, which chrome://tracing and ui.perfetto.dev show.
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "base/text.h"

// One line of the picture of a rank, drawn by one thread. Spans of a lane do not overlap, or one
// lies inside the other.
enum mmul_trace_lane {
    MMUL_LANE_OPERATIONS, // compute thread: what the report tells of each
    MMUL_LANE_DEVICE,     // compute thread: multiplying, checking, waiting
    MMUL_LANE_COPIES,     // compute thread: to and from a device with memory of its own
    MMUL_LANE_SCATTER,    // main thread of leaders: pieces
    MMUL_LANE_RELAY,      // panels
    MMUL_LANE_GATHER,     // blocks of C
    MMUL_LANE_READ,       // root's main thread: pieces from files
    MMUL_LANE_LOAD,       // panels from files
    MMUL_LANE_STORE,      // blocks of C to files, and the end of it
    MMUL_LANE_WRITE_BACK, // root's third thread
    MMUL_LANE_SEND,       // main thread of leaders: values that get another placement
    MMUL_LANE_RECEIVE,    // the same
    MMUL_TRACE_LANES
};

struct mmul_report;

// What a span is; it lies in one lane and has up to two numbers, as trace.c says.
enum mmul_trace_kind {
    MMUL_TRACE_SET_UP,
    MMUL_TRACE_WAIT_OPERANDS,
    MMUL_TRACE_WAIT_RESULTS,
    MMUL_TRACE_MULTIPLY,
    MMUL_TRACE_CHECK,
    MMUL_TRACE_UPLOAD,
    MMUL_TRACE_DOWNLOAD,
    MMUL_TRACE_PIECES,
    MMUL_TRACE_C_IN,
    MMUL_TRACE_PANEL,
    MMUL_TRACE_BLOCK,
    MMUL_TRACE_READ_PIECES,
    MMUL_TRACE_READ_C_IN,
    MMUL_TRACE_READ_PANEL,
    MMUL_TRACE_WRITE_BLOCK,
    MMUL_TRACE_COMMIT,
    MMUL_TRACE_WRITE_BACK,
    MMUL_TRACE_SEND,
    MMUL_TRACE_RECEIVE,
    MMUL_TRACE_READ_PART,
    MMUL_TRACE_WRITE_PART,
    MMUL_TRACE_KINDS
};

// Plain data: sent as bytes.
struct mmul_trace_event {
    double begin, end; // mmul_clock_now of the rank's host
    int64_t numbers[2];
    int kind;  // enum mmul_trace_kind
    int stage; // of the run
};

// --------------------------------------------------------------------------------------- recording

struct mmul_trace {
    struct mmul_trace_event *events; // owned
    int64_t capacity;
    _Atomic int64_t count; // what was recorded, and what found no room
    _Atomic int stage;     // that is being computed
};

// Room for `capacity` events, at least 1, touched: nothing is allocated later.
enum mmul_status mmul_trace_create(int64_t capacity, struct mmul_trace **trace,
                                   struct mmul_error *err);
void mmul_trace_destroy(struct mmul_trace *trace);

// When a span begins; without a trace nothing is looked at. Any thread.
static inline double mmul_trace_now(const struct mmul_trace *trace) {
    return trace != NULL ? mmul_clock_now() : 0;
}

// A span that began then ends now; what does not fit is counted. `trace` NULL: nothing happens. Any
// thread, several at once.
void mmul_trace_add(struct mmul_trace *trace, enum mmul_trace_kind kind, double begin,
                    int64_t first, int64_t second);

// The same of a stage that is not the one being computed.
void mmul_trace_add_of(struct mmul_trace *trace, int stage, enum mmul_trace_kind kind, double begin,
                       int64_t first, int64_t second);

int64_t mmul_trace_kept(const struct mmul_trace *trace);
int64_t mmul_trace_dropped(const struct mmul_trace *trace);

// ----------------------------------------------------------------------------------- what came of it

// Of one rank. Plain data: sent as bytes.
struct mmul_trace_rank {
    int64_t kept, dropped;
    double ahead_seconds; // of its clock before root's
};

// Of all ranks of a run, on root.
struct mmul_traces {
    int size;
    struct mmul_trace_rank *ranks;   // size, owned
    struct mmul_trace_event *events; // owned: of rank 0, of rank 1, ...
    double begin;                    // on root's clock: what counts as 0
};

void mmul_traces_destroy(struct mmul_traces *traces);

// A rank posts a receive long before the bytes are on their way. Moves the begin of what a rank receives in a
// scatter, relay or gather to the moment when a sender began, so that waiting is not drawn as transfer. Pieces
// and panels come from root; blocks go there.
enum mmul_status mmul_traces_cut_waits(struct mmul_traces *traces, struct mmul_error *err);

// The last event of root, if it is a commit, was from `begin` to `end`. NULL is legal.
void mmul_traces_set_commit(struct mmul_traces *traces, double begin, double end);
