// SPDX-License-Identifier: MIT
//
// Do two machines see the same file? Its length, its header and 64 blocks of 4 KiB spread over its
// elements, without reading the rest and whatever its times are. Files of at most 256 KiB are
// compared whole. In larger ones a change that meets no block goes unnoticed, so this tells files
// that are the same from files that are not, but not from files that somebody is writing.
#pragma once

#include "mpimatmul_local.h"

struct mmul_fingerprint {
    int64_t file_bytes;
    uint64_t hash; // XXH3 of header and blocks
};

// Of an open regular file; `seed` chooses the blocks, elements begin at `header_bytes`. Fails with
// MMUL_ERR_NO_INPUT (naming `name`) and MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_fingerprint_take(int fd, const char *name, int64_t header_bytes,
                                       uint64_t seed, struct mmul_fingerprint *fingerprint,
                                       struct mmul_error *err);

// Opens `path` and compares: *fd is open for reading when it is a regular file with that
// fingerprint. Fails with MMUL_ERR_NO_INPUT: missing, unreadable, or another file.
enum mmul_status mmul_fingerprint_open(const char *path, int64_t header_bytes, uint64_t seed,
                                       const struct mmul_fingerprint *expected, int *fd,
                                       struct mmul_error *err);
