// SPDX-License-Identifier: MIT
//
// The pickle in a PyTorch file, as data: dicts, lists, tuples and objects that hold tensors become a list of named
// tensors. Nothing is imported or executed: a global is a word of a table or the name of a class, a call makes a
// record, and an object is the attributes that the file has of it. Pure.
// Source: pickletools of Python, torch/serialization.py, torch/_utils.py, numpy/core/src/multiarray/methods.c.
#pragma once

#include "io/tensors.h"

enum { MMUL_PICKLE_MAX = 1 << 28 }; // longest that is read

struct mmul_pickle_tensor {
    char *
        name; // owned: keys, places and attributes on the way to it with dots between; "data" where there are none
    const char *storage; // of the file, in the pickle, without a 0 at its end; NULL: it has none
    int storage_length;
    const unsigned char *
        elements; // of a numpy array, in the pickle, `elements_bytes` of them; NULL: in its storage
    int64_t elements_bytes;
    bool is_latin1; // the elements are a text: a byte each, in UTF-8
    bool is_big;    // the elements are big-endian
    char type[16];  // as mmul_dtype_name has it, or the file's word for one that is not read
    bool is_readable;
    enum mmul_dtype dtype;
    int bytes_each;
    int dimensions;
    int64_t sizes[MMUL_TENSOR_DIMENSIONS], strides[MMUL_TENSOR_DIMENSIONS]; // elements, >= 0
    int64_t first; // element of the storage
};

struct mmul_pickle_text {
    const char *text; // in the pickle
    int length;
};

struct mmul_pickle_storage {
    struct mmul_pickle_text key;
    int bytes_each; // of its elements
};

struct mmul_pickle {
    struct mmul_pickle_tensor *tensors; // owned, in the order of the pickle
    int64_t count;
    struct mmul_tensors_skipped
        *skipped; // owned, with their names: objects without tensors, by class
    int64_t skipped_count;
    struct mmul_pickle_storage *storages; // owned: all that it names
    int64_t storage_count;
    struct mmul_pickle_text *texts; // owned: what it is a list of, where those are texts
    int64_t text_count;
    size_t bytes; // its length
};

// Of the first pickle in `count` bytes (at most MMUL_PICKLE_MAX), which live as long as what is made of them; `name` is
// the file's. Fails with MMUL_ERR_DATA and MMUL_ERR_SYSTEM; pickle->bytes is `count` then if more bytes could help,
// else 0. Released with mmul_pickle_fini.
enum mmul_status mmul_pickle_parse(const unsigned char *bytes, size_t count, const char *name,
                                   struct mmul_pickle *pickle, struct mmul_error *err);
void mmul_pickle_fini(struct mmul_pickle *pickle);
