// SPDX-License-Identifier: MIT
// The sets of shards in a folder, with what stopped jobs have left there.
#pragma once

#include "mpimatmul_local.h"

struct mmul_shard_entry {
    char name[256];
    int shards;         // files of the set that are here
    int64_t bytes;      // of these
    int64_t left_bytes; // of files under temporary names
    bool is_described;  // by a description that can be read: what follows is known
    bool is_kept, is_whole;
    struct mmul_shape shape;
    enum mmul_dtype dtype;
    enum mmul_axis axis;
    int parts;
};

// By name; *entries is released with mmul_free. A folder that is missing has none. Fails with MMUL_ERR_CREATE (one that
// is not to be trusted), MMUL_ERR_NO_INPUT, MMUL_ERR_SYSTEM.
enum mmul_status mmul_shard_list(const char *folder, struct mmul_shard_entry **entries, int *count,
                                 struct mmul_error *err);

// Removes what an earlier set of this name, of more parts or another type, has left: shards from number `parts` on, and
// those that are of another format than `format`. Also removes temporary files of jobs that were killed. No rank may be
// writing a description of the set. Fails as mmul_shard_remove.
enum mmul_status mmul_shard_remove_surplus(const char *folder, const char *name, int parts,
                                           enum mmul_format format, struct mmul_error *err);

// Removes a set, description first, and what was left of it; *removed: how many files. Temporary files of a job that
// runs stay. Fails as mmul_shard_list, and with MMUL_ERR_IO.
enum mmul_status mmul_shard_remove(const char *folder, const char *name, int *removed,
                                   struct mmul_error *err);
