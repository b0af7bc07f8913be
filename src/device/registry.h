// SPDX-License-Identifier: MIT
//
// All kinds of device, for those that ask each of them. Nothing outside this folder includes this
// header.
#pragma once

#include "device/device.h"

// Longest device name: leaves room for "reference" in place of "cpu" in a name of 128 characters.
enum { MMUL_DEVICE_NAME_MAX = 120 };

// The index-th kind; NULL: there are no more.
const struct mmul_device_table *mmul_device_kind(int index);

// Whether a wish (a name, "gpu", part of a name, ...; NULL: whatever there is) may be met by a device
// of this kind.
bool mmul_device_may_be(const char *wish, const struct mmul_device_table *table);
