// SPDX-License-Identifier: MIT
// PyTorch files as torch.save wrote them before 1.6. Five pickles come first: magic number,
// version, machine, the object, the keys of its storages. The storages follow in the order of the
// keys, each as its number of elements and the elements, little-endian. Source: _legacy_save of
// torch/serialization.py.
#pragma once

#include "io/pickle.h"

struct mmul_pt_old_storage {
    struct mmul_pickle_text key;
    int64_t offset, bytes; // range of its elements in the file
};

struct mmul_pt_old {
    unsigned char *bytes;                 // owned: start of the file, with all pickles
    struct mmul_pickle pickle;            // owned: pickle of the object
    struct mmul_pt_old_storage *storages; // owned, sorted by key
    int64_t storage_count;
};

// Reads the pickles and storages of the open file `fd`, called `name`, of `file_bytes` bytes. Fails
// with MMUL_ERR_DATA, MMUL_ERR_NO_INPUT and MMUL_ERR_SYSTEM. Released with mmul_pt_old_fini, after
// failure too.
enum mmul_status mmul_pt_old_read(int fd, const char *name, int64_t file_bytes,
                                  struct mmul_pt_old *old, struct mmul_error *err);
void mmul_pt_old_fini(struct mmul_pt_old *old);

// Returns the storage with this key, NULL if there is none.
const struct mmul_pt_old_storage *mmul_pt_old_find(const struct mmul_pt_old *old,
                                                   struct mmul_pickle_text key);
