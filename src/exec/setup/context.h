// SPDX-License-Identifier: MIT
// State that a rank keeps between jobs: communicators, cluster, device and warnings.
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "base/text.h"
#include "comm/comm.h"
#include "device/device.h"
#include "host/topology.h"
#include "model/cluster.h"
#include "model/device_test.h"
#include "model/dtype.h"
#include "model/report.h"

struct mmul_job_status;   // exec/status/job_status.h
struct mmul_device_usage; // exec/status/device_usage.h

struct mmul_context {
    struct mmul_comm *comm;            // owned
    struct mmul_cluster *cluster;      // owned; equal on all ranks
    struct mmul_device *device;        // owned; of this rank
    atomic_flag is_device_locked;      // held while `device` changes; see exec/setup/fallback.h
    char device_name[128];             // name it was opened by
    struct mmul_cpuset fallback_cores; // cores and threads of the CPU after a fallback
    int fallback_threads;
    bool fallback_bind;
    int replacements;                     // number of times the device was replaced
    double warm[MMUL_DTYPES];             // by type: largest m n k of products with built kernels
    double warm_up_seconds;               // time that the builds took
    double created_at, status_written_at; // clock: creation; last write of the job status
    // owned, root: job status for other processes; NULL: none yet
    struct mmul_job_status *job_status;
    struct mmul_device_usage *device_usage; // owned; a node context borrows that of the whole
    struct mmul_startup startup;            // startup times of the next run, so far
    struct mmul_stopwatch watch;            // stopwatch of `startup`; stopped during a run
    bool chosen;                            // `auto` chose the device: the user named none
    bool has_profile_warning;               // the warning of an unusable profile was given
    struct mmul_device_test *tests;         // owned; of all ranks' devices; NULL: not tested
    int test_count;
    // owned: plans of programs that have run (exec/job/plan_cache.h)
    struct mmul_cached_plan *plans;
    int64_t plan_count; // number of plans made so far
    // owned, root: shares that follow the ranks' measured pace (exec/job/rebalance.h)
    struct mmul_balance *balance;
    // owned: memory passed from one run of a plan to the next (exec/memory/segment_cache.h)
    struct mmul_segment_cache *segment_cache;
    struct mmul_held *held; // owned: values kept from job to job (exec/memory/held.h)
    int64_t released_count; // root: values in `held` to release when the next program is planned
    // owned: context of this rank's node alone (exec/setup/node_context.h); NULL: not created
    struct mmul_context *node;
    // owned, node context: last message from root, and on root the last one to each node
    // (exec/job/node_programs.c)
    struct mmul_packed_program *packed_programs;
    // owned, root: context of root alone (exec/setup/node_context.h); NULL: not created
    struct mmul_context *alone;
    // node context, root's context: the context that it is part of; else NULL
    const struct mmul_context *whole;
    // root: measured time of the messages of a program of all ranks; 0: not measured
    double message_seconds;
    char *shard_folder;        // owned: this rank's folder for sets of shards
    char *shard_folders;       // owned: folders of all ranks, concatenated; NULL: not collected yet
    struct mmul_text warnings; // warnings of this rank, one line each
    struct mmul_text all_warnings; // root: of all ranks at creation, one line each
    const char **warning_lines;    // root, owned: pointers into all_warnings
    int warning_count;
};

// Returns true for the context of root alone.
static inline bool mmul_context_is_of_root(const struct mmul_context *context) {
    return context->whole != NULL && context->whole->alone == context;
}

// Adds a warning of this rank, which becomes a line of the report. Only the program prints it.
void mmul_context_warn(struct mmul_context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Moves the warnings of a report that no user sees to the next report. Local. report: root's; those
// of other ranks have no warnings.
void mmul_context_warn_again(struct mmul_context *context, const struct mmul_report *report);

// Collective over world. Moves the warnings of all ranks to root, in rank order, as lines. Other
// ranks get nothing. The caller releases `all` by mmul_text_fini and `lines` by mmul_free.
enum mmul_status mmul_context_collect_warnings(struct mmul_context *context, struct mmul_text *all,
                                               const char ***lines, int *count,
                                               struct mmul_error *err);

// Builds the device's kernels for products of at most m n k = `most`, once. Local. Fails with the
// device, and with MMUL_ERR_UNAVAILABLE if it takes more than 300 s.
enum mmul_status mmul_context_warm_up(struct mmul_context *context, enum mmul_dtype dtype,
                                      double most, struct mmul_error *err);
