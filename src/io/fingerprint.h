// SPDX-License-Identifier: MIT
// Tells whether two machines see the same file. Compares its length, the first 64 KiB before the
// elements, and 64 blocks of 4 KiB spread over the elements. Times of files are ignored. Elements
// of at most 256 KiB are compared whole. In larger ones a change between the blocks is missed. So
// different files are detected, but not a file that is being written.
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

// Computes the fingerprint of an open regular file. `seed` chooses the blocks of the part. Fails
// with MMUL_ERR_NO_INPUT (naming `name`) and MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_fingerprint_compute(int fd, const char *name, struct mmul_file_range part,
                                          uint64_t seed, struct mmul_fingerprint *fingerprint,
                                          struct mmul_error *err);

// Opens `path` for reading and compares its fingerprint. *fd is set if it is a regular file with
// the expected one. Fails with MMUL_ERR_NO_INPUT: missing, unreadable, or another file.
enum mmul_status mmul_fingerprint_open(const char *path, struct mmul_file_range part, uint64_t seed,
                                       const struct mmul_fingerprint *expected, int *fd,
                                       struct mmul_error *err);
