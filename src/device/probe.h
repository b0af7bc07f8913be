// SPDX-License-Identifier: MIT
//
// What a look at the machine's devices has found so far: the `probe` entries of the device table add
// to it, in the order of the registry. A kind looks in a child process where its driver could crash
// or hang, and warns of what it leaves out.
#pragma once

#include "mpimatmul_local.h"

// A device that the machine has; its `probed` is set here. Beyond 128 they are left out.
void mmul_probe_add_device(struct mmul_probe *probe, const struct mmul_device_info *device);

// A line about a driver that is not used. Beyond 64 they are left out.
enum mmul_status mmul_probe_add_warning(struct mmul_probe *probe, const char *line,
                                        struct mmul_error *err);

// Whether nothing is wanted but what `auto` chooses.
bool mmul_probe_is_automatic(const struct mmul_probe_options *options);
