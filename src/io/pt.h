// SPDX-License-Identifier: MIT
//
// PyTorch files. Since torch 1.6 they are a zip archive of a pickle, which says what tensors there are (io/pickle.h),
// and of their storages; before, pickles and storages one after the other (io/pt_old.h). Tensors may be views of one
// storage. Read only.
#pragma once

#include "io/archive.h"
#include "io/decoded.h"
#include "io/tensors.h"

// Has the archive a data.pkl, in any folder?
bool mmul_pt_has_pickle(struct mmul_archive *archive);

// The tensors of the open file `fd`, borrowed and called `name`. Fails with MMUL_ERR_DATA and MMUL_ERR_SYSTEM.
enum mmul_status mmul_pt_list(int fd, const char *name, int64_t file_bytes,
                              struct mmul_tensors **tensors, struct mmul_error *err);

// The elements of one of up to four dimensions in C order to `to`, in the byte order of the file, of which `archive` is
// the list's. Fails with
// MMUL_ERR_DATA, MMUL_ERR_NO_INPUT, MMUL_ERR_IO and MMUL_ERR_SYSTEM.
enum mmul_status mmul_pt_decode(int fd, struct mmul_archive *archive, const char *name,
                                const struct mmul_tensor_entry *entry, struct mmul_decoded *to,
                                struct mmul_error *err);

// The row's functions (io/formats.h).
enum mmul_status mmul_pt_take(struct mmul_matrix *matrix, const struct mmul_tensors *tensors,
                              const struct mmul_tensor_entry *entry, struct mmul_error *err);
enum mmul_status mmul_pt_list_file(const struct mmul_matrix *matrix, const unsigned char *start,
                                   size_t count, struct mmul_tensors **tensors,
                                   struct mmul_error *err);
