// SPDX-License-Identifier: MIT
// The pickle in a PyTorch file, read as data: dicts, lists, tuples and objects with tensors become
// a list of named tensors. Nothing is imported or executed. A global is a word of a table or the
// name of a class, a call makes a record, and an object is the set of its attributes in the file.
// Pure. Source: pickletools of Python, torch/serialization.py, torch/_utils.py,
// numpy/core/src/multiarray/methods.c.
#pragma once

#include "io/tensors.h"

enum { MMUL_PICKLE_MAX = 1 << 28 }; // longest that is read

struct mmul_pickle_tensor {
    // Owned: keys, indices and attributes on the path to the tensor, joined by dots. "data" for an
    // empty path.
    char *name;
    const char *storage; // key, in the pickle, not terminated by 0; NULL: none
    int storage_length;
    // Elements of a numpy array, in the pickle, `elements_bytes` of them. NULL: in its storage.
    const unsigned char *elements;
    int64_t elements_bytes;
    bool is_latin1; // elements are UTF-8 text, one character per byte
    bool is_big;    // elements are big-endian
    char type[16];  // as from mmul_dtype_name, or the file's word for a type that is not read
    bool is_readable;
    enum mmul_dtype dtype;
    int bytes_each;
    int dimensions;
    int64_t sizes[MMUL_TENSOR_DIMENSIONS], strides[MMUL_TENSOR_DIMENSIONS]; // in elements, >= 0
    int64_t first; // offset in the storage, in elements
};

struct mmul_pickle_text {
    const char *text; // points into the pickle
    int length;
};

struct mmul_pickle_storage {
    struct mmul_pickle_text key;
    int bytes_each; // bytes per element
};

struct mmul_pickle {
    struct mmul_pickle_tensor *tensors; // owned, in the order of the pickle
    int64_t count;
    // Owned, with their names: counts of objects without tensors, by class.
    struct mmul_tensors_skipped *skipped;
    int64_t skipped_count;
    struct mmul_pickle_storage *storages; // owned: all that the pickle names
    int64_t storage_count;
    struct mmul_pickle_text *texts; // owned: the texts, if the pickle is a list of texts
    int64_t text_count;
    size_t bytes; // length of the pickle
};

// Parses the first pickle in `count` bytes, at most MMUL_PICKLE_MAX. The bytes must live as long as
// *pickle. `name` is the file's. Fails with MMUL_ERR_DATA and MMUL_ERR_SYSTEM. After failure,
// pickle->bytes is `count` if more bytes could help, else 0. Released with mmul_pickle_fini.
enum mmul_status mmul_pickle_parse(const unsigned char *bytes, size_t count, const char *name,
                                   struct mmul_pickle *pickle, struct mmul_error *err);
void mmul_pickle_fini(struct mmul_pickle *pickle);
