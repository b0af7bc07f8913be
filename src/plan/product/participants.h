// SPDX-License-Identifier: MIT
//
// Candidates for the ranks that take part in a product. Pure.
//
// A device that is slower, transfers included, than one core of the CPU beside it takes no part.
// The other nodes are ordered by the speed of their link from root, then by their own speed.
// schedule_choose.c tries prefixes of this order.
#pragma once

#include "plan/cost/cost.h"

enum mmul_exclusion {
    MMUL_NOT_EXCLUDED,
    MMUL_EXCLUDED_SPEED_UNKNOWN,  // speed not known
    MMUL_EXCLUDED_SLOW_LINK,      // the node's link is too slow, or too far down the chain
    MMUL_EXCLUDED_SLOW_TRANSFERS, // transfers to and from the device cost more than it contributes
    MMUL_EXCLUDED_SLOW_DEVICE,    // slower than a core of the CPU beside it
};

struct mmul_participants {
    enum mmul_exclusion *absence; // per rank, owned: slow devices and unknown speeds
    // Per node, owned: position in the order, most useful first; -1: root's node, or no use.
    int *place;
    int count; // nodes in the order
};

// Finds the candidates. `cost` must be set, with all ranks in. Fails with MMUL_ERR_SYSTEM (memory)
// only. Release with mmul_participants_fini in any case.
enum mmul_status mmul_participants_find(const struct mmul_cost *cost,
                                        struct mmul_participants *participants,
                                        struct mmul_error *err);
void mmul_participants_fini(struct mmul_participants *participants);

// Writes to `in`, per rank, the ranks of root's node and of the first `nodes` nodes of the order.
// Returns true if these are all ranks.
bool mmul_participants_admit(const struct mmul_participants *participants,
                             const struct mmul_cost *cost, int nodes, bool *in);

// Writes "rank 3", "ranks 3, 7" or "ranks 3, 7, 8 and 12 more" for the ranks with `out`.
char *mmul_ranks_format(const bool *out, int size, char text[static 64]);
