// SPDX-License-Identifier: MIT
// What the JSON beside shards says: how the whole was cut, so that it can be put together again.
#pragma once

#include "mpimatmul_local.h"

struct mmul_shard_set {
    enum mmul_axis axis;
    struct mmul_shape shape; // of the whole
    enum mmul_dtype dtype;   // of the shards and of the whole
    int parts;
    int64_t *offsets; // owned, parts + 1, along the axis: rows of all matrices, or columns
    uint64_t *hashes; // owned, parts: XXH3 of the shard files
    bool has_hashes;
};

// A set of `parts` (1 to MMUL_SHARDS_MAX, else MMUL_ERR_USAGE) with everything else zero.
enum { MMUL_SHARDS_MAX = 1 << 20 };
enum mmul_status mmul_shard_set_create(int parts, struct mmul_shard_set **set,
                                       struct mmul_error *err);
void mmul_shard_set_destroy(struct mmul_shard_set *set);

// How much there is to cut along an axis: batch * depth * rows, or cols.
int64_t mmul_shard_axis_length(struct mmul_shape shape, enum mmul_axis axis);

// The shape of one part: [1, 1, rows, cols], either of which may be 0.
struct mmul_shape mmul_shard_shape(const struct mmul_shard_set *set, int part);

// Writes <folder>/<name>_shards.json. Fails with MMUL_ERR_CREATE or MMUL_ERR_IO.
enum mmul_status mmul_shard_set_store(const struct mmul_shard_set *set, const char *folder,
                                      const char *name, struct mmul_error *err);

// Reads it back and checks every value. Fails with MMUL_ERR_NO_INPUT or MMUL_ERR_DATA.
enum mmul_status mmul_shard_set_load(const char *path, struct mmul_shard_set **set,
                                     struct mmul_error *err);
