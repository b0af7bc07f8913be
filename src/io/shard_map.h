// SPDX-License-Identifier: MIT
// A shard used in place: mapped, with its elements in C order. The caller checks the folder before
// (io/shard_folder.h).
#pragma once

#include "mpimatmul_local.h"

struct mmul_shard_map {
    void *mapping; // NULL: not open
    int64_t mapped_bytes;
    char *elements;           // behind the header
    int fd;                   // owned
    char *name;               // owned
    struct mmul_guard *guard; // owned; only if opened for reading
    int64_t changed_ns;       // change time as of opening; only if opened for reading
};

// Maps the shard `path` of this shape (sizes of 0 are legal) and type. `writable`: a shard that is
// being made, under its temporary name. Fails with MMUL_ERR_NO_INPUT (missing, a symbolic link, not
// ours), MMUL_ERR_DATA (not such a shard; the text gives expected and found) and MMUL_ERR_SYSTEM.
enum mmul_status mmul_shard_map_open(const char *path, struct mmul_shape shape,
                                     enum mmul_dtype dtype, bool writable,
                                     struct mmul_shard_map *map, struct mmul_error *err);

// Unmaps and closes the shard. {0} is legal.
void mmul_shard_map_close(struct mmul_shard_map *map);

// Returns XXH3 of the file's present content, header included.
uint64_t mmul_shard_map_hash(const struct mmul_shard_map *map);

// Returns the last change of the file or its metadata, in nanoseconds of the kernel's clock. Users
// can set back the time of the last write, but not this one. 0: not known.
int64_t mmul_shard_changed_ns(int fd);

// Checks that a shard opened for reading was present and unchanged since then. Fails with
// MMUL_ERR_DATA.
enum mmul_status mmul_shard_map_check(const struct mmul_shard_map *map, struct mmul_error *err);
