// SPDX-License-Identifier: MIT
// Whether memory can still be mapped, for libraries that do not take no for an answer.
#pragma once

#include "mpimatmul_local.h"

// Can this process map `count` more pieces of `bytes` each? Maps them all and gives them back,
// without touching them. `what` says in the error what for: "OpenBLAS's threads". Fails with
// MMUL_ERR_SYSTEM, with what `ulimit -v` allows and what is in use.
enum mmul_status mmul_address_space_check(int count, int64_t bytes, const char *what,
                                          struct mmul_error *err);

// Is the limit on address space, if there is one, at least `bytes`? Fails likewise.
enum mmul_status mmul_address_space_check_total(int64_t bytes, const char *what,
                                                struct mmul_error *err);

// Is there a limit below what the machine has (`ulimit -v`)?
bool mmul_address_space_is_limited(void);
