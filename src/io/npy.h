// SPDX-License-Identifier: MIT
// The header of a .npy file (numpy.lib.format, versions 1.0 to 3.0). Pure: bytes to numbers and
// back. Shapes: (c,) is one row 1 x c, as numpy's broadcasting reads it; (r,c); (d,r,c);
// (b,d,r,c). No dimension is 1 x 1. More than four, and sizes of 0 (but of shards) are refused.
#pragma once

#include "mpimatmul_local.h"

enum {
    MMUL_NPY_MAGIC_BYTES = 6,
    MMUL_NPY_PREFIX_BYTES = 12,    // enough to know how long the header is
    MMUL_NPY_HEADER_MAX = 1 << 16, // longest that is read
    MMUL_NPY_WRITTEN_MAX = 256,    // longest that is written
};

extern const unsigned char mmul_npy_magic[MMUL_NPY_MAGIC_BYTES]; // a file begins with it

struct mmul_npy_header {
    struct mmul_shape shape;
    enum mmul_dtype dtype; // what numpy has of ours: all but bfloat16
    int version;           // major
    int dimensions;        // 1 to 4
    bool fortran_order, big_endian;
};

// Length of the header, prefix included: data starts there. `bytes` holds `count` bytes of file
// `name`, 12 or as many as it has. Fails with MMUL_ERR_DATA (length beyond MMUL_NPY_HEADER_MAX).
enum mmul_status mmul_npy_header_bytes(const unsigned char *bytes, size_t count, const char *name,
                                       size_t *header_bytes, struct mmul_error *err);

// Reads the header: exactly header_bytes bytes. Nothing in it is evaluated: the one dict literal
// that numpy writes is accepted, keys in any order, and nothing else. Sizes of 0 are accepted of a
// matrix (r,c) when `empty_allowed` (shards). Fails with MMUL_ERR_DATA.
enum mmul_status mmul_npy_parse(const unsigned char *bytes, size_t header_bytes, const char *name,
                                bool empty_allowed, struct mmul_npy_header *header,
                                struct mmul_error *err);

// A type as numpy writes it, with its byte order first: "<f4". False: it is not read.
bool mmul_npy_type(const char *descr, enum mmul_dtype *dtype, bool *is_big);

struct mmul_tensor_entry;

// Type and sizes of the same, whatever they are: a type that is not read is named as the file has it. Fails
// with MMUL_ERR_DATA: no valid header, or more sizes than an entry has.
enum mmul_status mmul_npy_describe(const unsigned char *bytes, size_t header_bytes,
                                   const char *name, struct mmul_tensor_entry *entry,
                                   struct mmul_error *err);

// Writes a version 1.0 header, C order, padded to 64 bytes, of the last `dimensions` (1 to 4) sizes;
// 0: without leading sizes of 1, but 2.
// dtype is one of those above. Returns its length.
size_t mmul_npy_format(struct mmul_shape shape, int dimensions, enum mmul_dtype dtype,
                       unsigned char bytes[static MMUL_NPY_WRITTEN_MAX]);
