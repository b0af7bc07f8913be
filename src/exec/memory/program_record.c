// SPDX-License-Identifier: MIT
// Records of stages made by the compute thread, and their way to root. What is written of them is
// program_record_text.c's.
#include "exec/memory/program_record.h"

#include <string.h>

#include "base/clock.h"
#include "base/integer.h"
#include "base/memory.h"
#include "comm/clocks.h"
#include "model/report.h"

// Sums of the run so far stand where differences will.
struct mmul_stage_record mmul_stage_record_begin(const struct mmul_report_rank *mine,
                                                 struct mmul_device_traffic traffic) {
    return (struct mmul_stage_record){.begin = mmul_clock_now(),
                                      .waiting = mine->scatter_seconds + mine->gather_seconds,
                                      .checking = mine->verify_seconds,
                                      .traffic = traffic};
}

void mmul_stage_record_end(struct mmul_stage_record *record, const struct mmul_report_rank *mine,
                           struct mmul_device_traffic traffic) {
    record->end = mmul_clock_now();
    record->waiting = mine->scatter_seconds + mine->gather_seconds - record->waiting;
    record->checking = mine->verify_seconds - record->checking;
    record->working = record->end - record->begin - record->waiting - record->checking;
    record->working = record->working > 0 ? record->working : 0;
    record->traffic.uploaded = mmul_larger(0, traffic.uploaded - record->traffic.uploaded);
    record->traffic.downloaded = mmul_larger(0, traffic.downloaded - record->traffic.downloaded);
}

static enum mmul_status create(const struct mmul_context *context,
                               const struct mmul_stage_times *times,
                               struct mmul_program_record **record, struct mmul_error *err) {
    const int size = context->comm->size;
    struct mmul_program_record *made = NULL;
    enum mmul_status status = MMUL_ALLOCATE(made, 1, "a record", err);
    if (status != MMUL_OK)
        return status;
    made->size = size;
    made->stage_count = times->stage_count;
    made->begin = times->begin;
    status = MMUL_ALLOCATE(made->steps, times->stage_count, "a record", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(made->all, (int64_t)size * times->stage_count, "a record", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(made->names, size, "a record", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(made->devices, size, "a record", err);
    if (status != MMUL_OK) {
        mmul_program_record_destroy(made);
        return status;
    }
    memcpy(made->steps, times->steps, (size_t)times->stage_count * sizeof *made->steps);
    for (int rank = 0; rank < size; rank++) {
        made->devices[rank] = context->cluster->ranks[rank].device;
        snprintf(made->names[rank], sizeof made->names[rank], "%.60s: %.120s",
                 context->cluster->ranks[rank].host, context->cluster->ranks[rank].device.name);
    }
    *record = made;
    return MMUL_OK;
}

enum mmul_status mmul_program_record_collect(const struct mmul_context *context,
                                             const struct mmul_stage_times *times,
                                             struct mmul_program_record **record,
                                             struct mmul_error *err) {
    const struct mmul_comm *comm = context->comm;
    struct mmul_program_record *made = NULL;
    double *ahead = NULL, mine = 0;
    int64_t *sizes = NULL;
    enum mmul_status status = MMUL_ALLOCATE(ahead, comm->size, "a record", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(sizes, comm->size, "a record", err);
    if (status == MMUL_OK && comm->rank == 0)
        status = create(context, times, &made, err);
    status = mmul_comm_agree(comm, status, err);
    for (int rank = 0; status == MMUL_OK && rank < comm->size; rank++)
        sizes[rank] = times->stage_count * (int64_t)sizeof *times->mine;
    if (status == MMUL_OK)
        status = mmul_clocks_compare(comm, &mine, err);
    if (status == MMUL_OK)
        status = mmul_comm_share(comm, &mine, sizeof mine, ahead, err);
    if (status == MMUL_OK)
        status = mmul_comm_collect(comm, times->mine, sizes, made != NULL ? made->all : NULL, err);
    for (int i = 0; status == MMUL_OK && made != NULL && i < comm->size * times->stage_count; i++) {
        made->all[i].begin -= made->begin + ahead[i / times->stage_count];
        made->all[i].end -= made->begin + ahead[i / times->stage_count];
    }
    mmul_free(sizes);
    mmul_free(ahead);
    if (status == MMUL_OK)
        *record = made;
    else
        mmul_program_record_destroy(made);
    return status;
}

void mmul_program_record_destroy(struct mmul_program_record *record) {
    if (record == NULL)
        return;
    mmul_traces_destroy(record->traces);
    mmul_free(record->names);
    mmul_free(record->devices);
    mmul_free(record->all);
    mmul_free(record->steps);
    mmul_free(record);
}
