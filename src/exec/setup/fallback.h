// SPDX-License-Identifier: MIT
//
// When a device fails, errs or hangs its successor takes over for the rest of the context: a GPU's is
// the CPU, the CPU's are plain loops. A task is done again there as a whole; who does that calls this:
// the worker (a call that failed, a block that the check found wrong) and the run (a product that took
// too long).
#pragma once

#include "exec/setup/context.h"

// Closes the device that failed or erred and opens its successor (mmul_device_next_name), with a
// warning that says why. Local. Fails with MMUL_ERR_UNAVAILABLE when there is none.
enum mmul_status mmul_context_replace_device(struct mmul_context *context, const char *why,
                                             struct mmul_error *err);

// From another thread: keeps `device` from being replaced until it is released. False: it is being
// replaced right now.
bool mmul_context_hold_device(struct mmul_context *context);
void mmul_context_release_device(struct mmul_context *context);

// The same for a device that hangs in a call of another thread (mmul_device_abandon said so): it is
// left as it is. The caller holds it.
enum mmul_status mmul_context_abandon_device(struct mmul_context *context, const char *why,
                                             struct mmul_error *err);

// The same after a failure that is in `err`, unless no_fallback: then it stays the failure, with
// MMUL_ERR_UNAVAILABLE. It also stays one when it is what the process lacks, which the successor would lack as well.
enum mmul_status mmul_context_fall_back(struct mmul_context *context, bool no_fallback,
                                        struct mmul_error *err);
