// SPDX-License-Identifier: MIT
//
// Makes a schedule. A pure function of a problem, a cluster and the user's wishes: no MPI, no OpenCL, no files. Root
// computes it and sends it, so mixed machines cannot disagree.
#pragma once

#include "model/cluster.h"
#include "plan/lists/schedule.h"

struct mmul_schedule_request {
    const struct mmul_problem *problem;
    const struct mmul_cluster *cluster;
    const double *weights; // one per rank; NULL: such that all finish together
    const unsigned
        *node_maps; // enum mmul_maps per node; NULL: none. What is there as a value counts
                    // as mapped
    unsigned
        value_maps; // of these what is a value on every node: it stays so whatever memory there is
    const int64_t *offsets;       // size + 1: every rank's part, as it is; NULL: by weights
    const int64_t *whole_offsets; // size + 1: rows of the whole operand that every rank has (of all
                                  // matrices, one after the other); NULL: root has it
    enum mmul_split_choice split;
    enum mmul_split_rule rule;
    bool panels;         // may choose panels and rounds; else one round of one panel
    enum mmul_tail tail; // what of every block others may claim at run time
    double tail_share;   // MMUL_TAIL_SHARE: so much
    bool may_lend;       // rows of A and C are values, which can go to another node and come back
    int64_t memory_limit_bytes, device_memory_limit_bytes; // 0: none
    const int64_t *taken_bytes; // per node: memory that something else of the run has; NULL: none
    const int64_t
        *most_bytes; // per node: of what is left beside that, whatever the limit; NULL: all
};

// Fails: MMUL_ERR_USAGE (weights), MMUL_ERR_SYSTEM (does not fit, with the numbers).
enum mmul_status mmul_schedule_make(const struct mmul_schedule_request *request,
                                    struct mmul_schedule **schedule, struct mmul_error *err);

// The least that every node must have, beside what is taken, for a schedule to be made, whatever the limit; found by
// cuts alone, so a little more may be needed. `most_bytes` of the request are not looked at. Fails as that: not even
// with all that there is.
enum mmul_status mmul_schedule_least(const struct mmul_schedule_request *request, int64_t *bytes,
                                     struct mmul_error *err);
