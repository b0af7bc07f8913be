// SPDX-License-Identifier: MIT
// Elements that a file does not store as they are used: text, packed, compressed, or with gaps.
// They are decoded once, when the file is opened, into an unnamed file in $TMPDIR (else /tmp). That
// file replaces the matrix's, so mapping, reading and sending need no special case. Decoding takes
// a fixed buffer of memory, whatever the size of the matrix. If $TMPDIR is in memory (tmpfs), so
// are the elements, and mmul_matrix_memory_bytes counts them.
#pragma once

#include "mpimatmul_local.h"

struct mmul_decoded {
    const char *name; // borrowed: the matrix's, for errors
    int fd;           // -1: not started, or passed to the matrix
    int64_t bytes;    // size of the elements so far
    char *buffer;     // owned, `filled` bytes not yet in the file
    size_t filled;
    void *mapped; // set by mmul_decoded_map
};

// Creates the file for the elements of `name`. Released with mmul_decoded_fini, after failure too.
// Fails with MMUL_ERR_IO and MMUL_ERR_SYSTEM.
enum mmul_status mmul_decoded_init(struct mmul_decoded *decoded, const char *name,
                                   struct mmul_error *err);

// Appends bytes to the file. Fails with MMUL_ERR_IO.
enum mmul_status mmul_decoded_append(struct mmul_decoded *decoded, const void *bytes, size_t count,
                                     struct mmul_error *err);

// Maps the whole file, `bytes` (more than 0) zeros, for writing in any order. Used instead of
// mmul_decoded_append. The space is reserved. *memory is valid until mmul_decoded_fini. Fails with
// MMUL_ERR_IO and MMUL_ERR_SYSTEM.
enum mmul_status mmul_decoded_map(struct mmul_decoded *decoded, int64_t bytes, void **memory,
                                  struct mmul_error *err);

// Passes the complete file to the matrix. Its elements then begin at byte 0. Fails with
// MMUL_ERR_IO, and with MMUL_ERR_DATA if the input was written to meanwhile.
enum mmul_status mmul_decoded_attach(struct mmul_decoded *decoded, struct mmul_matrix *matrix,
                                     struct mmul_error *err);

// Releases everything but a file passed to a matrix. {.fd = -1} is legal.
void mmul_decoded_fini(struct mmul_decoded *decoded);
