// SPDX-License-Identifier: MIT
// Recorders made before a run, and their events brought to root after it. Where they are filled is
// beside what they tell of.
#include "exec/run_trace.h"

#include "base/integer.h"
#include "base/memory.h"
#include "comm/clocks.h"
#include "model/trace.h"

// Events of a rank, 40 bytes each; those of all ranks have room on root together.
static const int64_t LEAST_EVENTS = 1 << 10, MOST_EVENTS = 1 << 16, EVENTS_OF_ALL = 1 << 22;

enum mmul_status mmul_run_create_trace(struct mmul_run *run, struct mmul_error *err) {
    int64_t share = EVENTS_OF_ALL / run->context->comm->size;
    enum mmul_status status = MMUL_OK;
    if (run->args->trace)
        status = mmul_trace_create(mmul_larger(LEAST_EVENTS, mmul_smaller(share, MOST_EVENTS)),
                                   &run->trace, err);
    return mmul_comm_agree(run->context->comm, status, err);
}

static int64_t add_up(const struct mmul_trace_rank *ranks, int size) {
    int64_t sum = 0;
    for (int i = 0; i < size; i++)
        sum += ranks[i].kept;
    return sum;
}

static enum mmul_status collect_events(struct mmul_run *run, struct mmul_traces *traces,
                                       struct mmul_error *err) {
    const struct mmul_comm *comm = run->context->comm;
    int64_t *sizes = NULL;
    enum mmul_status status = MMUL_ALLOCATE(sizes, comm->size, "a trace", err);
    if (status == MMUL_OK && comm->rank == 0)
        status = MMUL_ALLOCATE(traces->events, add_up(traces->ranks, comm->size), "a trace", err);
    status = mmul_comm_agree(comm, status, err);
    for (int i = 0; status == MMUL_OK && i < comm->size; i++)
        sizes[i] = traces->ranks[i].kept * (int64_t)sizeof *traces->events;
    if (status == MMUL_OK)
        status = mmul_comm_collect(comm, run->trace->events, sizes, traces->events, err);
    mmul_free(sizes);
    return status;
}

enum mmul_status mmul_run_gather_traces(struct mmul_run *run, struct mmul_traces **gathered,
                                        struct mmul_error *err) {
    const struct mmul_comm *comm = run->context->comm;
    struct mmul_traces *traces = NULL;
    struct mmul_trace_rank mine = {0};
    if (run->trace == NULL)
        return MMUL_OK;
    mine.kept = mmul_trace_kept(run->trace);
    mine.dropped = mmul_trace_dropped(run->trace);
    enum mmul_status status = MMUL_ALLOCATE(traces, 1, "a trace", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(traces->ranks, comm->size, "a trace", err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_clocks_compare(comm, &mine.ahead_seconds, err);
    if (status == MMUL_OK)
        status = mmul_comm_share(comm, &mine, sizeof mine, traces->ranks, err);
    if (status == MMUL_OK)
        status = collect_events(run, traces, err);
    if (status != MMUL_OK || comm->rank != 0) {
        mmul_traces_destroy(traces);
        return status;
    }
    traces->size = comm->size;
    traces->begin = run->begin;
    *gathered = traces;
    return MMUL_OK;
}

enum mmul_status mmul_run_collect_trace(struct mmul_run *run, struct mmul_report *report,
                                        struct mmul_error *err) {
    if (run->context->comm->rank == 0) // its times are known later
        mmul_trace_add(run->trace, MMUL_TRACE_COMMIT, mmul_clock_now(), 0, 0);
    struct mmul_traces *traces = NULL;
    enum mmul_status status = mmul_run_gather_traces(run, &traces, err);
    if (status == MMUL_OK && traces != NULL)
        report->traces = traces;
    return status;
}
