// SPDX-License-Identifier: MIT
//
// Who takes part: ranks that would slow the job down get nothing. Pure.
//
// Other nodes are ordered by how fast root reaches them, then by their speed; the first so many of
// them are tried (all numbers up to 16 nodes, else some 30 of them) and the number with the least
// predicted seconds is taken: a node too many delays all behind it in the chain, or costs root more
// CPU than it gives. All stay unless leaving some out saves one per cent. Nodes that get no units
// leave the chain. A device that is slower, transfers included, than one core of the CPU beside it
// is left out.
#pragma once

#include "plan/product/balance.h"

enum mmul_absence {
    MMUL_PRESENT,
    MMUL_ABSENT_SPEED,     // its speed is not known
    MMUL_ABSENT_LINK,      // its node's link is too slow, or too far down the chain
    MMUL_ABSENT_TRANSFERS, // moving its bytes to the device and back costs more than it gives
    MMUL_ABSENT_DEVICE,    // slower than a core of the CPU beside it
};

struct mmul_members {
    enum mmul_absence *absence; // per rank; caller's
    bool *in;                   // the same; caller's
    double *units;              // per rank, as of mmul_balance; caller's
    double seconds;             // predicted with these; 0: no shares reach the total
};

// `total` and `capacity` as for mmul_balance. Sets `cost` to the result.
// Fails with MMUL_ERR_SYSTEM (memory for work space) only.
enum mmul_status mmul_members_choose(struct mmul_cost *cost, const struct mmul_cut *cut,
                                     double total, const int64_t *capacity,
                                     struct mmul_members *members, struct mmul_error *err);

// "rank 3", "ranks 3, 7" or "ranks 3, 7, 8 and 12 more" for those of which `out` holds.
char *mmul_members_format(const bool *out, int size, char text[static 64]);
