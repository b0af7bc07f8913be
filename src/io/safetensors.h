// SPDX-License-Identifier: MIT
// The header of .safetensors files: a length of eight bytes, little-endian, then a JSON object of
// that length. Its keys are the tensors' names. Its values give type, sizes, and the range of bytes
// behind the header. The key __metadata__ holds texts. Pure: converts bytes to numbers and back.
// Source: the format's own library (github.com/huggingface/safetensors), which refuses the same
// files.
#pragma once

#include "io/tensors.h"

enum {
    MMUL_SAFETENSORS_PREFIX_BYTES = 8,
    MMUL_SAFETENSORS_HEADER_MAX = 100000000, // largest JSON that is read
};

// Computes the length of the JSON. `bytes` holds the first `count` bytes of file `name`: 8, or the
// whole file if shorter. Fails with MMUL_ERR_DATA: longer than MMUL_SAFETENSORS_HEADER_MAX or than
// the file.
enum mmul_status mmul_safetensors_json_bytes(const unsigned char *bytes, size_t count,
                                             int64_t file_bytes, const char *name,
                                             size_t *json_bytes, struct mmul_error *err);

// Writes the header of a file that holds tensors one behind the other. Each tensor has the last
// `dimensions` (1 to 4) sizes of its shape, and `bytes` of elements. 0 dimensions: leading sizes of
// 1 are left out, down to two. The header is padded so that elements begin on a multiple of 64
// bytes. *length is the padded length. Fails with MMUL_ERR_USAGE: a name that is not UTF-8 or is
// __metadata__, or a header longer than `capacity`; MMUL_ERR_SYSTEM (memory).
struct mmul_safetensors_tensor {
    const char *name;
    struct mmul_shape shape;
    int dimensions;
    enum mmul_dtype dtype;
    int64_t bytes;
};
struct mmul_safetensors_content {
    const struct mmul_safetensors_tensor *tensors; // borrowed, `count` of them
    int count;
    struct json_t *metadata; // borrowed: an object of texts; NULL: none
};
enum mmul_status mmul_safetensors_format(const struct mmul_safetensors_content *content,
                                         unsigned char *header, size_t capacity, size_t *length,
                                         struct mmul_error *err);

// Lists the tensors in the order of their elements. The elements must fill the rest of the file
// without overlap or hole. Fails with MMUL_ERR_DATA.
enum mmul_status mmul_safetensors_parse(const char *json, size_t json_bytes, int64_t file_bytes,
                                        const char *name, struct mmul_tensors **tensors,
                                        struct mmul_error *err);
