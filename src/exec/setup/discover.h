// SPDX-License-Identifier: MIT
// Discovery of the cluster: combines the findings of all ranks, and gives this rank its device and
// cores.
#pragma once

#include "exec/setup/context.h"

struct mmul_discover_options {
    const char *device; // request of this rank; NULL: "auto"
    int threads;
    bool no_bind;
    const struct mmul_device_info *devices; // devices that the probe found on this machine
    int device_count;
    const char *const *warnings; // warnings of the probe
    int warning_count;
};

// Collective over context->comm, which is set. Sets cluster and device and binds this process.
// Fails alike on all ranks, see mmul_context_create.
enum mmul_status mmul_discover(struct mmul_context *context,
                               const struct mmul_discover_options *options, struct mmul_error *err);
