// SPDX-License-Identifier: MIT
// The header of a .npy file (numpy.lib.format, versions 1.0 to 3.0). Pure: converts bytes to
// numbers and back. Legal shapes: (c,), read as one row 1 x c as numpy broadcasts it; (r,c);
// (d,r,c); (b,d,r,c). A file without dimensions is 1 x 1. More than four dimensions are refused,
// and sizes of 0 outside shards.
#pragma once

#include "mpimatmul_local.h"

enum {
    MMUL_NPY_MAGIC_BYTES = 6,
    MMUL_NPY_PREFIX_BYTES = 12,    // enough to compute the header's length
    MMUL_NPY_HEADER_MAX = 1 << 16, // longest that is read
    MMUL_NPY_WRITTEN_MAX = 256,    // longest that is written
};

extern const unsigned char mmul_npy_magic[MMUL_NPY_MAGIC_BYTES]; // first bytes of a file

struct mmul_npy_header {
    struct mmul_shape shape;
    enum mmul_dtype dtype; // any of ours that numpy has: all but bfloat16
    int version;           // major
    int dimensions;        // 1 to 4
    bool fortran_order, big_endian;
};

// Computes the length of the header, prefix included; the data starts there. `bytes` holds the
// first `count` bytes of file `name`: 12, or the whole file if shorter. Fails with MMUL_ERR_DATA,
// also if the length exceeds MMUL_NPY_HEADER_MAX.
enum mmul_status mmul_npy_header_bytes(const unsigned char *bytes, size_t count, const char *name,
                                       size_t *header_bytes, struct mmul_error *err);

// Reads the header, exactly header_bytes bytes. Evaluates nothing: accepts the one dict literal
// that numpy writes, with keys in any order. Sizes of 0 are accepted for a matrix (r,c) if
// `empty_allowed` (shards). Fails with MMUL_ERR_DATA.
enum mmul_status mmul_npy_parse(const unsigned char *bytes, size_t header_bytes, const char *name,
                                bool empty_allowed, struct mmul_npy_header *header,
                                struct mmul_error *err);

// Reads a type as numpy writes it, byte order first: "<f4". Returns false if the type is not read.
bool mmul_npy_type(const char *descr, enum mmul_dtype *dtype, bool *is_big);

struct mmul_tensor_entry;

// Reads any type and sizes of a header, as far as the entry has room. A type that is not read keeps
// its name from the file. Fails with MMUL_ERR_DATA: invalid header, or more dimensions than an
// entry has.
enum mmul_status mmul_npy_describe(const unsigned char *bytes, size_t header_bytes,
                                   const char *name, struct mmul_tensor_entry *entry,
                                   struct mmul_error *err);

// Writes a version 1.0 header, C order, padded to 64 bytes, and returns its length. The shape has
// the last `dimensions` (1 to 4) sizes. 0: leading sizes of 1 are left out, down to two dimensions.
// dtype is one of those that mmul_npy_header can hold.
size_t mmul_npy_format(struct mmul_shape shape, int dimensions, enum mmul_dtype dtype,
                       unsigned char bytes[static MMUL_NPY_WRITTEN_MAX]);
