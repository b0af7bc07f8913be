// SPDX-License-Identifier: MIT
// Cost of traffic for concurrent computing: copies, checksums, network interrupts, caches.
#pragma once

#include "exec/setup/context.h"

// Measures the traffic costs of `speed`. Collective over the leaders; on other ranks it does
// nothing. Each leader exchanges packets with a neighbour, one way and both ways at once, while its
// CPU multiplies, alternating with windows without traffic. This takes about 80 ms, thoroughly 2 s,
// and twice as long for an odd number of nodes. Speeds and links of the cluster have been measured
// before.
// Sets send_seconds_per_byte, receive_seconds_per_byte and duplex. They are 0 on devices with
// memory of their own and after a failed product: the run will report that failure.
// Fails with MMUL_ERR_SYSTEM (memory, network, threads), after its neighbour's part is over.
// Callers agree over world afterwards.
enum mmul_status mmul_traffic_cost_measure(const struct mmul_context *context, bool thorough,
                                           struct mmul_speed *speed, struct mmul_error *err);
