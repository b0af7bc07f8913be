// SPDX-License-Identifier: MIT
//
// Converts a program to bytes and back. Root sends a program to all ranks without its files and
// matrices, which stay root's, or with the elements of its matrices to the leader of another node.
#pragma once

#include "model/program.h"

enum { MMUL_PACK_BYTES = 64 }; // block size; a packed program is a whole number of blocks

// Returns the bytes of a packed program, and packs it into that many zeroed bytes. has_elements:
// with the elements of its matrices, which must be in memory.
int64_t mmul_program_packed_bytes(const struct mmul_program *program, bool has_elements);
void mmul_program_pack(const struct mmul_program *program, bool has_elements, char *bytes);

// Unpacks a program. With elements: its matrices stay in `bytes`, which must outlive it, and
// mmul_program_destroy_unpacked releases the program and its matrix objects. Without elements:
// pointers to matrices and outputs are as they were packed. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_program_unpack(const char *bytes, struct mmul_program **program,
                                     struct mmul_error *err);
void mmul_program_destroy_unpacked(struct mmul_program *program);
