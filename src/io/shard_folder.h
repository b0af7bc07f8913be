// SPDX-License-Identifier: MIT
// Paths of shards: <folder>/<name>_shard_<i>.bin, or .npy for types that .bin cannot hold, with
// <folder>/<name>_shards.json beside them.
#pragma once

#include "mpimatmul_local.h"

// Creates the folder with mode 0700 if it is missing, but not its parent. Fails with
// MMUL_ERR_CREATE if it is a symbolic link, no folder, not ours, or writable by others.
enum mmul_status mmul_shard_folder_create(const char *folder, struct mmul_error *err);

// Checks an existing folder in the same way. A missing one fails with MMUL_ERR_NO_INPUT.
enum mmul_status mmul_shard_folder_check(const char *folder, struct mmul_error *err);

// Splits the part after "kept:" into folder and name. *folder is NULL, or released with mmul_free.
// *name points into `kept`. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_persistent_split_name(const char *kept, char **folder, const char **name,
                                            struct mmul_error *err);

// Checks that the name of a set is a plain file name. Fails with MMUL_ERR_USAGE (empty, '/', "." or
// "..").
enum mmul_status mmul_shard_name_check(const char *name, struct mmul_error *err);

// Returns the length of `text`, given as `length` bytes, without "_shard_<digits>" at the end.
size_t mmul_shard_stem_length(const char *text, size_t length);

// Returns the format of shards of this type.
enum mmul_format mmul_shard_format(enum mmul_dtype dtype);

// Make heap-allocated paths, released with mmul_free. Fail with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_shard_path(const char *folder, const char *name, int part,
                                 enum mmul_format format, char **path, struct mmul_error *err);
enum mmul_status mmul_shard_set_path(const char *folder, const char *name, char **path,
                                     struct mmul_error *err);

// Computes XXH3 of a whole file, header included, as `xxhsum -H3` prints it. Fails with
// MMUL_ERR_NO_INPUT, MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_shard_hash(const char *path, uint64_t *hash, struct mmul_error *err);
