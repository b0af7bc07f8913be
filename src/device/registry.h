// SPDX-License-Identifier: MIT
// All device kinds, for code that iterates over them. Only this folder includes this header.
#pragma once

#include "device/device.h"

// Longest device name: leaves room to replace "cpu" by "reference" in a name of 128 characters.
enum { MMUL_DEVICE_NAME_MAX = 120 };

// Returns the index-th kind, or NULL at the end of the list.
const struct mmul_device_table *mmul_device_kind(int index);

// Returns true if a device of this kind may satisfy the request `request`: a name, "gpu", part of a
// name, ...; NULL: any device.
bool mmul_device_may_match(const char *request, const struct mmul_device_table *table);
