// SPDX-License-Identifier: MIT
//
// Options for planning and running a job: one struct from the public interface to the run.
#pragma once

#include "mpimatmul_local.h"

// Root's options apply on all ranks: sent as bytes.
struct mmul_job_options {
    enum mmul_split_choice split;    // axis of a product that has all of its matrices in files
    enum mmul_split_rule split_rule; // for given weights of such a product
    bool is_only_predicted;          // only the prediction is requested, not a run
    enum mmul_io io;                 // readers of the files of products
    int64_t memory_bytes;            // limit per node; 0: the available memory
    int64_t device_memory_bytes;     // limit per device; 0: the available memory
    enum mmul_tail tail;             // work stealing in products
    double tail_share;               // for MMUL_TAIL_SHARE
    bool reproducible;               // no measurements during the job, no work stealing
    bool keeps_values;               // every value can be read after the run
    bool no_verify, no_fallback;     // disable the check, and the replacement of a failed device
    bool records;                    // a timeline of every rank is recorded for the report
    double device_timeout_seconds;   // limit of one call; 0: from the expected time
    uint64_t verify_seed;            // 0: fresh
    double journal_seconds;          // interval of entries in the journal of an output; 0: none
};

// Callbacks of a job, on the rank that has started it; NULL: none.
struct mmul_job_calls {
    void (*notice)(void *context, const char *text);
    void (*progress)(void *context, const struct mmul_progress *progress);
    void *context; // argument of both
    void (*arrived)(void *arrived_context, const struct mmul_output *output);
    void *arrived_context;
    enum mmul_status (*accept)(void *accept_context, struct mmul_error *err);
    void *accept_context;
};
