// SPDX-License-Identifier: MIT
//
// One card seen through two OpenCL platforms is one device.
#pragma once

#include "mpimatmul_local.h"

// Goes through `devices` (count of them, clinfo's order, ids "P:D") and takes `usable` from every
// one that is a usable device seen before on another platform; `reason` names the other. The same
// card: equal PCI addresses; where one of the two is unknown, the k-th device of a name on
// its platform is the k-th device of that name on the other. Devices of one platform are never the
// same card.
void mmul_mark_duplicates(struct mmul_device_info *devices, int count);
