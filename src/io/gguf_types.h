// SPDX-License-Identifier: MIT
// The table of element types of GGUF files: elements and bytes of a block, and the decoder of a
// packed block to float32. Pure. Source: the block structs of ggml's repository
// (ggml/src/ggml-common.h) and the reference decoder of the Python package gguf (gguf/quants.py).
// The floats equal the reference's to the last bit.
#pragma once

#include <stdbool.h>

#include "mpimatmul_local.h"

enum { MMUL_GGUF_BLOCK_ELEMENTS_MAX = 256, MMUL_GGUF_BLOCK_BYTES_MAX = 292 };

struct mmul_gguf_type {
    const char *name;    // as ggml writes it
    int elements, bytes; // per block
    enum mmul_dtype dtype;
    // Decodes a block, at any address, to its elements. NULL: not a packed type that is read.
    void (*decode)(const unsigned char *block, float *values);
};

// Returns the type of this number, NULL if unknown.
const struct mmul_gguf_type *mmul_gguf_type_get(uint32_t number);

// Returns true if the elements are numbers that are used in place, or have a decoder.
bool mmul_gguf_type_is_readable(const struct mmul_gguf_type *type);
