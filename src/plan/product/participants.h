// SPDX-License-Identifier: MIT
//
// Selects the ranks that take part in a product. Ranks that would slow the job down get nothing.
// Pure.
//
// Other nodes are ordered by the speed of their link from root, then by their own speed. Prefixes
// of this order are tried: all up to 16 nodes, else some 30 of them. The prefix with the least
// predicted seconds wins: a superfluous node delays all nodes behind it in the chain, or costs root
// more CPU than it contributes. All ranks stay unless leaving some out saves one per cent. Nodes
// that get no units leave the chain. A device that is slower, transfers included, than one core of
// the CPU beside it is left out.
#pragma once

#include "plan/product/balance.h"

enum mmul_exclusion {
    MMUL_NOT_EXCLUDED,
    MMUL_EXCLUDED_SPEED_UNKNOWN,  // speed not known
    MMUL_EXCLUDED_SLOW_LINK,      // the node's link is too slow, or too far down the chain
    MMUL_EXCLUDED_SLOW_TRANSFERS, // transfers to and from the device cost more than it contributes
    MMUL_EXCLUDED_SLOW_DEVICE,    // slower than a core of the CPU beside it
};

struct mmul_participants {
    enum mmul_exclusion *absence; // per rank; owned by the caller
    bool *in;                     // per rank; owned by the caller
    double *units;                // per rank, as of mmul_balance; owned by the caller
    double seconds;               // predicted for these members; 0: no shares reach the total
};

// Chooses members. `total` and `capacity` are those of mmul_balance. Sets `cost` to the result.
// Fails with MMUL_ERR_SYSTEM (memory for work space) only.
enum mmul_status mmul_participants_choose(struct mmul_cost *cost, const struct mmul_cut *cut,
                                          double total, const int64_t *capacity,
                                          struct mmul_participants *members,
                                          struct mmul_error *err);

// Writes "rank 3", "ranks 3, 7" or "ranks 3, 7, 8 and 12 more" for the ranks with `out`.
char *mmul_ranks_format(const bool *out, int size, char text[static 64]);
