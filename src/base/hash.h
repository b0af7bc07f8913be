// SPDX-License-Identifier: MIT
// Checksums: XXH3 (xxHash), 64 bits. Equal to the output of `xxhsum -H3` for the same bytes.
#pragma once

#include "mpimatmul_local.h"

uint64_t mmul_hash(const void *bytes, size_t count);

// Computes the same checksum, fed in pieces. Fails with MMUL_ERR_SYSTEM (memory).
struct mmul_hasher;
enum mmul_status mmul_hasher_create(struct mmul_hasher **hasher, struct mmul_error *err);
void mmul_hasher_add(struct mmul_hasher *hasher, const void *bytes, size_t count);
uint64_t mmul_hasher_value(const struct mmul_hasher *hasher);
void mmul_hasher_destroy(struct mmul_hasher *hasher);
