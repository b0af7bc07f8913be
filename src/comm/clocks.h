// SPDX-License-Identifier: MIT
//
// Offsets between the monotonic clocks of hosts, which begin at arbitrary times.
#pragma once

#include "comm/comm.h"

// Collective over world. *clock_lead_seconds: lead of this host's clock over root's, accurate to
// half of the shortest of some round trips; 0 on root's node.
enum mmul_status mmul_clocks_measure_offset(const struct mmul_comm *comm,
                                            double *clock_lead_seconds, struct mmul_error *err);
