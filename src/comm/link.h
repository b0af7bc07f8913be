// SPDX-License-Identifier: MIT
// Links between nodes: latency and bandwidth, by messages of growing size between two members of a
// communicator, with naps while others have their turn. Of the two directions the slower one counts.
#pragma once

#include "comm/comm.h"
#include "model/cluster.h"

struct mmul_link_limits {
    double budget_seconds; // per link, about: one message of each kind is sent in any case
    int64_t most_bytes;    // largest message
    int most_root_links;   // 0: all. More members than that: so many, evenly spread, are measured,
                           // and each of the others gets the median
};

// Collective over `mpi`, whose members are one process per node. root_links[i] becomes the link
// between members 0 and i (zero for 0 itself), ring_links[i] the one between i and its neighbour
// i + 1, after the last the first; both have as many entries as `mpi` has members and are the same
// on all. Root links are measured one after the other, so that none slows another down; ring links
// that share no member at the same time. Never all pairs. Alone nothing is measured.
// Takes about (root links + 3) budgets. Fails with MMUL_ERR_SYSTEM on all members alike; with `alarm`
// (NULL: nobody is told) where MPI fails on one alone, only there, and the others return MMUL_OK with
// nothing measured: agree over world afterwards.
enum mmul_status mmul_links_measure(MPI_Comm mpi, struct mmul_alarm *alarm,
                                    const struct mmul_link_limits *limits,
                                    struct mmul_link *root_links, struct mmul_link *ring_links,
                                    struct mmul_error *err);
