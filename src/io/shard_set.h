// SPDX-License-Identifier: MIT
// The JSON description beside shards: how the whole was cut, so that shards can be joined again.
#pragma once

#include "mpimatmul_local.h"

// A set kept by a job, in which rank i left shard i on its machine.
enum { MMUL_SHARD_HOST_BYTES = 64 };
struct mmul_persistent_shards {
    uint64_t job;      // different for every job
    bool is_whole;     // false: the job was stopped while it replaced shards
    bool has_integers; // the elements are whole numbers
    bool has_bools;    // the elements are bools, 0 and 1
    // Owned, `parts` of them: change times of the shards, as their machines' kernels report them
    // (io/shard_map.h).
    int64_t *changed_ns;
    double *weights;                      // owned, `parts` of them: weights of the ranks
    char (*hosts)[MMUL_SHARD_HOST_BYTES]; // owned, `parts` of them
};

struct mmul_shard_set {
    enum mmul_axis axis;
    struct mmul_shape shape; // shape of the whole
    enum mmul_dtype dtype;   // type of the shards and the whole
    int parts;
    // Owned, parts + 1 of them, along the axis: rows of all matrices, or columns.
    int64_t *offsets;
    uint64_t *hashes; // owned, `parts` of them: XXH3 of the shard files
    bool has_hashes;
    struct mmul_persistent_shards *kept; // owned; NULL: made by split, not kept by a job
};

// Creates a set of `parts` shards (1 to MMUL_SHARDS_MAX, else MMUL_ERR_USAGE), everything else
// zero.
enum { MMUL_SHARDS_MAX = 1 << 20 };
enum mmul_status mmul_shard_set_create(int parts, struct mmul_shard_set **set,
                                       struct mmul_error *err);

// Makes it a set kept by a job, with everything zero. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_shard_set_make_persistent(struct mmul_shard_set *set, struct mmul_error *err);

// Fails with MMUL_ERR_DATA if the set is half-written.
enum mmul_status mmul_shard_set_check_whole(const struct mmul_shard_set *set, const char *name,
                                            struct mmul_error *err);
void mmul_shard_set_destroy(struct mmul_shard_set *set);

// Returns the length to cut along an axis: batch * depth * rows, or cols.
int64_t mmul_shard_axis_length(struct mmul_shape shape, enum mmul_axis axis);

// Returns the shape of one part: [1, 1, rows, cols], either of which may be 0.
struct mmul_shape mmul_shard_shape(const struct mmul_shard_set *set, int part);

// Writes <folder>/<name>_shards.json. Fails with MMUL_ERR_CREATE or MMUL_ERR_IO.
enum mmul_status mmul_shard_set_store(const struct mmul_shard_set *set, const char *folder,
                                      const char *name, struct mmul_error *err);

// Joins the kept set `kept` (the part after "kept:" in a name) into an unnamed temporary file in
// the shards' format. Fails as mmul_join does, and with MMUL_ERR_CREATE if the folder is not
// trusted. Defined in split_join.c.
enum mmul_status mmul_persistent_join_file(const char *kept, int *fd, struct mmul_error *err);

// Finds the description of the set `name` in a trusted folder. *path is NULL, or released with
// mmul_free, after failure too. Fails with MMUL_ERR_NO_INPUT (no such set), MMUL_ERR_USAGE (invalid
// name), MMUL_ERR_CREATE (the folder) and MMUL_ERR_SYSTEM.
enum mmul_status mmul_shard_set_find_path(const char *folder, const char *name, char **path,
                                          struct mmul_error *err);

// Finds the set `name` in a trusted folder, for use by ranks. It must be complete, float32 or
// float64, and cut into rows of all its matrices or columns of one. *description: checksum of its
// description. Fails as mmul_shard_set_find_path does, and with MMUL_ERR_DATA (half-written, or not
// usable).
enum mmul_status mmul_shard_set_find(const char *folder, const char *name,
                                     struct mmul_shard_set **set, uint64_t *description,
                                     struct mmul_error *err);

// Reads a description and checks every value. Fails with MMUL_ERR_NO_INPUT or MMUL_ERR_DATA.
enum mmul_status mmul_shard_set_load(const char *path, struct mmul_shard_set **set,
                                     struct mmul_error *err);
