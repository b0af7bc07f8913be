// SPDX-License-Identifier: MIT
// Tells whether two machines see the same file. Compares the length, at most the first 64 KiB of
// the part before the elements, and 64 blocks of 4 KiB spread over the elements; all of them if
// they take at most 256 KiB. Modification times are ignored. Two unrelated files are told apart. A
// change between the blocks is not noticed, nor is a file that is still being written.
#pragma once

#include "mpimatmul_local.h"

// Position of the elements in a file.
struct mmul_file_range {
    int64_t begin, end;
};

struct mmul_fingerprint {
    int64_t file_bytes;
    uint64_t hash; // XXH3 of the first bytes and the blocks
};

// Computes the fingerprint of an open regular file. `seed` determines the blocks within `part`.
// Fails with MMUL_ERR_NO_INPUT (naming `name`) and MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_fingerprint_compute(int fd, const char *name, struct mmul_file_range part,
                                          uint64_t seed, struct mmul_fingerprint *fingerprint,
                                          struct mmul_error *err);

// Opens `path` for reading and compares its fingerprint. *fd is set if it is a regular file with
// the expected one. Fails with MMUL_ERR_NO_INPUT: missing, unreadable, or another file.
enum mmul_status mmul_fingerprint_open(const char *path, struct mmul_file_range part, uint64_t seed,
                                       const struct mmul_fingerprint *expected, int *fd,
                                       struct mmul_error *err);
