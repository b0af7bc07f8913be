// SPDX-License-Identifier: MIT
//
// What every rank did when in a program's run: a record per stage and rank, brought to root and to its clock. From them
// a log, a picture and a report are written.
#pragma once

#include "exec/memory/values.h"
#include "model/trace.h"

// Of one stage on one rank. Plain data: sent as bytes. The three phases add up to end - begin.
struct mmul_stage_record {
    double begin, end; // mmul_clock_now of the rank's host; on root of root's, from the run's begin
    double waiting;    // for operands, memory, or results to leave
    double working;    // computing; of a move: copying
    double checking;
    struct mmul_device_traffic traffic; // of its device, where that has memory of its own
};

struct mmul_program_record {
    int size, stage_count;
    int *steps;                       // owned: the plan's step of each stage
    struct mmul_stage_record *all;    // owned: rank after rank
    char (*names)[224];               // owned: "host: device" of the ranks
    struct mmul_device_info *devices; // owned: of the ranks
    struct mmul_traces *traces;       // owned: what moved
    double begin;                     // of the run on root
};

// How long the phases of a run have taken until now, and what its device has taken and given.
struct mmul_report_rank;
struct mmul_stage_record mmul_stage_record_begin(const struct mmul_report_rank *mine,
                                                 struct mmul_device_traffic traffic);
void mmul_stage_record_end(struct mmul_stage_record *record, const struct mmul_report_rank *mine,
                           struct mmul_device_traffic traffic);

// Collective. mine: of this rank's stages, begun at `begin` on its clock; steps: stage_count of them, the same on all
// ranks. *record is root's; elsewhere it stays NULL.
struct mmul_stage_times {
    const struct mmul_stage_record *mine;
    const int *steps;
    int stage_count;
    double begin;
};
enum mmul_status mmul_program_record_collect(const struct mmul_context *context,
                                             const struct mmul_stage_times *times,
                                             struct mmul_program_record **record,
                                             struct mmul_error *err);
void mmul_program_record_destroy(struct mmul_program_record *record);
