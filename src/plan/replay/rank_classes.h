// SPDX-License-Identifier: MIT
//
// Folds a schedule, so that few ranks represent many. Similar nodes become one node. Similar ranks
// of a node become one rank, which has the units of all of them. Of many rounds the folded schedule
// has the first ones, with their part of the units; of many panels it has fewer and wider ones. Its
// lists (plan/lists/transfers.h, plan/lists/tasks.h) are those of the whole schedule, shorter, so
// results of a walk hold for thousands of ranks. Pure.
//
// With at most MMUL_FOLD_RANKS ranks and MMUL_FOLD_PASSES passes nothing is folded.
// Without folding a plan of 4,096 ranks takes more than 40 s instead of 0.34 (bench/ledger.md).
#pragma once

#include "plan/cost/cost.h"
#include "plan/lists/schedule.h"

enum { MMUL_FOLD_RANKS = 16, MMUL_FOLD_PASSES = 64 };

struct mmul_rank_classes {
    int size, node_count;
    int *rank_of; // class of each rank of the whole schedule; owned, like all below
    int *node_of; // class of each node; root's node is class 0
    int *members; // size: ranks in the class
    int *nodes;   // node_count: nodes in the class
    int *home;    // size: node class of the rank class
    int *leaders; // node_count: rank class of the leaders
    int *last;    // node_count: last node of the class in the relay chain
};

// Ranks that must finish all earlier stages before a rank begins a stage.
enum mmul_waits { MMUL_WAITS_NONE, MMUL_WAITS_NODE_RANKS, MMUL_WAITS_ALL_RANKS };

// A stage of a job.
struct mmul_stage_plan {
    double seconds; // time of its ranks; of a product: fused operations alone
    enum mmul_waits waits;
    int due; // early move: first stage that waits for its arrival; 0: not an early move
};

// A product of a job, with its cost model, set to its cut and members.
struct mmul_product_plan {
    const struct mmul_schedule *schedule;
    const struct mmul_cost *cost;
    int stage;
    int needs; // stage that makes the bytes which ranks send each other; -1: none
};

// Finds the classes for all products. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_rank_classes_init(const struct mmul_cluster *cluster,
                                        const struct mmul_product_plan *products, int count,
                                        struct mmul_rank_classes *classes, struct mmul_error *err);
void mmul_rank_classes_fini(struct mmul_rank_classes *classes);

// Makes the folded schedule of one product; release it with mmul_schedule_free. Fails with
// MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_rank_classes_fold(const struct mmul_rank_classes *classes,
                                        const struct mmul_schedule *whole,
                                        struct mmul_schedule **schedule, struct mmul_error *err);
