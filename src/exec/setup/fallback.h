// SPDX-License-Identifier: MIT
//
// Replacement of a device that fails, gives wrong results or hangs. Its successor works for the
// rest of the context: the CPU after a GPU, plain loops after the CPU. The failed task is repeated
// there as a whole. Callers are the worker (a failed call, a block that the check found wrong) and
// the run (a product that took too long).
#pragma once

#include "exec/setup/context.h"

// Closes the failed device and opens its successor (mmul_device_fallback_name), with a warning that
// gives the reason. Local. Fails with MMUL_ERR_UNAVAILABLE if there is none.
enum mmul_status mmul_context_replace_device(struct mmul_context *context, const char *why,
                                             struct mmul_error *err);

// Keeps `device` from being replaced until it is released. For other threads. Returns false if it
// is being replaced right now.
bool mmul_context_lock_device(struct mmul_context *context);
void mmul_context_unlock_device(struct mmul_context *context);

// Replaces a device that hangs in a call of another thread (mmul_device_abandon returned true),
// without closing it. The caller holds the device.
enum mmul_status mmul_context_abandon_device(struct mmul_context *context, const char *why,
                                             struct mmul_error *err);

// Replaces the device after the failure in `err`. With no_fallback the failure stays, as
// MMUL_ERR_UNAVAILABLE. A lack of resources of the process also stays a failure if the successor
// would have the same lack.
enum mmul_status mmul_context_fall_back(struct mmul_context *context, bool no_fallback,
                                        struct mmul_error *err);
