// SPDX-License-Identifier: MIT
// The sets of shards in a folder, and the leftovers of stopped jobs.
#pragma once

#include "mpimatmul_local.h"

struct mmul_shard_entry {
    char name[256];
    int shards;         // files of the set that are here
    int64_t bytes;      // size of these files
    int64_t left_bytes; // size of files under temporary names
    bool is_described;  // a valid description exists: the fields below are set
    bool is_kept, is_whole;
    struct mmul_shape shape;
    enum mmul_dtype dtype;
    enum mmul_axis axis;
    int parts;
};

// Lists the sets, sorted by name. *entries is released with mmul_free. A missing folder has no
// sets. Fails with MMUL_ERR_CREATE (the folder is not trusted), MMUL_ERR_NO_INPUT, MMUL_ERR_SYSTEM.
enum mmul_status mmul_shard_list(const char *folder, struct mmul_shard_entry **entries, int *count,
                                 struct mmul_error *err);

// Removes leftovers of an earlier set of this name: shards from number `parts` on, and shards of
// another format than `format`. Also removes temporary files of killed jobs. No rank may be writing
// a description of the set meanwhile. Fails as mmul_shard_remove does.
enum mmul_status mmul_shard_remove_surplus(const char *folder, const char *name, int parts,
                                           enum mmul_format format, struct mmul_error *err);

// Removes a set, description first, with all its leftovers. *removed: number of files. Temporary
// files of a running job stay. Fails as mmul_shard_list does, and with MMUL_ERR_IO.
enum mmul_status mmul_shard_remove(const char *folder, const char *name, int *removed,
                                   struct mmul_error *err);
