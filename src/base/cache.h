// SPDX-License-Identifier: MIT
// The user's cache folder, by the base directory specification: what is kept between runs and may
// be lost at any time. And the folder for what goes at the end of a run.
#pragma once

#include "mpimatmul_local.h"

// The path of file `name` (slashes in it become '_') in $XDG_CACHE_HOME/mpimatmul, else
// ~/.cache/mpimatmul; `what` is kept there, for the error. Fails with MMUL_ERR_CREATE: no home, or
// a path longer than that.
enum mmul_status mmul_cache_path(const char *name, const char *what, char path[static 512],
                                 struct mmul_error *err);

// $TMPDIR, or /tmp where that is not set or empty.
const char *mmul_temporary_folder(void);

// Makes the folders above `path`, ours with mode 0700. Fails with MMUL_ERR_CREATE.
enum mmul_status mmul_cache_make_folders(const char *path, struct mmul_error *err);
