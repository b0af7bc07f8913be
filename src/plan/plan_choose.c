// SPDX-License-Identifier: MIT
// How the work is cut, who takes part and how many units each gets: candidates go through the cost
// model, and what does not fit into memory is no candidate. Where speeds are not known, assumed
// ones decide about panels but never about shares.
#include "plan/planning.h"

#include "base/integer.h"
#include "base/status.h"
#include "plan/share.h"

static const double ASSUMED_FLOPS = 1e11;
static const double WORTH_A_STEP = 0.99; // of the seconds with fewer panels
static const double WORTH_ROUNDS = 0.9;  // of the seconds in one round

enum mmul_status mmul_planning_share(struct mmul_planning *p, const double *weights, int64_t total,
                                     struct mmul_error *err) {
    const struct mmul_share_request request = {.total = total,
                                               .size = p->plan->size,
                                               .node_count = p->plan->node_count,
                                               .weights = weights,
                                               .rank_node = p->rank_node,
                                               .node_capacity = p->capacity,
                                               .rule = p->plan->rule};
    return mmul_share_units(&request, p->counts, p->clipped, err);
}

// ------------------------------------------------------------------------------------------ cuts

// Seconds of a cut with the shares it would get, in p->units; 0 in *seconds: it does not fit.
static enum mmul_status try_cut(struct mmul_planning *p, const struct mmul_cut *cut, int64_t total,
                                double *seconds, struct mmul_error *err) {
    *seconds = total == 0 ? 1e-9 : 0; // nothing to do is done at once
    for (int rank = 0; rank < p->plan->size; rank++)
        p->counts[rank] = 0;
    if (total == 0 || mmul_planning_measure(p, cut) < (double)total)
        return MMUL_OK;
    mmul_cost_set(p->cost, p->in, cut);
    if (p->automatic) {
        *seconds = mmul_balance(p->cost, (double)total, p->capacity, p->units);
        return MMUL_OK;
    }
    enum mmul_status status = mmul_planning_share(p, p->weights, total, err);
    for (int rank = 0; status == MMUL_OK && rank < p->plan->size; rank++)
        p->units[rank] = (double)p->counts[rank];
    if (status == MMUL_OK)
        *seconds = mmul_cost_evaluate(p->cost, p->units);
    return status == MMUL_ERR_SYSTEM ? MMUL_OK : status;
}

// Fewest rounds for which the capacities hold everything; 0: none do.
static int64_t least_rounds(struct mmul_planning *p, struct mmul_cut cut, int64_t total) {
    int64_t low = 1, high = 2;
    for (;; low = high, high *= 2) {
        cut.rounds = high;
        if (mmul_planning_measure(p, &cut) >= (double)total)
            break;
        if (high > total)
            return 0;
    }
    while (high - low > 1) {
        cut.rounds = low + (high - low) / 2;
        *(mmul_planning_measure(p, &cut) >= (double)total ? &high : &low) = cut.rounds;
    }
    return high;
}

struct best {
    struct mmul_cut cut;
    double seconds; // 0: none so far
};

// Takes a cut that needs at most `share` of the seconds of the best one so far.
static enum mmul_status consider(struct mmul_planning *p, const struct mmul_cut *cut, int64_t total,
                                 double share, struct best *best, struct mmul_error *err) {
    double seconds;
    enum mmul_status status = try_cut(p, cut, total, &seconds, err);
    if (status == MMUL_OK && seconds > 0 &&
        (!(best->seconds > 0) || seconds < share * best->seconds))
        *best = (struct best){*cut, seconds};
    return status;
}

// Whether a node's balanced share is what its memory holds: the others have to take the rest.
static bool is_clipped(const struct mmul_planning *p, int node) {
    double room = (double)p->capacity[node];
    return p->cost->nodes[node].units > 0.999 * room && room < (double)p->plan->total;
}

static bool any_clipped(const struct mmul_planning *p) {
    for (int node = 0; node < p->plan->node_count; node++)
        if (p->cost->nodes[node].in && is_clipped(p, node))
            return true;
    return false;
}

// As few rounds as possible, with the whole operand staying or streamed.
static enum mmul_status consider_streams(struct mmul_planning *p, struct mmul_cut cut,
                                         int64_t total, struct best *best, struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int stays = 1; status == MMUL_OK && stays >= 0; stays--) {
        cut.whole_stays = stays;
        cut.rounds = cut.panels == 1 && !stays ? 0 : least_rounds(p, cut, total);
        if (cut.rounds > 0)
            status = consider(p, &cut, total, WORTH_A_STEP, best, err);
    }
    return status;
}

// More rounds than memory asks for: work begins after the first pieces, not after all of them, and
// nodes short of memory can take more.
static enum mmul_status consider_rounds(struct mmul_planning *p, const struct mmul_cut *one,
                                        int64_t total, struct best *best, struct mmul_error *err) {
    double share = any_clipped(p) ? WORTH_A_STEP : WORTH_ROUNDS;
    struct mmul_cut cuts[] = {best->cut, *one};
    enum mmul_status status = MMUL_OK;
    for (int64_t rounds = 2; rounds <= 8; rounds *= 2) {
        for (int i = 0; status == MMUL_OK && i < 2 - (cuts[0].panels == 1); i++) {
            cuts[i].rounds = rounds;
            status = consider(p, &cuts[i], total, share, best, err);
        }
    }
    return status;
}

// One round if that fits, then the panels with the least seconds; else as few rounds as possible.
// A coarser look when it is not the last one.
static enum mmul_status choose_among(struct mmul_planning *p, int64_t total, bool last,
                                     struct best *best, struct mmul_error *err) {
    struct mmul_cut cuts[MMUL_PANEL_CANDIDATES];
    int count = mmul_panels_candidates(&p->plan->problem, p->plan->axis, cuts);
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < count; i += last ? 1 : 2)
        status = consider(p, &cuts[i], total, WORTH_A_STEP, best, err);
    if (status == MMUL_OK && best->seconds > 0 && p->speeds_known && p->plan->node_count > 1 &&
        last)
        return consider_rounds(p, &cuts[0], total, best, err);
    for (int i = 0; status == MMUL_OK && !(best->seconds > 0 && best->cut.rounds == 1) && i < count;
         i++)
        status = consider_streams(p, cuts[i], total, best, err);
    return status;
}

// The cut with the least predicted seconds. One round of one panel is all that a run without
// panels can do.
static enum mmul_status choose_panels(struct mmul_planning *p, int64_t total, bool last,
                                      struct best *best, struct mmul_error *err) {
    const struct mmul_cut one = mmul_panels_one(&p->plan->problem, p->plan->axis);
    *best = (struct best){.seconds = 0};
    enum mmul_status status = p->request->panels
                                  ? choose_among(p, total, last, best, err)
                                  : consider(p, &one, total, WORTH_A_STEP, best, err);
    if (status == MMUL_OK && !(best->seconds > 0))
        return mmul_planning_fail_memory(p, err);
    return status;
}

// --------------------------------------------------------------------------------------- members

// With everybody first; then who should stay, and the cut once more for those.
static enum mmul_status choose_members(struct mmul_planning *p, int64_t total, struct best *best,
                                       struct mmul_error *err) {
    struct mmul_members members = {.absence = p->absence, .in = p->in, .units = p->units};
    struct best again = *best;
    double all = best->seconds;
    mmul_planning_measure(p, &best->cut);
    enum mmul_status status =
        mmul_members_choose(p->cost, &best->cut, (double)total, p->capacity, &members, err);
    if (status == MMUL_OK)
        status = choose_panels(p, total, true, &again, err);
    bool finer = again.cut.panels > 2 * best->cut.panels;
    if (status == MMUL_OK && (finer || best->cut.panels > 2 * again.cut.panels)) { // who now?
        for (int rank = 0; rank < p->plan->size; rank++)
            p->in[rank] = p->weights[rank] > 0;
        mmul_planning_measure(p, &again.cut);
        status =
            mmul_members_choose(p->cost, &again.cut, (double)total, p->capacity, &members, err);
        if (status == MMUL_OK)
            status = choose_panels(p, total, true, &again, err);
    }
    if (status == MMUL_OK) {
        *best = again;
        p->all_seconds = all;
    }
    return status;
}

// Everybody with a weight; speeds to choose panels by where none are known.
static void admit_all(struct mmul_planning *p) {
    double sum = 0;
    for (int rank = 0; rank < p->plan->size; rank++) {
        p->in[rank] = p->weights[rank] > 0;
        p->absence[rank] = MMUL_PRESENT;
        sum += p->in[rank] ? p->weights[rank] : 0;
    }
    for (int rank = 0; rank < p->plan->size; rank++)
        p->assumed[rank] = p->automatic || !p->in[rank]
                               ? 0
                               : ASSUMED_FLOPS * p->plan->size * (p->weights[rank] / sum);
}

// Cut, members and whole units.
static enum mmul_status choose_shares(struct mmul_planning *p, struct mmul_error *err) {
    int64_t total = p->plan->total;
    struct best best;
    double seconds;
    admit_all(p);
    p->all_seconds = 0;
    enum mmul_status status = choose_panels(p, total, !p->automatic, &best, err);
    if (status == MMUL_OK && p->automatic)
        status = choose_members(p, total, &best, err);
    if (status == MMUL_OK)
        status = try_cut(p, &best.cut, total, &seconds, err); // p->units and capacities of the best
    if (status == MMUL_OK)
        status = mmul_planning_share(p, p->automatic ? p->units : p->weights, total, err);
    for (int node = 0; p->automatic && status == MMUL_OK && node < p->plan->node_count; node++)
        p->clipped[node] = is_clipped(p, node);
    if (status == MMUL_ERR_SYSTEM)
        return mmul_planning_fail_memory(p, err);
    p->cut = best.cut;
    p->seconds = best.seconds;
    return status;
}

// ---------------------------------------------------------------------------------------- claims

// What others may claim of a block costs its owner two calls more; half of it where that is the
// plan's choice, in parts of a width that a CPU multiplies as fast as the whole.
static void choose_claims(struct mmul_planning *p) {
    const double half = 0.5;
    const int64_t least = 512;
    bool automatic = p->request->tail == MMUL_TAIL_AUTO;
    if (p->request->tail == MMUL_TAIL_OFF || p->plan->problem.alpha == 0)
        return;
    p->plan->claim_share = automatic ? half : p->request->tail_share;
    p->plan->claim_least = automatic ? least : 1;
}

// --------------------------------------------------------------------------------------- the plan

// What is chosen, into the plan.
static void write_shares(struct mmul_planning *p) {
    int64_t begin = 0;
    p->plan->rounds = p->cut.rounds;
    p->plan->panel_units = p->cut.panel_units;
    p->plan->panel_matrices = p->cut.panel_matrices;
    for (int rank = 0; rank < p->plan->size; rank++) {
        p->ranks[rank].begin = begin;
        p->ranks[rank].end = begin += p->counts[rank];
    }
}

enum mmul_status mmul_planning_choose(struct mmul_planning *p, struct mmul_error *err) {
    choose_claims(p);
    enum mmul_status status = choose_shares(p, err);
    while (status == MMUL_OK && mmul_planning_stop_mapping(p))
        status = choose_shares(p, err);
    if (status != MMUL_OK)
        return status;
    write_shares(p);
    return mmul_planning_fit(p) ? MMUL_OK : mmul_planning_fail_memory(p, err);
}
