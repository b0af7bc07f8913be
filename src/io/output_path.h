// SPDX-License-Identifier: MIT
// The names and the temporary file of an output.
#pragma once

#include "io/output_file.h"

// Fills path and part; the file's name are the first `file_length` bytes of the output's. Fails with
// MMUL_ERR_CREATE when that is a folder or a special file.
enum mmul_status mmul_output_name_files(struct mmul_output *output, size_t file_length,
                                        struct mmul_error *err);

// Makes and locks the temporary file, empty; one that a killed run of this user's has left goes. Waits for another run
// that holds it, MMUL_OUTPUT_WAIT_SECONDS at most. Fails with MMUL_ERR_CREATE: the folder cannot be written to, another
// run holds it still, the output is one of the inputs, what lies under the temporary name is another user's, has
// several links or is no file.
#define MMUL_OUTPUT_WAIT_SECONDS 2.0
enum mmul_status mmul_output_open_part(struct mmul_output *output,
                                       struct mmul_matrix *const *inputs, int input_count,
                                       struct mmul_error *err);

// Gives the temporary file its final length, with space reserved where the file system can.
// Fails with MMUL_ERR_IO.
enum mmul_status mmul_output_reserve(struct mmul_output *output, int64_t bytes,
                                     struct mmul_error *err);

// fsync of the folder that holds the output, so that the rename lasts. Fails with MMUL_ERR_IO.
enum mmul_status mmul_output_sync_folder(const struct mmul_output *output, struct mmul_error *err);
