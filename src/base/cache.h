// SPDX-License-Identifier: MIT
// The user's cache folder as defined by the XDG base directory specification: files that are kept
// between runs and may be lost at any time. Also the folder for temporary files.
#pragma once

#include "mpimatmul_local.h"

// Writes the path of file `name` in $XDG_CACHE_HOME/mpimatmul, or else in ~/.cache/mpimatmul.
// Slashes in `name` become '_'. `what` names the content in error texts. Fails with MMUL_ERR_CREATE
// if there is no home or the path does not fit.
enum mmul_status mmul_cache_path(const char *name, const char *what, char path[static 512],
                                 struct mmul_error *err);

// Returns $TMPDIR, or /tmp if that is unset or empty.
const char *mmul_temporary_folder(void);

// Creates the missing folders above `path` with mode 0700. Fails with MMUL_ERR_CREATE.
enum mmul_status mmul_cache_make_folders(const char *path, struct mmul_error *err);
