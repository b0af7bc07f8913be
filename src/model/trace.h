// SPDX-License-Identifier: MIT
//
// Timelines of ranks: spans of time, kept in memory of a fixed size during a run and written
// afterwards as Chrome trace events for chrome://tracing and ui.perfetto.dev.
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "base/text.h"

// One line of a rank's timeline, written by one thread. Spans of a lane do not overlap, or one lies
// inside the other.
enum mmul_trace_lane {
    MMUL_LANE_OPERATIONS, // compute thread: operations as in the report
    MMUL_LANE_DEVICE,     // compute thread: multiplying, checking, waiting
    MMUL_LANE_COPIES,     // compute thread: to and from a device with memory of its own
    MMUL_LANE_SCATTER,    // main thread of leaders: pieces
    MMUL_LANE_RELAY,      // main thread of leaders: panels
    MMUL_LANE_GATHER,     // main thread of leaders: blocks of C
    MMUL_LANE_READ,       // root's main thread: pieces from files
    MMUL_LANE_LOAD,       // root's main thread: panels from files
    MMUL_LANE_STORE,      // root's main thread: blocks of C to files, and the commit
    MMUL_LANE_WRITE_BACK, // root's third thread
    MMUL_LANE_SEND,       // main thread of leaders: values that change placement
    MMUL_LANE_RECEIVE,    // main thread of leaders: the receiving side
    MMUL_TRACE_LANES
};

struct mmul_report;

// Kind of a span; determines its lane and the meaning of up to two numbers, see trace.c.
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
    int stage; // stage of the run
};

// --------------------------------------------------------------------------------------- recording

struct mmul_trace {
    struct mmul_trace_event *events; // owned
    int64_t capacity;
    _Atomic int64_t count; // recorded events, including those that did not fit
    _Atomic int stage;     // stage that is being computed
};

// Allocates room for `capacity` events, at least 1, and touches it: nothing is allocated later.
enum mmul_status mmul_trace_create(int64_t capacity, struct mmul_trace **trace,
                                   struct mmul_error *err);
void mmul_trace_destroy(struct mmul_trace *trace);

// Returns the begin of a span; does not read the clock without a trace. Any thread.
static inline double mmul_trace_now(const struct mmul_trace *trace) {
    return trace != NULL ? mmul_clock_now() : 0;
}

// Records a span from `begin` to now; events that do not fit are counted. trace NULL: no effect.
// Any thread, also concurrently.
void mmul_trace_add(struct mmul_trace *trace, enum mmul_trace_kind kind, double begin,
                    int64_t first, int64_t second);

// Records a span of a stage other than the current one.
void mmul_trace_add_at_stage(struct mmul_trace *trace, int stage, enum mmul_trace_kind kind,
                             double begin, int64_t first, int64_t second);

int64_t mmul_trace_event_count(const struct mmul_trace *trace);
int64_t mmul_trace_dropped(const struct mmul_trace *trace);

// ----------------------------------------------------------------------------------------- results

// One rank's part of the traces. Plain data: sent as bytes.
struct mmul_trace_rank {
    int64_t kept, dropped;
    double clock_lead_seconds; // lead of its clock over root's
};

// Traces of all ranks of a run, on root.
struct mmul_traces {
    int size;
    struct mmul_trace_rank *ranks;   // size, owned
    struct mmul_trace_event *events; // owned: of rank 0, of rank 1, ...
    double begin;                    // time 0, on root's clock
};

void mmul_traces_destroy(struct mmul_traces *traces);

// A rank posts a receive long before the bytes are on their way. Moves the begin of what a rank
// receives in a scatter, relay or gather to the moment when a sender began, so that waiting is not
// drawn as transfer. Pieces and panels come from root; blocks go there.
enum mmul_status mmul_traces_cut_waits(struct mmul_traces *traces, struct mmul_error *err);

// Sets the times of root's last event if it is a commit. Accepts NULL.
void mmul_traces_set_commit(struct mmul_traces *traces, double begin, double end);
