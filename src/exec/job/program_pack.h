// SPDX-License-Identifier: MIT
//
// Converts a program to bytes, with the elements of its matrices, and back. Root sends it to the
// leader of another node, which runs it there. The matrices are in root's memory, or held. The
// program writes nothing.
#pragma once

#include "model/program.h"

enum { MMUL_PACK_BYTES = 64 }; // block size; a packed program is a whole number of blocks

// Packs a program. *bytes: owned by the caller. Fails with MMUL_ERR_USAGE (it reads or writes a
// file), MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_pack(const struct mmul_program *program, char **bytes,
                                   int64_t *length, struct mmul_error *err);

// Unpacks a program. Its matrices stay in `bytes`, which must outlive it. mmul_program_drop
// releases the program and its matrix objects. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_unpack(const char *bytes, struct mmul_program **program,
                                     struct mmul_error *err);
void mmul_program_drop(struct mmul_program *program);
