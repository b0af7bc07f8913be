// SPDX-License-Identifier: MIT
// Takes the time of each rank for its share, over the runs of one plan, as its speed in that
// program. Moves no data itself: the next program is planned with the new weights, and its plan
// moves held values where it needs them.
#include "exec/job/rebalance.h"

#include <math.h>

#include "base/memory.h"

// Time before the shares are checked: at least FIRST_SECONDS of runs, and PLANS times the time that
// planning took. The first limit doubles after each change, up to LONGEST_SECONDS. A change costs
// plans and a move of all held values, and the pace of a rank varies.
static const double FIRST_SECONDS = 1, PLANS = 20, LONGEST_SECONDS = 60;
enum { RUNS_LEAST = 2 };

// Least relative gain that is worth a change.
static const double GAIN = 0.05;

struct mmul_balance {
    double wait_seconds; // run time until the next check of the shares
    double plan_seconds; // longest time that a plan took to make
    bool has_weights;
    double weights[];
};

static double busy_of(const struct mmul_report_rank *r) {
    return r->compute_seconds + r->copy_seconds + r->verify_seconds;
}

static bool may_rebalance(const struct mmul_context *context,
                          const struct mmul_program_plan *plan) {
    return context->comm->rank == 0 && context->comm->size > 1 && plan->has_free_shares &&
           plan->is_kept && !plan->options.reproducible &&
           plan->rank_group_count <= MMUL_GROUP_ALL + 1;
}

// Returns the relative gain of the slowest rank if shares followed the observed speeds, and stores
// those in `weights`.
static double find_gain(const struct mmul_program_plan *plan, double *weights) {
    double now = 0, speeds = 0;
    for (int rank = 0; rank < plan->costs.size; rank++) {
        const double share = plan->costs.shares[rank], busy = plan->busy_seconds[rank];
        // A rank without a share, as with fewer groups than ranks, stays without one.
        weights[rank] = share > 0 && busy > 0 ? share / busy : 0;
        speeds += weights[rank];
        now = fmax(now, busy);
    }
    return speeds > 0 ? 1 - 1 / speeds / now : 0;
}

static struct mmul_balance *balance_of(struct mmul_context *context) {
    const int64_t size = context->comm->size;
    struct mmul_error ignored; // without memory for it the shares stay as they are
    if (context->balance == NULL)
        context->balance = mmul_allocate(
            1, sizeof *context->balance + (size_t)size * sizeof *context->balance->weights,
            "shares", &ignored);
    if (context->balance != NULL && context->balance->wait_seconds == 0)
        context->balance->wait_seconds = FIRST_SECONDS;
    return context->balance;
}

void mmul_rebalance_add_run(struct mmul_context *context, struct mmul_program_plan *plan,
                            const struct mmul_report *report) {
    struct mmul_error ignored;
    if (!may_rebalance(context, plan))
        return;
    struct mmul_balance *balance = balance_of(context);
    if (balance != NULL)
        balance->plan_seconds = fmax(balance->plan_seconds, context->startup.plan_seconds);
    if (plan->busy_seconds == NULL &&
        MMUL_ALLOCATE(plan->busy_seconds, plan->costs.size, "shares", &ignored) != MMUL_OK)
        return;
    for (int rank = 0; rank < plan->costs.size; rank++)
        plan->busy_seconds[rank] += busy_of(&report->ranks[rank]);
    plan->run_seconds += report->wall_seconds;
    plan->runs++;
    if (balance == NULL || plan->runs < RUNS_LEAST ||
        plan->run_seconds < fmax(balance->wait_seconds, PLANS * balance->plan_seconds))
        return;
    double *found = NULL;
    if (MMUL_ALLOCATE(found, plan->costs.size, "shares", &ignored) != MMUL_OK)
        return;
    if (find_gain(plan, found) > GAIN) {
        for (int rank = 0; rank < plan->costs.size; rank++)
            balance->weights[rank] = found[rank];
        balance->has_weights = true;
        balance->wait_seconds = fmin(2 * balance->wait_seconds, LONGEST_SECONDS);
    }
    for (int rank = 0; rank < plan->costs.size; rank++)
        plan->busy_seconds[rank] = 0;
    plan->run_seconds = 0;
    plan->runs = 0;
    mmul_free(found);
}

const double *mmul_rebalance_weights(const struct mmul_context *context) {
    return context->balance != NULL && context->balance->has_weights ? context->balance->weights
                                                                     : NULL;
}

void mmul_rebalance_destroy(struct mmul_context *context) {
    mmul_free(context->balance);
    context->balance = NULL;
}
