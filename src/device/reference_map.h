// SPDX-License-Identifier: MIT
// Every operation except products as plain loops on buffers in host memory. The device `reference`
// uses it, and other devices in host memory use it as a fallback. Fails with MMUL_ERR_SYSTEM.
#pragma once

#include "device/map.h"

enum mmul_status mmul_reference_map(void *self, const struct mmul_map *map, struct mmul_error *err);

// Computes map->carried, if wanted, from the result in host memory.
void mmul_reference_compute_checksum(const struct mmul_map *map);
