// SPDX-License-Identifier: MIT
// Recorder and writer of traces. The recorder reserves an entry by one atomic addition, so that all
// threads of a rank share one buffer. Gathering events on root is done elsewhere.
#include "model/trace.h"

#include <math.h>
#include <stdlib.h>

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
    // touches the memory for the first time
    status = MMUL_ALLOCATE(made->events, capacity, "a trace", err);
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

void mmul_trace_add_at_stage(struct mmul_trace *trace, int stage, enum mmul_trace_kind kind,
                             double begin, int64_t first, int64_t second) {
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
        mmul_trace_add_at_stage(trace, atomic_load_explicit(&trace->stage, memory_order_relaxed),
                                kind, begin, first, second);
}

int64_t mmul_trace_event_count(const struct mmul_trace *trace) {
    return mmul_min(atomic_load(&trace->count), trace->capacity);
}

int64_t mmul_trace_dropped(const struct mmul_trace *trace) {
    return atomic_load(&trace->count) - mmul_trace_event_count(trace);
}

// ----------------------------------------------------------------------------------------- writing

void mmul_traces_destroy(struct mmul_traces *traces) {
    if (traces == NULL)
        return;
    MMUL_FREE_ALL(traces->events, traces->ranks, traces);
}

// One span of a transfer. Begins are on root's clock.
struct transfer_span {
    struct mmul_trace_event *event;
    double begin, clock_lead_seconds;
    bool is_sender;
};

static bool is_transfer(const struct mmul_trace_event *event) {
    return event->kind == MMUL_TRACE_PIECES || event->kind == MMUL_TRACE_C_IN ||
           event->kind == MMUL_TRACE_PANEL || event->kind == MMUL_TRACE_BLOCK;
}

// By transfer; within one, senders by their begin come before receivers.
static int compare_spans(const void *left, const void *right) {
    const struct transfer_span *a = left, *b = right;
    const struct mmul_trace_event *x = a->event, *y = b->event;
    if (x->stage != y->stage)
        return x->stage < y->stage ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->numbers[0] != y->numbers[0])
        return x->numbers[0] < y->numbers[0] ? -1 : 1;
    if (a->is_sender != b->is_sender)
        return a->is_sender ? -1 : 1;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

static int64_t collect_transfers(const struct mmul_traces *traces, struct transfer_span *spans) {
    struct mmul_trace_event *event = traces->events;
    int64_t count = 0;
    for (int rank = 0; rank < traces->size; rank++) {
        const double ahead = traces->ranks[rank].clock_lead_seconds;
        for (int64_t i = 0; i < traces->ranks[rank].kept; i++, event++) {
            if (!is_transfer(event))
                continue;
            const bool to_root = event->kind == MMUL_TRACE_BLOCK;
            if (spans != NULL)
                spans[count] = (struct transfer_span){event, event->begin - ahead, ahead,
                                                      to_root ? rank != 0 : rank == 0};
            count++;
        }
    }
    return count;
}

enum mmul_status mmul_traces_cut_waits(struct mmul_traces *traces, struct mmul_error *err) {
    struct transfer_span *spans = NULL;
    const int64_t count = collect_transfers(traces, NULL);
    if (count == 0)
        return MMUL_OK;
    enum mmul_status status = MMUL_ALLOCATE(spans, count, "a trace", err);
    if (status != MMUL_OK)
        return status;
    collect_transfers(traces, spans);
    qsort(spans, (size_t)count, sizeof *spans, compare_spans);
    const struct transfer_span *first = spans;
    for (int64_t i = 0; i < count; i++) {
        struct mmul_trace_event *event = spans[i].event;
        if (event->stage != first->event->stage || event->kind != first->event->kind ||
            event->numbers[0] != first->event->numbers[0])
            first = &spans[i];
        const double begin = first->begin + spans[i].clock_lead_seconds;
        if (first->is_sender && !spans[i].is_sender)
            event->begin = fmin(fmax(event->begin, begin), event->end);
    }
    mmul_free(spans);
    return MMUL_OK;
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
