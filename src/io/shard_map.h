// SPDX-License-Identifier: MIT
//
// A shard that is used where it lies: mapped, its elements in C order. Whoever opens one has its folder checked
// before (io/shard_folder.h).
#pragma once

#include "mpimatmul_local.h"

struct mmul_shard_map {
    void *mapping; // NULL: not open
    int64_t mapped_bytes;
    char *elements;           // behind the header
    int fd;                   // owned
    char *name;               // owned
    struct mmul_guard *guard; // owned; of one that is read
    int64_t changed_ns;       // of one that is read: when it was opened
};

// Maps the shard `path`, of this shape (sizes of 0 are legal) and type. writable: one that is being made, under its
// temporary name. Fails with MMUL_ERR_NO_INPUT (missing, a symbolic link, not ours), MMUL_ERR_DATA (not such a
// shard; expected and found in the text), MMUL_ERR_SYSTEM.
enum mmul_status mmul_shard_map_open(const char *path, struct mmul_shape shape,
                                     enum mmul_dtype dtype, bool writable,
                                     struct mmul_shard_map *map, struct mmul_error *err);

// {0} is legal.
void mmul_shard_map_close(struct mmul_shard_map *map);

// XXH3 of the file as it is now, header and all.
uint64_t mmul_shard_map_hash(const struct mmul_shard_map *map);

// When the file, or what is known of it, was last changed: nanoseconds of the kernel's clock, which nobody can
// set back, as they can what a file says of its last writing. 0: not known.
int64_t mmul_shard_changed_ns(int fd);

// Of one that was read: has it been there, unchanged, since it was opened? Fails with MMUL_ERR_DATA.
enum mmul_status mmul_shard_map_check(const struct mmul_shard_map *map, struct mmul_error *err);
