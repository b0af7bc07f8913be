// SPDX-License-Identifier: MIT
// GGUF files, versions 2 and 3, little-endian: a header of named values and tensors, then the
// elements. Plain numbers are used in place. Packed blocks are decoded to float32
// (io/gguf_types.h). A tensor of another type is listed but not read. Read only. Source: the
// format's description in ggml's repository (docs/gguf.md).
#pragma once

#include "io/decoded.h"
#include "io/tensors.h"

// Lists the tensors of the open file `fd`, called `name`. `member` of each entry is its ggml type.
// Fails with MMUL_ERR_DATA, MMUL_ERR_NO_INPUT and MMUL_ERR_SYSTEM.
enum mmul_status mmul_gguf_list(int fd, const char *name, int64_t file_bytes,
                                struct mmul_tensors **tensors, struct mmul_error *err);

// mmul_gguf_is_packed returns true if a readable tensor is packed. mmul_gguf_decode appends the
// elements of such a tensor to `to`, as float32. Fails with MMUL_ERR_DATA, MMUL_ERR_NO_INPUT and
// MMUL_ERR_IO.
bool mmul_gguf_is_packed(const struct mmul_tensor_entry *entry);
enum mmul_status mmul_gguf_decode(int fd, const char *name, const struct mmul_tensor_entry *entry,
                                  struct mmul_decoded *to, struct mmul_error *err);

// Function `take` of the format's row (io/formats.h).
enum mmul_status mmul_gguf_select_tensor(struct mmul_matrix *matrix,
                                         const struct mmul_tensors *tensors,
                                         const struct mmul_tensor_entry *entry,
                                         struct mmul_error *err);
