// SPDX-License-Identifier: MIT
// Small text files that an option names with @FILE.
#pragma once

#include "mpimatmul_local.h"

enum { MMUL_TEXT_FILE_BYTES_MAX = 1 << 20 };

// Reads the whole file, terminated by 0 and released with mmul_free. `what` names the expected
// content in errors: "list of weights". Never blocks: a FIFO is refused. Fails with
// MMUL_ERR_NO_INPUT (missing, unreadable, not a regular file), MMUL_ERR_DATA (more than
// MMUL_TEXT_FILE_BYTES_MAX) and MMUL_ERR_SYSTEM.
enum mmul_status mmul_text_file_load(const char *path, const char *what, char **text,
                                     struct mmul_error *err);
