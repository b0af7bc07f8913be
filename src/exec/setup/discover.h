// SPDX-License-Identifier: MIT
// Who is there: makes the cluster out of what every rank finds when it looks around, and gives
// this rank its device and its cores.
#pragma once

#include "exec/setup/context.h"

struct mmul_discover_options {
    const char *device; // this rank's wish; NULL: "auto"
    int threads;
    bool no_bind;
    const struct mmul_device_info *devices; // what the probe found on this machine
    int device_count;
    const char *const *warnings; // of the probe
    int warning_count;
};

// Collective over context->comm, which is set; fills cluster and device and binds this process.
// Fails everywhere alike, see mmul_context_create.
enum mmul_status mmul_discover(struct mmul_context *context,
                               const struct mmul_discover_options *options, struct mmul_error *err);
