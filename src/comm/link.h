// SPDX-License-Identifier: MIT
// Measurement of links between nodes: latency and bandwidth, by messages of growing size between
// two members of a communicator. Waiting members sleep. The slower one of the two directions
// counts.
#pragma once

#include "comm/comm.h"
#include "model/cluster.h"

struct mmul_link_limits {
    double budget_seconds; // per link, approximately; one message of each kind is always sent
    int64_t most_bytes;    // largest message
    // Largest number of root links that are measured, evenly spread; each of the others gets the
    // median. 0: all.
    int max_root_links;
};

// Collective over `mpi`, which has one process per node as members. root_links[i] becomes the link
// between members 0 and i (zero for 0 itself). ring_links[i] becomes the link between i and i + 1
// (after the last, the first). Both have one entry per member and are the same on all.
// Root links are measured one after the other, so that none slows another down. Ring links that
// share no member are measured at the same time. Never measures all pairs, and nothing with a
// single member. Takes about (root links + 3) budgets.
// Fails with MMUL_ERR_SYSTEM on all members alike. With `alarm` (may be NULL), if MPI fails on one
// member only, that one fails, and the others return MMUL_OK with nothing measured: agree over
// world afterwards.
enum mmul_status mmul_links_measure(MPI_Comm mpi, struct mmul_alarm *alarm,
                                    const struct mmul_link_limits *limits,
                                    struct mmul_link *root_links, struct mmul_link *ring_links,
                                    struct mmul_error *err);
