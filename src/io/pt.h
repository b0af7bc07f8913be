// SPDX-License-Identifier: MIT
// PyTorch files. Since torch 1.6 a file is a zip archive: a pickle that describes the tensors
// (io/pickle.h), and their storages. Older files hold pickles and storages one after the other
// (io/pt_old.h). Tensors may be views of one storage. Read only.
#pragma once

#include "io/archive.h"
#include "io/decoded.h"
#include "io/tensors.h"

// Returns true if the archive has a data.pkl in any folder.
bool mmul_pt_has_pickle(struct mmul_archive *archive);

// Lists the tensors of the open file `fd`, borrowed and called `name`. Fails with MMUL_ERR_DATA and
// MMUL_ERR_SYSTEM.
enum mmul_status mmul_pt_list(int fd, const char *name, int64_t file_bytes,
                              struct mmul_tensors **tensors, struct mmul_error *err);

// Appends the elements of a tensor of up to four dimensions to `to`, in C order and the file's byte
// order. `archive` is the one in the list of tensors. Fails with MMUL_ERR_DATA, MMUL_ERR_NO_INPUT,
// MMUL_ERR_IO and MMUL_ERR_SYSTEM.
enum mmul_status mmul_pt_decode(int fd, struct mmul_archive *archive, const char *name,
                                const struct mmul_tensor_entry *entry, struct mmul_decoded *to,
                                struct mmul_error *err);

// Function `take` of the format's row (io/formats.h).
enum mmul_status mmul_pt_select_tensor(struct mmul_matrix *matrix,
                                       const struct mmul_tensors *tensors,
                                       const struct mmul_tensor_entry *entry,
                                       struct mmul_error *err);
