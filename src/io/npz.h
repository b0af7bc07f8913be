// SPDX-License-Identifier: MIT
//
// .npz archives (numpy.savez, numpy.savez_compressed): zip files whose members NAME.npy are the tensors
// NAME. As for numpy, any other member that begins as a .npy file does is one, too.
#pragma once

#include "io/archive.h"
#include "io/decoded.h"
#include "io/tensors.h"

// Has the archive a member that is a .npy file?
bool mmul_npz_has_arrays(struct mmul_archive *archive);

// The members of the open file `fd`, borrowed and called `name`, that are .npy files; one whose header is no valid
// .npy, or that is compressed with LZMA, is not readable. Fails with MMUL_ERR_DATA (no valid archive, or two members of
// one name) and MMUL_ERR_SYSTEM.
enum mmul_status mmul_npz_list(int fd, const char *name, int64_t file_bytes,
                               struct mmul_tensors **tensors, struct mmul_error *err);

// A member whole, unpacked and checked against its checksum. Fails with MMUL_ERR_DATA and, where there is no room for
// it, MMUL_ERR_IO.
enum mmul_status mmul_npz_unpack(struct mmul_archive *archive, const char *name,
                                 const struct mmul_tensor_entry *entry, struct mmul_decoded *to,
                                 struct mmul_error *err);

// Reads the members whose elements are of no type that is read, and compares their checksums: a header that is damaged
// names such a type, too. Fails with MMUL_ERR_DATA.
enum mmul_status mmul_npz_check(const struct mmul_tensors *tensors, struct mmul_error *err);
