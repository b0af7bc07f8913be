// SPDX-License-Identifier: MIT
// Where the parts of the block are.
#include "plan/lists/plan.h"

#include "base/memory.h"

static struct mmul_plan_rank *plan_ranks(struct mmul_plan *plan) {
    return (struct mmul_plan_rank *)(plan + 1);
}

static struct mmul_plan_node *plan_nodes(struct mmul_plan *plan) {
    return (struct mmul_plan_node *)(plan_ranks(plan) + plan->size);
}

void mmul_plan_set_member(struct mmul_plan *plan, int node, bool takes_part) {
    plan_nodes(plan)[node].takes_part = takes_part;
}

const struct mmul_plan_rank *mmul_plan_ranks(const struct mmul_plan *plan) {
    return (const struct mmul_plan_rank *)(plan + 1);
}

const struct mmul_plan_node *mmul_plan_nodes(const struct mmul_plan *plan) {
    return (const struct mmul_plan_node *)(mmul_plan_ranks(plan) + plan->size);
}

void mmul_plan_free(struct mmul_plan *plan) {
    mmul_free(plan);
}
