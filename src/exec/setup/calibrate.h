// SPDX-License-Identifier: MIT
// Speeds of all devices and links. Both come from stored profiles. Otherwise all ranks time short
// products at once, as they will compute, and the nodes exchange messages.
#pragma once

#include "exec/setup/context.h"

enum mmul_calibration_depth {
    MMUL_CALIBRATE_STORED, // uses stored speeds; measures nothing
    // uses stored speeds, else measures in well under a second; stores nothing
    MMUL_CALIBRATE_BRIEF,
    // as brief, but measures for one or two seconds: for a job that may take hours
    MMUL_CALIBRATE_LONG,
    MMUL_CALIBRATE_THOROUGH, // measures for seconds, and stores the result
};

struct mmul_calibrate_options {
    enum mmul_calibration_depth depth;
    unsigned types; // types in which the job computes: a bit per type, 1 << MMUL_F32, 1 << MMUL_F64
    // work of all ranks together in the coming job; 0: unknown, measured as for a long job
    double job_flops;
    bool no_fallback;
    double device_timeout_seconds; // limit of one device call, beyond it the device hangs; 0: 60
};

// Collective. Sets speed and speed_flops of the cluster's ranks and the links of its nodes, alike
// on all ranks. A device without all of the types is replaced first, except that
// MMUL_CALIBRATE_THOROUGH measures the types that it has. Stored speeds count if every rank has one
// of every type (exec/setup/profile.h), stored links if every node has its own. Otherwise all are
// measured, or, with MMUL_CALIBRATE_STORED, stay unknown. Speeds and links that this context knows
// stay as they are, unless a device was replaced since.
// A device that fails or hangs here, or lacks a type, is replaced by the CPU with a warning, unless
// no_fallback is set.
// Fails: MMUL_ERR_UNAVAILABLE (no_fallback), MMUL_ERR_CREATE or MMUL_ERR_IO (a profile cannot be
// stored; if its folder is the cause, nothing is measured).
enum mmul_status mmul_calibrate(struct mmul_context *context,
                                const struct mmul_calibrate_options *options,
                                struct mmul_error *err);

// Returns the bytes of host memory that this rank may use for measurements: half of its part of the
// node's available memory.
int64_t mmul_calibrate_memory_bytes(const struct mmul_context *context);
