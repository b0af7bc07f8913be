// SPDX-License-Identifier: MIT
// What traffic costs the computing beside it: copies, checksums, the network's interrupts, caches.
#pragma once

#include "exec/setup/context.h"

// Collective over the leaders; other ranks get nothing. Each leader exchanges packets with a
// neighbour, one way and both at once, while its CPU multiplies, and does not, in turn, for about 80 ms,
// thoroughly 2 s, twice that where the number of nodes is odd. Speeds and links of the cluster have been measured. Sets
// send_seconds_per_byte, receive_seconds_per_byte and duplex of `speed`, 0 on devices with memory of their own
// and where a product fails: the run will find that out.
// Fails with MMUL_ERR_SYSTEM (memory, network, threads), after its neighbour's part is over; agree over
// world afterwards.
enum mmul_status mmul_traffic_cost_measure(const struct mmul_context *context, bool thorough,
                                           struct mmul_speed *speed, struct mmul_error *err);
