// SPDX-License-Identifier: MIT
//
// The pickle in a PyTorch file, as data: dicts, lists and tuples of tensors, numbers and texts become a list of named
// tensors. It knows the opcodes and globals that torch.save writes for those; anything else is refused by its name.
// Nothing is executed: a global is a word of a table here, and the three that are called make a record. Pure.
// Source: pickletools of Python, torch/serialization.py, torch/_utils.py.
#pragma once

#include "io/tensors.h"

enum { MMUL_PICKLE_MAX = 64 << 20 }; // longest that is read

struct mmul_pickle_tensor {
    char *
        name; // owned: keys and places on the way to it with dots between; "data" where there are none
    const char *storage; // of the archive, in the pickle, without a 0 at its end
    int storage_length;
    const char *type; // as mmul_dtype_name has it, or torch's word for one that is not read
    bool is_readable;
    enum mmul_dtype dtype;
    int bytes_each;
    int dimensions;
    int64_t sizes[MMUL_TENSOR_DIMENSIONS], strides[MMUL_TENSOR_DIMENSIONS]; // elements, >= 0
    int64_t first; // element of the storage
};

struct mmul_pickle {
    struct mmul_pickle_tensor *tensors; // owned, in the order of the pickle
    int64_t count;
};

// Of `count` bytes (at most MMUL_PICKLE_MAX), which live as long as what is made of them; `name` is the file's. Fails
// with MMUL_ERR_DATA and MMUL_ERR_SYSTEM. Released with mmul_pickle_fini.
enum mmul_status mmul_pickle_parse(const unsigned char *bytes, size_t count, const char *name,
                                   struct mmul_pickle *pickle, struct mmul_error *err);
void mmul_pickle_fini(struct mmul_pickle *pickle);
