// SPDX-License-Identifier: MIT
// The names and the temporary file of an output.
#pragma once

#include "io/output_file.h"

// Sets path and part. The file's name is the first `file_length` bytes of the output's. Fails with
// MMUL_ERR_CREATE if it is a folder or a special file.
enum mmul_status mmul_output_choose_paths(struct mmul_output *output, size_t file_length,
                                          struct mmul_error *err);

// Locks an open file, for its only writer. Returns false if another run holds it. File systems
// without locks are used without.
bool mmul_output_try_lock(int fd);

// Creates and locks an empty temporary file. Removes one that a killed run of this user has left.
// Waits up to MMUL_OUTPUT_WAIT_SECONDS for another run that holds it. Fails with MMUL_ERR_CREATE:
// the folder is not writable, another run still holds the file, the output is one of the inputs, or
// the temporary name belongs to another user, has several links or is no file.
#define MMUL_OUTPUT_WAIT_SECONDS 2.0
enum mmul_status mmul_output_create_temporary(struct mmul_output *output,
                                              struct mmul_matrix *const *inputs, int input_count,
                                              struct mmul_error *err);

// Gives the temporary file its final length, with space reserved if the file system can. Fails with
// MMUL_ERR_IO.
enum mmul_status mmul_output_reserve(struct mmul_output *output, int64_t bytes,
                                     struct mmul_error *err);

// Calls fsync on the output's folder, so that the rename is durable. Fails with MMUL_ERR_IO.
enum mmul_status mmul_output_sync_folder(const struct mmul_output *output, struct mmul_error *err);
