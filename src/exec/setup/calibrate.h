// SPDX-License-Identifier: MIT
// How fast is each device and each link? Stored profiles say it, or short products on all ranks at
// once, as they will compute, and messages between the nodes.
#pragma once

#include "exec/setup/context.h"

enum mmul_calibration_depth {
    MMUL_CALIBRATE_STORED,   // what is stored; measures nothing
    MMUL_CALIBRATE_BRIEF,    // what is stored; else measures in well under a second, stores nothing
    MMUL_CALIBRATE_LONG,     // the same, for what may take hours: in a second or two
    MMUL_CALIBRATE_THOROUGH, // measures in seconds, and stores
};

struct mmul_calibrate_options {
    enum mmul_calibration_depth depth;
    unsigned types; // in which the job computes: a bit per type, 1 << MMUL_F32, 1 << MMUL_F64
    double
        job_flops; // what all ranks together are about to do; 0: not known, and measured as for a long job
    bool no_fallback;
    double device_timeout_seconds; // a device with a call that takes longer hangs; 0: 60
};

// Collective. Fills in speed and speed_flops of the cluster's ranks and the links of its nodes,
// everywhere alike. A device that has not all of the types is replaced first, but where
// MMUL_CALIBRATE_THOROUGH measures what it has. Stored speeds count
// when every rank has one of every type (exec/setup/profile), stored links when
// every node has its own; else all are measured, or, with MMUL_CALIBRATE_STORED, stay unknown. What
// this context knows already stays as it is, unless a device was replaced since.
// A device that fails or hangs here, or lacks a type, gets the CPU in its place, with a warning, unless no_fallback.
// Fails: MMUL_ERR_UNAVAILABLE (no_fallback), MMUL_ERR_CREATE or MMUL_ERR_IO (a profile cannot be
// stored; where its folder is to blame nothing is measured).
enum mmul_status mmul_calibrate(struct mmul_context *context,
                                const struct mmul_calibrate_options *options,
                                struct mmul_error *err);

// Bytes of host memory that this rank may measure with: half of its part of what its node has left.
int64_t mmul_calibrate_memory(const struct mmul_context *context);
