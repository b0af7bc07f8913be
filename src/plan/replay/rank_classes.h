// SPDX-License-Identifier: MIT
//
// A schedule for a few that stand for many: nodes that are alike become one node, ranks of a node that are
// alike one rank, which have the units of all of them. Of many rounds it has the first, with their part
// of the units, and of many panels fewer and wider ones. The lists of such a schedule (plan/lists/transfers.h,
// plan/lists/tasks.h) are those of the whole one, shorter, so that what is learnt by walking them holds for
// thousands of ranks. Pure.
//
// Up to so many ranks, and passes, everybody and everything stands for itself.
#pragma once

#include "plan/cost/cost.h"
#include "plan/lists/schedule.h"

enum { MMUL_FOLD_RANKS = 16, MMUL_FOLD_PASSES = 256 };

struct mmul_rank_classes {
    int size, node_count;
    int *rank_of; // of the whole schedule's ranks: which stands for it; owned, like all below
    int *node_of; // the same of its nodes; root's is node 0
    int *members; // size: ranks that it stands for
    int *nodes;   // node_count: nodes that it stands for
    int *home;    // size: the node
    int *leaders; // node_count: the rank that stands for their leaders
    int *last;    // node_count: of those, the last one to which panels are passed on
};

// Whom a rank waits for before it begins a stage, until these are through with all that comes before it.
enum mmul_waits { MMUL_WAITS_NOBODY, MMUL_WAITS_NODE, MMUL_WAITS_ALL };

// A stage of a job: of a product that has a schedule what it costs, set to its cut and members; of all else the
// seconds that it takes its ranks.
struct mmul_stage_plan {
    const struct mmul_schedule *schedule; // NULL: it has none
    const struct mmul_cost *cost;
    double seconds; // of all else; of a product, of its fused operations
    enum mmul_waits waits;
    int needs; // the stage that makes what its ranks send each other; -1: none
    int due; // of what is on its way while later stages compute: the first that waits for it; 0: it is not
};

// Who stands for whom in all of them. Fails with MMUL_ERR_SYSTEM (memory).
enum mmul_status mmul_rank_classes_init(const struct mmul_cluster *cluster,
                                        const struct mmul_stage_plan *stages, int count,
                                        struct mmul_rank_classes *classes, struct mmul_error *err);
void mmul_rank_classes_fini(struct mmul_rank_classes *classes);

// The folded schedule of one of them, released with mmul_schedule_free; the same failure.
enum mmul_status mmul_rank_classes_plan(const struct mmul_rank_classes *classes,
                                        const struct mmul_schedule *whole,
                                        struct mmul_schedule **schedule, struct mmul_error *err);
