// SPDX-License-Identifier: MIT
// What a rank keeps between jobs: its communicators, the cluster, its device and its warnings.
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "base/text.h"
#include "comm/comm.h"
#include "device/device.h"
#include "exec/setup/board.h"
#include "exec/setup/effort.h"
#include "host/topology.h"
#include "model/cluster.h"
#include "model/device_test.h"
#include "model/dtype.h"
#include "model/report.h"

struct mmul_context {
    struct mmul_comm *comm;            // owned
    struct mmul_cluster *cluster;      // owned; the same on all ranks
    struct mmul_device *device;        // owned; this rank's
    atomic_flag replacing;             // held while `device` changes; see exec/setup/fallback.h
    char device_name[128];             // what it was opened as
    struct mmul_cpuset fallback_cores; // where the CPU computes when it takes over ...
    int fallback_threads;              // ... and with how many threads
    bool fallback_bind;
    int replacements; // how often the device was replaced
    double warm
        [MMUL_DTYPES]; // of a type: products of m n k at most whose kernels the device has built
    double warm_up_seconds;         // what that took
    double begun_at, posted_at;     // clock: when it was made; when its board was written last
    struct mmul_board *board;       // owned, root's: what others see of its jobs; NULL: nothing yet
    struct mmul_effort *effort;     // owned; of a node's alone the whole one's
    struct mmul_startup startup;    // of the next run, so far
    struct mmul_stopwatch watch;    // of these; stands during a run
    bool chosen;                    // the device, by `auto`: nobody named it
    bool profile_warned;            // a profile that cannot be used was warned of
    struct mmul_device_test *tests; // owned; of all ranks' devices, NULL: not tested
    int test_count;
    struct mmul_kept_plan *plans; // owned: of programs that have run (exec/job/plan_cache.h)
    int64_t plan_count;           // that were made so far
    struct mmul_balance
        *balance; // owned, root's: shares that follow what ranks do (exec/job/rebalance.h)
    struct mmul_spares
        *spares; // owned: memory from one run of a plan to the next (exec/memory/spare.h)
    struct mmul_held *held; // owned: values that stay from job to job (exec/memory/held.h)
    int64_t released_count; // root: of them, those that go when the next program is planned
    struct mmul_context
        *node; // owned: of this rank's node alone (exec/setup/node_context.h); NULL: nobody asked
    struct mmul_parcel
        *parcels; // owned: of a node's alone, what root has sent last (exec/job/apart.c)
    const struct mmul_context *whole; // of a node's alone: the one that it is part of; else NULL
    char *shard_folder;               // owned: this rank's, for sets of shards
    char *shard_folders;       // owned: all ranks', one after the other; NULL: nobody has asked yet
    struct mmul_text warnings; // this rank's, a line each
    struct mmul_text all_warnings; // root: of all ranks at creation, a line each
    const char **warning_lines;    // root, owned: into all_warnings
    int warning_count;
};

// A warning of this rank: a line in the report, printed by nobody but the program.
void mmul_context_warn(struct mmul_context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Collective over world. Moves the warnings of all ranks to root, in rank order, as lines; other
// ranks get nothing. Releases: mmul_text_fini and mmul_free.
enum mmul_status mmul_context_collect_warnings(struct mmul_context *context, struct mmul_text *all,
                                               const char ***lines, int *count,
                                               struct mmul_error *err);

// Builds the device's kernels for products of m n k at most, once. Local. Fails with the device, and with
// MMUL_ERR_UNAVAILABLE when it takes more than 300 s.
enum mmul_status mmul_context_warm_up(struct mmul_context *context, enum mmul_dtype dtype,
                                      double most, struct mmul_error *err);
