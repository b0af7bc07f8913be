// SPDX-License-Identifier: MIT
// Tests of the devices of all ranks: correctness and speed.
#pragma once

#include "exec/setup/context.h"

// Collective. Tests this rank's device, opened once more by name. If `auto` chose the device of a
// node's first rank, this rank also tests unused devices of the node: those that `auto` could take,
// and those that failed before.
// The results of all ranks are then in context->tests on all ranks, and in the profiles of their
// nodes. During a test the profile says that it did not end, so a driver that kills the process is
// recorded too.
// device_timeout_seconds: limit of one call, 0: 60.
// Fails: MMUL_ERR_CREATE, MMUL_ERR_IO, MMUL_ERR_SYSTEM. A failing device is a result, not an error.
enum mmul_status mmul_test_devices(struct mmul_context *context, double device_timeout_seconds,
                                   struct mmul_error *err);
