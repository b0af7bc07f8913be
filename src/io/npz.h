// SPDX-License-Identifier: MIT
//
// .npz archives (numpy.savez, numpy.savez_compressed): zip files whose members NAME.npy are the tensors
// NAME.
#pragma once

#include "io/decoded.h"
#include "io/tensors.h"

// The members of the open file `fd`, called `name`, that end in .npy; one whose header is no valid .npy
// is not readable. Fails with MMUL_ERR_DATA (no valid archive, or two members of one name) and MMUL_ERR_SYSTEM.
enum mmul_status mmul_npz_list(int fd, const char *name, int64_t file_bytes,
                               struct mmul_tensors **tensors, struct mmul_error *err);

// A member whole, unpacked and checked against its checksum. Fails with MMUL_ERR_DATA and, where there is no room for
// it, MMUL_ERR_IO.
enum mmul_status mmul_npz_unpack(int fd, const char *name, const struct mmul_tensor_entry *entry,
                                 struct mmul_decoded *to, struct mmul_error *err);
