// SPDX-License-Identifier: MIT
//
// PyTorch files as torch.save wrote them before 1.6: five pickles (a magic number, a version, what the machine was, the
// object, the keys of its storages), and of each storage in the order of the keys its number of elements and these, all
// little-endian. Source: _legacy_save of torch/serialization.py.
#pragma once

#include "io/pickle.h"

struct mmul_pt_old_storage {
    struct mmul_pickle_text key;
    int64_t offset, bytes; // of its elements, in the file
};

struct mmul_pt_old {
    unsigned char *bytes;                 // owned: the beginning of the file, with all pickles
    struct mmul_pickle pickle;            // owned: of the object
    struct mmul_pt_old_storage *storages; // owned, by their keys in ascending order
    int64_t storage_count;
};

// Of the open file `fd`, called `name`, of `file_bytes` bytes. Fails with MMUL_ERR_DATA, MMUL_ERR_NO_INPUT and
// MMUL_ERR_SYSTEM. Released with mmul_pt_old_fini, whatever follows.
enum mmul_status mmul_pt_old_read(int fd, const char *name, int64_t file_bytes,
                                  struct mmul_pt_old *old, struct mmul_error *err);
void mmul_pt_old_fini(struct mmul_pt_old *old);

// NULL: there is none.
const struct mmul_pt_old_storage *mmul_pt_old_find(const struct mmul_pt_old *old,
                                                   struct mmul_pickle_text key);
