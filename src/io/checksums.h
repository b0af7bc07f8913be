// SPDX-License-Identifier: MIT
// Checksums in the metadata of .safetensors files. "xxh3:NAME" covers the elements of a tensor.
// "xxh3" covers all names and checksums in order, and the other texts. XXH3 of 64 bits, as 16
// hexadecimal digits. A file that mixes a header and elements of different versions fails
// mmul_tensors_check.
#pragma once

#include "mpimatmul_local.h"

struct json_t;

struct mmul_tensor_checksum {
    const char *name; // tensor's name, borrowed
    uint64_t hash;    // XXH3 of its elements as they lie in the file
};

// Computes the checksum of `bytes` bytes of a file from `offset` on. Returns 0 or errno, EIO if the
// file ends before.
int mmul_checksum_compute(int fd, int64_t offset, int64_t bytes, uint64_t *hash);

// Adds the checksums of `count` tensors, in their order in the file, to a copy of `texts` (an
// object, borrowed; NULL: none). The caller owns *made (json_decref). Fails with MMUL_ERR_SYSTEM,
// and with MMUL_ERR_USAGE if a name is not UTF-8.
enum mmul_status mmul_checksums_add(struct json_t *texts,
                                    const struct mmul_tensor_checksum *checked, int count,
                                    struct json_t **made, struct mmul_error *err);
