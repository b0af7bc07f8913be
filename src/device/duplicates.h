// SPDX-License-Identifier: MIT
// A card that two OpenCL platforms report is one device.
#pragma once

#include "mpimatmul_local.h"

// Clears `usable` of every usable device in `devices` (count of them, clinfo's order, ids "P:D")
// that appeared earlier on another platform, and names the other in `reason`. Two devices are the
// same card if their PCI addresses are equal. If either address is unknown, the k-th device of a
// name on one platform is the k-th of that name on the other. Devices of one platform are never the
// same card.
void mmul_mark_duplicates(struct mmul_device_info *devices, int count);
