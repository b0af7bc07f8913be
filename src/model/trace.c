// SPDX-License-Identifier: MIT
// The recorder and the writer of traces. The recorder takes a place by one atomic addition, so that
// all threads of a rank share one buffer. Knows nothing of how events come to root.
#include "model/trace.h"

#include "base/integer.h"
#include "base/memory.h"
#include "model/report.h"

// --------------------------------------------------------------------------------------- recording

enum mmul_status mmul_trace_create(int64_t capacity, struct mmul_trace **trace,
                                   struct mmul_error *err) {
    struct mmul_trace *made;
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "a trace", err);
    if (status != MMUL_OK)
        return status;
    made->capacity = capacity;
    status = MMUL_ALLOCATE(made->events, capacity, "a trace", err); // the first touch is here
    if (status == MMUL_OK)
        *trace = made;
    else
        mmul_free(made);
    return status;
}

void mmul_trace_destroy(struct mmul_trace *trace) {
    if (trace == NULL)
        return;
    mmul_free(trace->events);
    mmul_free(trace);
}

void mmul_trace_add_of(struct mmul_trace *trace, int stage, enum mmul_trace_kind kind, double begin,
                       int64_t first, int64_t second) {
    if (trace == NULL)
        return;
    double end = mmul_clock_now();
    int64_t at = atomic_fetch_add(&trace->count, 1);
    if (at < trace->capacity)
        trace->events[at] = (struct mmul_trace_event){
            .begin = begin, .end = end, .numbers = {first, second}, .kind = kind, .stage = stage};
}

void mmul_trace_add(struct mmul_trace *trace, enum mmul_trace_kind kind, double begin,
                    int64_t first, int64_t second) {
    if (trace != NULL)
        mmul_trace_add_of(trace, atomic_load_explicit(&trace->stage, memory_order_relaxed), kind,
                          begin, first, second);
}

int64_t mmul_trace_kept(const struct mmul_trace *trace) {
    return mmul_smaller(atomic_load(&trace->count), trace->capacity);
}

int64_t mmul_trace_dropped(const struct mmul_trace *trace) {
    return atomic_load(&trace->count) - mmul_trace_kept(trace);
}

// ----------------------------------------------------------------------------------------- writing

void mmul_traces_destroy(struct mmul_traces *traces) {
    if (traces == NULL)
        return;
    mmul_free(traces->events);
    mmul_free(traces->ranks);
    mmul_free(traces);
}

void mmul_traces_set_commit(struct mmul_traces *traces, double begin, double end) {
    int64_t last = traces != NULL ? traces->ranks[0].kept - 1 : -1;
    if (last < 0 || traces->events[last].kind != MMUL_TRACE_COMMIT)
        return;
    traces->events[last].begin = begin;
    traces->events[last].end = end;
}

int64_t mmul_report_dropped_events(const struct mmul_report *report) {
    int64_t dropped = 0;
    for (int rank = 0; report->traces != NULL && rank < report->traces->size; rank++)
        dropped += report->traces->ranks[rank].dropped;
    return dropped;
}
