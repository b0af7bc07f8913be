// SPDX-License-Identifier: MIT
//
// PoCL has no device where it cannot write to its cache, a folder in the user's home: it gets another one then.
#pragma once

#include <stdbool.h>

// To be called before OpenCL is first asked for devices in a process. Where PoCL's own folder cannot be written,
// $POCL_CACHE_DIR becomes `ours` from then on: a folder of this user's below the temporary one, which stays. `own` is
// PoCL's. False: nothing was changed, also where it is set already, or there is no such folder for us either.
bool mmul_pocl_cache_replace(char own[static 512], char ours[static 512]);
