// SPDX-License-Identifier: MIT
// A substitute for PoCL's cache. PoCL offers no device if it cannot write to its cache, a folder in
// the user's home.
#pragma once

#include <stdbool.h>

// Call this before the process first asks OpenCL for devices. If PoCL's own folder is not writable,
// sets $POCL_CACHE_DIR to `ours`: this user's folder below the temporary one, which is not removed.
// `own` gets PoCL's folder. Returns false if nothing was changed: the folder is writable, the
// variable is set already, or our folder cannot be used either.
bool mmul_pocl_cache_replace(char own[static 512], char ours[static 512]);
