// SPDX-License-Identifier: MIT
// Checks that memory can still be mapped, for libraries that do not handle a failed mapping.
#pragma once

#include "mpimatmul_local.h"

// Checks that this process can map `count` more pieces of `bytes` each. Maps them all without
// touching them and unmaps them. `what` names their purpose in the error: "OpenBLAS's threads".
// Fails with MMUL_ERR_SYSTEM and reports the limit of `ulimit -v` and the memory in use.
enum mmul_status mmul_address_space_check(int count, int64_t bytes, const char *what,
                                          struct mmul_error *err);

// Checks that the limit on address space, if there is one, is at least `bytes`. Fails likewise.
enum mmul_status mmul_address_space_check_total(int64_t bytes, const char *what,
                                                struct mmul_error *err);

// Returns true if `ulimit -v` limits the address space.
bool mmul_address_space_is_limited(void);
