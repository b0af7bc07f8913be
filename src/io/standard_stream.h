// SPDX-License-Identifier: MIT
// Standard input and output as matrices. Matrices are mapped, measured and read in any order, which
// a pipe does not allow. Input from a pipe is therefore copied first into an unnamed file in
// $TMPDIR (else /tmp). Output to a pipe is such a file until it is complete.
#pragma once

#include "mpimatmul_local.h"

// Creates an unnamed file, open for reading and writing. Fails with MMUL_ERR_IO.
enum mmul_status mmul_unnamed_file_create(int *fd, struct mmul_error *err);

// Opens standard input as a file. A regular file that was not read from yet is used itself.
// Otherwise a copy replaces standard input, so that it can be opened again. Fails with
// MMUL_ERR_NO_INPUT (a terminal, unreadable) and MMUL_ERR_IO (no space).
enum mmul_status mmul_stdin_open(int *fd, struct mmul_error *err);

// Copies a whole file to descriptor `to`. Fails with MMUL_ERR_IO.
enum mmul_status mmul_stream_copy_file(int fd, int to, struct mmul_error *err);
