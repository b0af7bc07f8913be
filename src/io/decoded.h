// SPDX-License-Identifier: MIT
//
// Elements that do not lie in a file as they are used: text, packed, compressed, with gaps between them. They are
// decoded once, when the file is opened, into a file without a name in $TMPDIR (else /tmp), of which the matrix is
// from then on, so that all that maps, reads and sends files does not know the difference. It takes a buffer of
// memory, however large the matrix is; where $TMPDIR is in memory (tmpfs), the elements are, which
// mmul_matrix_held_bytes counts.
#pragma once

#include "mpimatmul_local.h"

struct mmul_decoded {
    const char *name; // borrowed: the matrix's, for errors
    int fd;           // -1: not begun, or the matrix's by now
    int64_t bytes;    // of elements so far
    char *buffer;     // owned, `filled` bytes that are not in the file yet
    size_t filled;
    void *mapped; // mmul_decoded_map
};

// Starts the file of what `name` holds. Released with mmul_decoded_fini, whatever follows. Fails with MMUL_ERR_IO and
// MMUL_ERR_SYSTEM.
enum mmul_status mmul_decoded_init(struct mmul_decoded *decoded, const char *name,
                                   struct mmul_error *err);

// The next bytes of the file. Fails with MMUL_ERR_IO.
enum mmul_status mmul_decoded_add(struct mmul_decoded *decoded, const void *bytes, size_t count,
                                  struct mmul_error *err);

// Instead of adding: all of it, `bytes` (more than 0) zeros, to be written to in any order; their space is reserved.
// *memory lasts until the end. Fails with MMUL_ERR_IO and MMUL_ERR_SYSTEM.
enum mmul_status mmul_decoded_map(struct mmul_decoded *decoded, int64_t bytes, void **memory,
                                  struct mmul_error *err);

// All is there: the matrix is what was decoded, of which its elements begin at byte 0. Fails with MMUL_ERR_IO.
enum mmul_status mmul_decoded_end(struct mmul_decoded *decoded, struct mmul_matrix *matrix,
                                  struct mmul_error *err);

// {.fd = -1} is legal.
void mmul_decoded_fini(struct mmul_decoded *decoded);
