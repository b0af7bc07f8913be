// SPDX-License-Identifier: MIT
// .npz archives (numpy.savez, numpy.savez_compressed): zip files with members NAME.npy that are the
// tensors NAME. As in numpy, any other member that begins like a .npy file is a tensor, too.
#pragma once

#include "io/archive.h"
#include "io/decoded.h"
#include "io/tensors.h"

// Returns true if the archive has a member that is a .npy file.
bool mmul_npz_has_arrays(struct mmul_archive *archive);

// Lists the members of the open file `fd`, borrowed and called `name`, that are .npy files. A
// member with an invalid header, or compressed in a way that is not read, is listed as not
// readable. Fails with MMUL_ERR_DATA (invalid archive, or two members of one name) and
// MMUL_ERR_SYSTEM.
enum mmul_status mmul_npz_list(int fd, const char *name, int64_t file_bytes,
                               struct mmul_tensors **tensors, struct mmul_error *err);

// Unpacks a whole member and verifies its checksum. Fails with MMUL_ERR_DATA, and with MMUL_ERR_IO
// if there is no room for it.
enum mmul_status mmul_npz_unpack(struct mmul_archive *archive, const char *name,
                                 const struct mmul_tensor_entry *entry, struct mmul_decoded *to,
                                 struct mmul_error *err);

// Verifies the checksums of members with an element type that is not read, since a damaged header
// can name such a type, too. Fails with MMUL_ERR_DATA.
enum mmul_status mmul_npz_verify_checksums(const struct mmul_tensors *tensors,
                                           struct mmul_error *err);
