// SPDX-License-Identifier: MIT
// Where shards lie and what they are called: <folder>/<name>_shard_<i>.bin, .npy of types that a .bin has
// not, with <folder>/<name>_shards.json beside them.
#pragma once

#include "mpimatmul_local.h"

// Makes the folder with mode 0700 when it is missing (its parent is not made). Fails with
// MMUL_ERR_CREATE when it is a symbolic link, no folder, not ours, or others can write to it.
enum mmul_status mmul_shard_folder_create(const char *folder, struct mmul_error *err);

// The same of a folder that is to be there: one that is missing is MMUL_ERR_NO_INPUT.
enum mmul_status mmul_shard_folder_check(const char *folder, struct mmul_error *err);

// Folder and name of what follows "kept:"; *folder is NULL, or released with mmul_free, and *name points into
// `kept`. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_kept_address(const char *kept, char **folder, const char **name,
                                   struct mmul_error *err);

// The name of a set is a plain file name. Fails with MMUL_ERR_USAGE (empty, '/', "." or "..").
enum mmul_status mmul_shard_name_check(const char *name, struct mmul_error *err);

// The format of shards of this type.
enum mmul_format mmul_shard_format(enum mmul_dtype dtype);

// Heap-allocated paths, released with mmul_free. Fail with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_shard_path(const char *folder, const char *name, int part,
                                 enum mmul_format format, char **path, struct mmul_error *err);
enum mmul_status mmul_shard_set_path(const char *folder, const char *name, char **path,
                                     struct mmul_error *err);

// XXH3 of a whole file, header and all, as `xxhsum -H3` prints it. Fails with MMUL_ERR_NO_INPUT,
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_shard_hash(const char *path, uint64_t *hash, struct mmul_error *err);
