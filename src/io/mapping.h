// SPDX-License-Identifier: MIT
//
// Matrices that can be used where they lie, without reading or writing: their bytes are the
// elements, in this machine's order. Everything else goes through mmul_matrix_read and
// mmul_output_write.
#pragma once

#include "mpimatmul_local.h"

struct mmul_extent {
    void *memory;          // borrowed, not written to for an input; NULL: in a file
    int fd;                // of the file, borrowed; an output's is for writing alone
    const char *path;      // of an input's file, borrowed
    int64_t offset, bytes; // of the elements in the file
    int64_t stored_ns;     // when an input was last written to, as it was opened
};

// In C order, stored in the type in which it is wanted, this machine's byte order, on an address that
// its element size divides, and a file system that maps files. False: not so.
bool mmul_matrix_extent(const struct mmul_matrix *matrix, enum mmul_dtype dtype,
                        struct mmul_extent *extent);

// Of the type in which it is made; a file only with its space reserved, so that writing to a mapping finds room.
bool mmul_output_extent(const struct mmul_output *output, enum mmul_dtype dtype,
                        struct mmul_extent *extent);

// Does the file system map this open file, and for writing? fd may be for writing alone.
bool mmul_file_can_map(int fd, bool writable);

// A file that is mapped, for those who ask afterwards whether that went well.
struct mmul_mapped_file {
    const char *name;  // borrowed
    int fd;            // borrowed; -1: its length is somebody else's to check
    int64_t end;       // byte it has to reach
    int64_t stored_ns; // an input's, before it was used
    bool is_output;    // not committed yet
};

// When an open file was last written to, nanoseconds of its own clock; 0: not known.
int64_t mmul_file_stored_ns(int fd);

// Is the file as long as it was, and has every page been there (`has_failed`: base/guard.h)?
// Fails as mmul_matrix_read and mmul_output_write do, and with MMUL_ERR_DATA when pages of an input
// have failed that has been written to.
enum mmul_status mmul_mapped_check(const struct mmul_mapped_file *file, bool has_failed,
                                   struct mmul_error *err);

// Has nobody written to the input since it was mapped? For those who have met numbers that cannot
// be: a file may be touched and still be the same. MMUL_OK for an output. Fails with MMUL_ERR_DATA.
enum mmul_status mmul_mapped_check_same(const struct mmul_mapped_file *file,
                                        struct mmul_error *err);
