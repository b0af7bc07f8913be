// SPDX-License-Identifier: MIT
// The header of the 4D .bin format (mpimatmul-files.5.md). Pure: converts bytes to numbers and
// back, without access to files.
#pragma once

#include "mpimatmul_local.h"

enum { MMUL_BIN_HEADER_BYTES = 20 }; // longest, and the only one written

struct mmul_bin_header {
    struct mmul_shape shape;
    enum mmul_dtype dtype;
    int version;          // 1 or 2
    int64_t header_bytes; // 12, 16 or 20: data starts here
};

// Returns true if the first number is one of a .bin file.
bool mmul_is_bin(const unsigned char *bytes, size_t count);

// Reads a header from the first `count` bytes of file `name`: 20 bytes, or the whole file if it is
// shorter. Sizes of 0 are accepted for rows and cols if `empty_allowed` (shards). Fails with
// MMUL_ERR_DATA.
enum mmul_status mmul_bin_header_parse(const unsigned char *bytes, size_t count, const char *name,
                                       bool empty_allowed, struct mmul_bin_header *header,
                                       struct mmul_error *err);

// Writes a header of 20 bytes. Fails with MMUL_ERR_DATA if a size does not fit int32. `name` is for
// the error text.
enum mmul_status mmul_bin_header_format(struct mmul_shape shape, enum mmul_dtype dtype, int version,
                                        const char *name,
                                        unsigned char bytes[static MMUL_BIN_HEADER_BYTES],
                                        struct mmul_error *err);
