// SPDX-License-Identifier: MIT
//
// Standard input and output as matrices. Matrices are mapped, measured and read in any order, which
// a pipe does not allow: what comes from one is first copied into a file without a name in $TMPDIR
// (else /tmp), and what goes into one is such a file until it is complete.
#pragma once

#include "mpimatmul_local.h"

// A file without a name, open for reading and writing. Fails with MMUL_ERR_IO.
enum mmul_status mmul_nameless_file(int *fd, struct mmul_error *err);

// Standard input as a file: itself where it is a regular file that nobody has read from, else a
// copy, which standard input is from then on: it can be opened again. Fails with MMUL_ERR_NO_INPUT
// (a terminal, unreadable) and MMUL_ERR_IO (no space).
enum mmul_status mmul_stdin_open(int *fd, struct mmul_error *err);

// All of a file to descriptor `to`. Fails with MMUL_ERR_IO.
enum mmul_status mmul_stream_send(int fd, int to, struct mmul_error *err);
