// SPDX-License-Identifier: MIT
//
// Makes a schedule. A pure function of a problem, a cluster and the user's wishes: no MPI, no
// OpenCL, no files. Root computes the schedule and sends it, so mixed machines cannot disagree.
#pragma once

#include "model/cluster.h"
#include "plan/lists/schedule.h"

struct mmul_schedule_request {
    const struct mmul_problem *problem;
    const struct mmul_cluster *cluster;
    const double *weights; // one per rank; NULL: all ranks finish together
    // One enum mmul_maps per node; NULL: none. A matrix that is a value on the node counts as
    // mapped.
    const unsigned *node_maps;
    // Maps that are values on every node: they stay mapped regardless of memory.
    unsigned value_maps;
    const int64_t *offsets; // size + 1: fixed part of every rank; NULL: by weights
    // Size + 1: rows of the whole operand that every rank has, over all matrices; NULL: root has
    // it.
    const int64_t *whole_offsets;
    enum mmul_split_choice split;
    enum mmul_split_rule rule;
    bool panels; // may choose panels and rounds; else one round of one panel
    // Seconds between entries of a journal: results that are not computed in their file are stored
    // in rounds of about this time. 0: no journal.
    double journal_seconds;
    enum mmul_tail tail; // share of every block that may be stolen at run time
    double tail_share;   // the share for MMUL_TAIL_SHARE
    // Rows of A and C are values, which can move to another node and back.
    bool may_steal_across_nodes;
    int64_t memory_limit_bytes, device_memory_limit_bytes; // 0: none
    // Per node: memory that other parts of the run use; NULL: none.
    const int64_t *taken_bytes;
    // Per node: most bytes of the rest, ignoring the limit; NULL: all.
    const int64_t *most_bytes;
};

// Makes a schedule. Fails with MMUL_ERR_USAGE (weights) or MMUL_ERR_SYSTEM (does not fit, with the
// numbers).
enum mmul_status mmul_schedule_make(const struct mmul_schedule_request *request,
                                    struct mmul_schedule **schedule, struct mmul_error *err);

// Writes to `bytes` the least memory per node, beside taken_bytes and ignoring the limit, for
// which a schedule exists. The search uses cuts alone, so a little more may be needed. most_bytes
// of the request is ignored. Fails like mmul_schedule_make if all available memory is too little.
enum mmul_status mmul_schedule_least_memory(const struct mmul_schedule_request *request,
                                            int64_t *bytes, struct mmul_error *err);
