// SPDX-License-Identifier: MIT
//
// A program as bytes, with the numbers of the matrices that it reads: from root to the leader of another node, which
// runs it there. What it reads is in root's memory, or held; it writes nothing.
#pragma once

#include "model/program.h"

enum { MMUL_PACK_BYTES = 64 }; // of a block, of which there is a whole number

// *bytes: owned by the caller. Fails with MMUL_ERR_USAGE (it reads or writes a file), MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_pack(const struct mmul_program *program, char **bytes,
                                   int64_t *length, struct mmul_error *err);

// A program whose matrices are in `bytes`, which outlive it; mmul_program_drop releases both. Fails with
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_unpack(const char *bytes, struct mmul_program **program,
                                     struct mmul_error *err);
void mmul_program_drop(struct mmul_program *program);
