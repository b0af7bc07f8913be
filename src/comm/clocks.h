// SPDX-License-Identifier: MIT
//
// Monotonic clocks of hosts begin when they like: how far they are apart.
#pragma once

#include "comm/comm.h"

// Collective over world: *ahead_seconds is how much this host's clock is ahead of root's, known to
// within half of the shortest of some round trips; 0 on root's node.
enum mmul_status mmul_clocks_compare(const struct mmul_comm *comm, double *ahead_seconds,
                                     struct mmul_error *err);
