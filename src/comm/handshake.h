// SPDX-License-Identifier: MIT
// Do all ranks run the same thing?
#pragma once

#include "comm/comm.h"

// Collective over world. `options`: lines "name=value" that must agree; NULL: none.
// Fails everywhere alike: MMUL_ERR_SYSTEM (version of this program, of MPI, byte order) or
// MMUL_ERR_USAGE (an option), naming the lowest rank that differs from root and both values.
enum mmul_status mmul_handshake(const struct mmul_comm *comm, const char *version,
                                const char *options, struct mmul_error *err);

// "Open MPI v4.1.4". Local; legal before MPI has started. Returns `name`.
char *mmul_comm_library(char name[static 64]);
