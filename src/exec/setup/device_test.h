// SPDX-License-Identifier: MIT
// Tests of the devices of all ranks: right or wrong, and how fast.
#pragma once

#include "exec/setup/context.h"

// Collective. Tests this rank's device, opened once more by name, and, on the first rank of a node
// if nobody named its device, those that `auto` could take and nobody has, or that failed before.
// The results of all ranks are in context->tests everywhere then, and in the profiles of their
// nodes. While a test is under way the profile says that it did not end, so that a driver that
// takes the process down is known too.
// device_timeout_seconds: of one call, 0: 60.
// Fails: MMUL_ERR_CREATE, MMUL_ERR_IO, MMUL_ERR_SYSTEM; a device that fails is a result.
enum mmul_status mmul_test_devices(struct mmul_context *context, double device_timeout_seconds,
                                   struct mmul_error *err);
