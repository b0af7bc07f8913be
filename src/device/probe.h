// SPDX-License-Identifier: MIT
// The devices of this machine found so far. The `probe` entries of the device table add to it in
// the order of the registry. A kind with a driver that could crash or hang probes in a child, and
// reports what it leaves out as a warning.
#pragma once

#include "mpimatmul_local.h"

// Adds a device of this machine and sets its `probed`. Ignores devices beyond 128.
void mmul_probe_add_device(struct mmul_probe *probe, const struct mmul_device_info *device);

// Adds a line about a driver that is not used. Ignores lines beyond 64.
enum mmul_status mmul_probe_add_warning(struct mmul_probe *probe, const char *line,
                                        struct mmul_error *err);

// Returns true if only the devices that `auto` chooses are wanted.
bool mmul_probe_is_automatic(const struct mmul_probe_options *options);
