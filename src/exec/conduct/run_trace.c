// SPDX-License-Identifier: MIT
// Recorders made before a run, and their events brought to root after it. Where they are filled is
// beside what they tell of.
#include "exec/conduct/run_trace.h"

#include "base/integer.h"
#include "base/memory.h"
#include "comm/clocks.h"
#include "model/trace.h"

// Events of a rank, 40 bytes each; those of all ranks have room on root together.
static const int64_t LEAST_EVENTS = 1 << 10, MOST_EVENTS = 1 << 16, EVENTS_OF_ALL = 1 << 22;

enum mmul_status mmul_run_create_trace(struct mmul_site *site, struct mmul_error *err) {
    int64_t share = EVENTS_OF_ALL / site->context->comm->size;
    enum mmul_status status = MMUL_OK;
    if (site->options->records)
        status = mmul_trace_create(mmul_larger(LEAST_EVENTS, mmul_smaller(share, MOST_EVENTS)),
                                   &site->trace, err);
    return mmul_comm_agree(site->context->comm, status, err);
}

static int64_t add_up(const struct mmul_trace_rank *ranks, int size) {
    int64_t sum = 0;
    for (int i = 0; i < size; i++)
        sum += ranks[i].kept;
    return sum;
}

static enum mmul_status collect_events(struct mmul_site *site, struct mmul_traces *traces,
                                       struct mmul_error *err) {
    const struct mmul_comm *comm = site->context->comm;
    int64_t *sizes = NULL;
    enum mmul_status status = MMUL_ALLOCATE(sizes, comm->size, "a trace", err);
    if (status == MMUL_OK && comm->rank == 0)
        status = MMUL_ALLOCATE(traces->events, add_up(traces->ranks, comm->size), "a trace", err);
    status = mmul_comm_agree(comm, status, err);
    for (int i = 0; status == MMUL_OK && i < comm->size; i++)
        sizes[i] = traces->ranks[i].kept * (int64_t)sizeof *traces->events;
    if (status == MMUL_OK)
        status = mmul_comm_collect(comm, site->trace->events, sizes, traces->events, err);
    mmul_free(sizes);
    return status;
}

enum mmul_status mmul_run_collect_trace(struct mmul_site *site, struct mmul_report *report,
                                        struct mmul_error *err) {
    const struct mmul_comm *comm = site->context->comm;
    struct mmul_traces *traces = NULL;
    struct mmul_trace_rank mine = {0};
    if (comm->rank == 0) // its times are known later
        mmul_trace_add(site->trace, MMUL_TRACE_COMMIT, mmul_clock_now(), 0, 0);
    mine.kept = mmul_trace_kept(site->trace);
    mine.dropped = mmul_trace_dropped(site->trace);
    enum mmul_status status = MMUL_ALLOCATE(traces, 1, "a trace", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(traces->ranks, comm->size, "a trace", err);
    status = mmul_comm_agree(comm, status, err);
    if (status == MMUL_OK)
        status = mmul_clocks_compare(comm, &mine.ahead_seconds, err);
    if (status == MMUL_OK)
        status = mmul_comm_share(comm, &mine, sizeof mine, traces->ranks, err);
    if (status == MMUL_OK)
        status = collect_events(site, traces, err);
    if (status != MMUL_OK || comm->rank != 0) {
        mmul_traces_destroy(traces);
        return status;
    }
    traces->size = comm->size;
    traces->begin = site->begin;
    report->traces = traces;
    return MMUL_OK;
}
