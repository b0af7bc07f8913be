// SPDX-License-Identifier: MIT
// What the JSON beside shards says: how the whole was cut, so that it can be put together again.
#pragma once

#include "mpimatmul_local.h"

// Who has kept a set, where: a job whose rank i has left shard i on its machine.
enum { MMUL_SHARD_HOST_BYTES = 64 };
struct mmul_shard_keeping {
    uint64_t job;      // another one for every job
    bool is_whole;     // else that job was stopped while it put the shards in their place
    bool has_integers; // the elements are whole numbers
    bool has_bools;    // the elements are 0 and 1, of bools
    int64_t *
        changed_ns; // owned, parts: of the shards, as their machines' kernels have it (io/shard_map.h)
    double *weights;                      // owned, parts: of the ranks
    char (*hosts)[MMUL_SHARD_HOST_BYTES]; // owned, parts
};

struct mmul_shard_set {
    enum mmul_axis axis;
    struct mmul_shape shape; // of the whole
    enum mmul_dtype dtype;   // of the shards and of the whole
    int parts;
    int64_t *offsets; // owned, parts + 1, along the axis: rows of all matrices, or columns
    uint64_t *hashes; // owned, parts: XXH3 of the shard files
    bool has_hashes;
    struct mmul_shard_keeping *kept; // owned; NULL: not by a job, but by split
};

// A set of `parts` (1 to MMUL_SHARDS_MAX, else MMUL_ERR_USAGE) with everything else zero.
enum { MMUL_SHARDS_MAX = 1 << 20 };
enum mmul_status mmul_shard_set_create(int parts, struct mmul_shard_set **set,
                                       struct mmul_error *err);

// Makes it one of a job's, with everything zero. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_shard_set_add_keeping(struct mmul_shard_set *set, struct mmul_error *err);

// Fails with MMUL_ERR_DATA: it is half-written.
enum mmul_status mmul_shard_set_check_whole(const struct mmul_shard_set *set, const char *name,
                                            struct mmul_error *err);
void mmul_shard_set_destroy(struct mmul_shard_set *set);

// How much there is to cut along an axis: batch * depth * rows, or cols.
int64_t mmul_shard_axis_length(struct mmul_shape shape, enum mmul_axis axis);

// The shape of one part: [1, 1, rows, cols], either of which may be 0.
struct mmul_shape mmul_shard_shape(const struct mmul_shard_set *set, int part);

// Writes <folder>/<name>_shards.json. Fails with MMUL_ERR_CREATE or MMUL_ERR_IO.
enum mmul_status mmul_shard_set_store(const struct mmul_shard_set *set, const char *folder,
                                      const char *name, struct mmul_error *err);

// What follows "kept:" in a name, as a temporary file without a name, of the shards' format. Fails as mmul_join,
// and with MMUL_ERR_CREATE (a folder that is not to be trusted). shards.c.
enum mmul_status mmul_kept_open_file(const char *kept, int *fd, struct mmul_error *err);

// The set `name` of a folder that is to be trusted, where ranks may use it: whole, float32 or float64, rows of
// all its matrices or columns of one. description: checksum of what describes it. Fails with MMUL_ERR_NO_INPUT
// (none), MMUL_ERR_USAGE (no name), MMUL_ERR_CREATE (the folder), MMUL_ERR_DATA (half-written, or not so).
enum mmul_status mmul_shard_set_find(const char *folder, const char *name,
                                     struct mmul_shard_set **set, uint64_t *description,
                                     struct mmul_error *err);

// Reads it back and checks every value. Fails with MMUL_ERR_NO_INPUT or MMUL_ERR_DATA.
enum mmul_status mmul_shard_set_load(const char *path, struct mmul_shard_set **set,
                                     struct mmul_error *err);
