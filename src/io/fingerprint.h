// SPDX-License-Identifier: MIT
//
// Do two machines see the same file? Its length, the first 64 KiB of what stands before the elements, and
// 64 blocks of 4 KiB spread over these, without reading the rest and whatever its times are. Elements of at
// most 256 KiB are
// compared whole. In larger ones a change that meets no block goes unnoticed, so this tells files
// that are the same from files that are not, but not from files that somebody is writing.
#pragma once

#include "mpimatmul_local.h"

// Where in a file the elements lie that are to be used.
struct mmul_file_part {
    int64_t begin, end;
};

struct mmul_fingerprint {
    int64_t file_bytes;
    uint64_t hash; // XXH3 of the first bytes and the blocks
};

// Of an open regular file; `seed` chooses the blocks of the part. Fails with MMUL_ERR_NO_INPUT (naming
// `name`) and MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_fingerprint_take(int fd, const char *name, struct mmul_file_part part,
                                       uint64_t seed, struct mmul_fingerprint *fingerprint,
                                       struct mmul_error *err);

// Opens `path` and compares: *fd is open for reading when it is a regular file with that
// fingerprint. Fails with MMUL_ERR_NO_INPUT: missing, unreadable, or another file.
enum mmul_status mmul_fingerprint_open(const char *path, struct mmul_file_part part, uint64_t seed,
                                       const struct mmul_fingerprint *expected, int *fd,
                                       struct mmul_error *err);
