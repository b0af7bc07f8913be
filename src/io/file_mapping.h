// SPDX-License-Identifier: MIT
// Matrices that can be used in place, without reading or writing: their bytes are the elements, in
// this machine's byte order. All others go through mmul_matrix_read and mmul_output_write.
#pragma once

#include "mpimatmul_local.h"

struct mmul_extent {
    void *memory;          // borrowed, not written to for an input; NULL: in a file
    int fd;                // the file's, borrowed; an output's is write-only
    const char *path;      // path of an input's file, borrowed
    int64_t offset, bytes; // range of the elements in the file
    int64_t modified_ns;   // last write to an input, as of opening
    bool has_shared_lock;  // an output's, for every process that maps it
};

// Returns true, with *extent, if the matrix can be used in place. It must be stored in C order, as
// `dtype`, and in this machine's byte order. Its address must be a multiple of the element size,
// and its file system must map files.
bool mmul_matrix_extent(const struct mmul_matrix *matrix, enum mmul_dtype dtype,
                        struct mmul_extent *extent);

// Returns true, with *extent, if the output can be written in place as `dtype`. A file needs its
// space reserved, so that writing to a mapping cannot run out of space.
bool mmul_output_extent(const struct mmul_output *output, enum mmul_dtype dtype,
                        struct mmul_extent *extent);

// Returns true if the file system can map this open file, also for writing if `writable`. fd may be
// write-only.
bool mmul_file_can_map(int fd, bool writable);

// A mapped file, for the check after its use.
struct mmul_mapped_file {
    const char *name;    // borrowed
    int fd;              // borrowed; -1: another process checks the file's length
    int64_t end;         // byte that it must reach
    int64_t modified_ns; // an input's last write, before it was used
    bool is_output;      // not committed yet
};

// Returns the last write to an open file, in nanoseconds of the file system's clock. 0: not known.
int64_t mmul_file_modified_ns(int fd);

// Checks that the file is as long as before, and that every page could be read (`has_failed`:
// base/guard.h). Fails as mmul_matrix_read and mmul_output_write do, and with MMUL_ERR_DATA if
// pages of a changed input failed.
enum mmul_status mmul_mapped_check(const struct mmul_mapped_file *file, bool has_failed,
                                   struct mmul_error *err);

// Checks that the input was not written to since it was mapped. Meant for callers that found
// impossible numbers: a file may be touched without change. MMUL_OK for an output. Fails with
// MMUL_ERR_DATA.
enum mmul_status mmul_mapped_check_same(const struct mmul_mapped_file *file,
                                        struct mmul_error *err);
