// SPDX-License-Identifier: MIT
// The start-up handshake: checks that all ranks run the same program, MPI library and options.
#pragma once

#include "comm/comm.h"

// Collective over world. `options`: lines "name=value" that must agree; NULL: none. Fails on all
// ranks alike: MMUL_ERR_SYSTEM (version of this program, of MPI, byte order) or MMUL_ERR_USAGE (an
// option). The error names the lowest rank that differs from root, and both values.
enum mmul_status mmul_handshake(const struct mmul_comm *comm, const char *version,
                                const char *options, struct mmul_error *err);

// Writes the name of the MPI library, such as "Open MPI v4.1.4". Local; may be called before MPI
// has started. Returns `name`.
char *mmul_comm_library_name(char name[static 64]);
