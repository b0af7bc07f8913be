// SPDX-License-Identifier: MIT
// Every operation but products in the plainest way, on buffers in host memory: what `reference` computes, and
// what other devices in host memory do of what they have nothing faster for. Fails with MMUL_ERR_SYSTEM.
#pragma once

#include "device/map.h"

enum mmul_status mmul_reference_map(void *self, const struct mmul_map *map, struct mmul_error *err);

// Fills in map->carried, where it is wanted, from what is in host memory.
void mmul_reference_carry(const struct mmul_map *map);
