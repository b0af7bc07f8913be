// SPDX-License-Identifier: MIT
//
// How a job is to be planned and run: one struct from the public interface to the run.
#pragma once

#include "mpimatmul_local.h"

// Root's are everybody's: sent as bytes.
struct mmul_job_options {
    enum mmul_split_choice split;    // of a product that has all of its matrices in files
    enum mmul_split_rule split_rule; // of such a product's weights, where they are given
    bool is_predicted;               // nothing is run: the prediction is what was asked for
    enum mmul_io io;                 // of products
    int64_t memory_bytes;            // that a node may have; 0: what is there
    int64_t device_memory_bytes;     // that a device may have; 0: what is there
    enum mmul_tail tail;             // parts of products that idle ranks may claim
    double tail_share;               // MMUL_TAIL_SHARE
    bool reproducible;               // nothing is measured now, and nothing claimed
    bool keeps_values;               // every value can be had after the run
    bool no_verify, no_fallback;     // of the run
    bool records;                    // what every rank does when is kept, for the report
    double device_timeout_seconds;   // of one call; 0: by what is expected
    uint64_t verify_seed;            // 0: fresh
};

// What a job calls on the rank that has given it; NULL: nobody listens.
struct mmul_job_calls {
    void (*notice)(void *context, const char *text);
    void (*progress)(void *context, const struct mmul_progress *progress);
    void *context; // of both
    void (*arrived)(void *arrived_context, const struct mmul_output *output);
    void *arrived_context;
    enum mmul_status (*accept)(void *accept_context, struct mmul_error *err);
    void *accept_context;
};
