// SPDX-License-Identifier: MIT
//
// The header of .safetensors files: a length of eight bytes, little-endian, and a JSON object that is so
// long. Its keys are the tensors' names, its values their type, sizes and bytes behind the header; a key
// __metadata__ holds texts. Pure: bytes to numbers and back. Source: the format's
// own library (github.com/huggingface/safetensors), which refuses the same files.
#pragma once

#include "io/tensors.h"

enum {
    MMUL_SAFETENSORS_PREFIX_BYTES = 8,
    MMUL_SAFETENSORS_HEADER_MAX = 100000000, // of JSON, in all that is read
};

// Bytes of the JSON. `bytes` holds `count` bytes of file `name`, 8 or as many as it has. Fails with
// MMUL_ERR_DATA: longer than MMUL_SAFETENSORS_HEADER_MAX, or than the file.
enum mmul_status mmul_safetensors_json_bytes(const unsigned char *bytes, size_t count,
                                             int64_t file_bytes, const char *name,
                                             size_t *json_bytes, struct mmul_error *err);

// The header of a file that holds tensors, one behind the other: of the last `dimensions` (1 to 4) sizes (0:
// without leading sizes of 1, but 2), elements of `dtype` and `bytes` of them, padded so that they begin on a multiple
// of 64 bytes. *length: of all of it. Fails with MMUL_ERR_USAGE: a name that is not UTF-8 or __metadata__, or a header
// longer than `capacity`.
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

// The tensors, in the order of their elements, which fill the rest of the file without overlap or
// hole. Fails with MMUL_ERR_DATA.
enum mmul_status mmul_safetensors_parse(const char *json, size_t json_bytes, int64_t file_bytes,
                                        const char *name, struct mmul_tensors **tensors,
                                        struct mmul_error *err);
