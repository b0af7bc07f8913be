// SPDX-License-Identifier: MIT
//
// The element types of GGUF files, one table: how many elements and bytes a block has, and how a packed block becomes
// float32. Pure. Source: the block structs of ggml's repository (ggml/src/ggml-common.h) and the reference decoder of
// the Python package gguf (gguf/quants.py), which gives the same floats to the last bit.
#pragma once

#include <stdbool.h>

#include "mpimatmul_local.h"

enum { MMUL_GGUF_BLOCK_ELEMENTS_MAX = 256, MMUL_GGUF_BLOCK_BYTES_MAX = 292 };

struct mmul_gguf_type {
    const char *name;    // as ggml writes it
    int elements, bytes; // of a block
    enum mmul_dtype dtype;
    // Of packed types that are read: a block's bytes, on any address, to its elements. NULL: others.
    void (*decode)(const unsigned char *block, float *values);
};

// The type of this number; NULL: unknown.
const struct mmul_gguf_type *mmul_gguf_type_get(uint32_t number);

// True if the elements are numbers that are used where they lie, or have a decoder.
bool mmul_gguf_type_is_readable(const struct mmul_gguf_type *type);
