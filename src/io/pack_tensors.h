// SPDX-License-Identifier: MIT
// Packs an output and those behind it (->next) into the file `to`, for formats that hold several
// matrices. Both functions fail with MMUL_ERR_IO and MMUL_ERR_SYSTEM; safetensors also with
// MMUL_ERR_USAGE (a name that is not UTF-8).
#pragma once

#include "io/output_file.h"

enum mmul_status mmul_pack_npz(const struct mmul_output *output, int to, struct mmul_error *err);
enum mmul_status mmul_pack_safetensors(const struct mmul_output *output, int to,
                                       struct mmul_error *err);
