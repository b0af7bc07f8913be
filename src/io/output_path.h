// SPDX-License-Identifier: MIT
// The names and the temporary file of an output.
#pragma once

#include "io/output_file.h"

// Fills name, path and part; the file's name are the first `file_length` bytes of `given`. Fails with
// MMUL_ERR_CREATE when that is a folder or a special file.
enum mmul_status mmul_output_name(struct mmul_output *output, const char *given, size_t file_length,
                                  struct mmul_error *err);

// Opens and locks the temporary file, empty. Fails with MMUL_ERR_CREATE: the folder cannot be
// written to, another run holds it, the output is one of the inputs.
enum mmul_status mmul_output_open_part(struct mmul_output *output,
                                       struct mmul_matrix *const *inputs, int input_count,
                                       struct mmul_error *err);

// Gives the temporary file its final length, with space reserved where the file system can.
// Fails with MMUL_ERR_IO.
enum mmul_status mmul_output_reserve(struct mmul_output *output, int64_t bytes,
                                     struct mmul_error *err);

// fsync of the folder that holds the output, so that the rename lasts. Fails with MMUL_ERR_IO.
enum mmul_status mmul_output_sync_folder(const struct mmul_output *output, struct mmul_error *err);
