// SPDX-License-Identifier: MIT
// Chooses the cut, the members and the units of each rank. A candidate is a cut with its members.
// `score_trial` gives it seconds and shares, or none if it does not fit into memory. The best
// candidate so far and the current one swap places. If speeds are not known, assumed speeds decide
// about panels but never about shares.
#include "plan/product/schedule_planning.h"

#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "base/status.h"
#include "plan/lists/tasks.h"
#include "plan/parts/share.h"

static const double WORTH_A_STEP = 0.99; // share of the seconds with fewer panels
static const double WORTH_ROUNDS = 0.9;  // share of the seconds in one round

// ----------------------------------------------------------------------------------- one candidate

// Takes the parts as given: values that are in memory cannot go elsewhere.
static enum mmul_status take_given_parts(const struct mmul_planning *p, struct mmul_candidate *c,
                                         struct mmul_error *err) {
    const int64_t *offsets = p->request->offsets;
    for (int node = 0; node < p->schedule->node_count; node++) {
        int64_t units = 0;
        for (int rank = 0; rank < p->schedule->size; rank++)
            units += p->rank_node[rank] == node ? offsets[rank + 1] - offsets[rank] : 0;
        if (units > c->capacity[node])
            return mmul_fail(err, MMUL_ERR_SYSTEM, "parts do not fit");
    }
    for (int rank = 0; rank < p->schedule->size; rank++)
        c->counts[rank] = offsets[rank + 1] - offsets[rank];
    return MMUL_OK;
}

enum mmul_status mmul_planning_share(const struct mmul_planning *p, const double *weights,
                                     struct mmul_candidate *c, struct mmul_error *err) {
    if (p->request->offsets != NULL)
        return take_given_parts(p, c, err);
    const struct mmul_share_request request = {.total = p->schedule->total,
                                               .size = p->schedule->size,
                                               .node_count = p->schedule->node_count,
                                               .weights = weights,
                                               .rank_node = p->rank_node,
                                               .node_capacity = c->capacity,
                                               .rule = p->schedule->rule};
    return mmul_share_units(&request, c->counts, p->automatic ? NULL : c->clipped, err);
}

// Marks nodes whose balanced share is limited by memory. Other nodes take the rest.
static void mark_clipped(const struct mmul_planning *p, struct mmul_candidate *c) {
    for (int node = 0; node < p->schedule->node_count; node++) {
        double room = (double)c->capacity[node];
        c->clipped[node] = p->cost->nodes[node].in && p->cost->nodes[node].units > 0.999 * room &&
                           room < (double)p->schedule->total;
    }
}

// Computes seconds and memory of the trial. Its cut and members are set.
static enum mmul_status score_trial(struct mmul_planning *p, struct mmul_error *err) {
    struct mmul_candidate *c = &p->trial;
    double total = (double)p->schedule->total;
    c->seconds = 0;
    if (mmul_planning_compute_capacity(p, c) < total)
        return MMUL_OK;
    if (p->automatic) {
        mmul_cost_set(p->cost, c->in, &c->cut);
        c->seconds = mmul_balance(p->cost, total, c->capacity, c->units);
        mark_clipped(p, c);
        return MMUL_OK;
    }
    enum mmul_status status = mmul_planning_share(p, p->weights, c, err);
    for (int rank = 0; status == MMUL_OK && rank < p->schedule->size; rank++)
        c->units[rank] = (double)c->counts[rank];
    mmul_cost_set(p->cost, c->in, &c->cut);
    if (status == MMUL_OK)
        c->seconds = mmul_cost_evaluate(p->cost, c->units);
    return status == MMUL_ERR_SYSTEM ? MMUL_OK : status;
}

// Keeps the trial's cut if it is among the best.
static void remember_finalist(struct mmul_planning *p) {
    struct mmul_finalist next = {p->trial.cut, p->trial.seconds};
    for (int i = 0; i < MMUL_FINALISTS && next.seconds > 0; i++) {
        struct mmul_finalist *f = &p->finalists[i], before = *f;
        if (f->seconds > 0 && f->seconds <= next.seconds)
            continue;
        *f = next;
        next = before;
    }
}

// Scores the cut for the trial's members. It becomes the best one if it takes less than `share` of
// the seconds of the best so far.
static enum mmul_status consider_cut(struct mmul_planning *p, const struct mmul_cut *cut,
                                     double share, struct mmul_error *err) {
    p->trial.cut = *cut;
    enum mmul_status status = score_trial(p, err);
    if (status == MMUL_OK)
        remember_finalist(p);
    if (status != MMUL_OK || !(p->trial.seconds > 0) ||
        (p->best.seconds > 0 && p->trial.seconds >= share * p->best.seconds))
        return status;
    struct mmul_candidate before = p->best;
    p->best = p->trial;
    p->trial = before;
    p->trial.in = p->best.in;
    return MMUL_OK;
}

// -------------------------------------------------------------------------------------------- cuts

// Returns the fewest rounds for which the capacities hold all units; 0: none do.
static int64_t least_rounds(struct mmul_planning *p, const struct mmul_cut *cut) {
    int64_t low = 1, high = 2, total = p->schedule->total;
    p->trial.cut = *cut;
    for (;; low = high, high *= 2) {
        p->trial.cut.rounds = high;
        if (mmul_planning_compute_capacity(p, &p->trial) >= (double)total)
            break;
        if (high > total)
            return 0;
    }
    while (high - low > 1) {
        p->trial.cut.rounds = low + (high - low) / 2;
        bool holds = mmul_planning_compute_capacity(p, &p->trial) >= (double)total;
        *(holds ? &high : &low) = p->trial.cut.rounds;
    }
    return high;
}

// Tries as few rounds as possible, with a whole operand that stays and one that is streamed.
static enum mmul_status consider_streams(struct mmul_planning *p, struct mmul_cut cut,
                                         struct mmul_error *err) {
    enum mmul_status status = MMUL_OK;
    for (int stays = 1; status == MMUL_OK && stays >= 0; stays--) {
        cut.whole_stays = stays;
        cut.rounds = cut.panels == 1 && !stays ? 0 : least_rounds(p, &cut);
        if (cut.rounds > 0)
            status = consider_cut(p, &cut, WORTH_A_STEP, err);
    }
    return status;
}

// Tries more rounds than memory requires. Work then begins after the first pieces, not after all of
// them, and nodes short of memory can take more.
static enum mmul_status consider_rounds(struct mmul_planning *p, const struct mmul_cut *one,
                                        struct mmul_error *err) {
    double share = WORTH_ROUNDS;
    struct mmul_cut cuts[] = {p->best.cut, *one};
    enum mmul_status status = MMUL_OK;
    for (int node = 0; node < p->schedule->node_count; node++)
        share = p->best.clipped[node] ? WORTH_A_STEP : share;
    for (int64_t rounds = 2; rounds <= 8; rounds *= 2) {
        for (int i = 0; status == MMUL_OK && i < 2 - (cuts[0].panels == 1); i++) {
            cuts[i].rounds = rounds;
            status = consider_cut(p, &cuts[i], share, err);
        }
    }
    return status;
}

// Tries one round if it fits, then the panels with the least seconds; else as few rounds as
// possible. Tries fewer cuts unless this is the last search.
static enum mmul_status consider_panels(struct mmul_planning *p, bool last,
                                        struct mmul_error *err) {
    struct mmul_cut cuts[MMUL_PANEL_CANDIDATES];
    int count = mmul_panels_candidates(&p->schedule->problem, p->schedule->axis, cuts);
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < count; i += last ? 1 : 2)
        status = consider_cut(p, &cuts[i], WORTH_A_STEP, err);
    if (status == MMUL_OK && p->best.seconds > 0 && p->speeds_known &&
        p->schedule->node_count > 1 && last)
        return consider_rounds(p, &cuts[0], err);
    for (int i = 0;
         status == MMUL_OK && !(p->best.seconds > 0 && p->best.cut.rounds == 1) && i < count; i++)
        status = consider_streams(p, cuts[i], err);
    return status;
}

// Chooses the best cut for the members `in`. A run without panels can only do one round of one
// panel.
static enum mmul_status choose_cut(struct mmul_planning *p, const bool *in, bool last,
                                   struct mmul_error *err) {
    const struct mmul_cut one = mmul_panels_single(&p->schedule->problem, p->schedule->axis);
    p->trial.in = in;
    p->best.seconds = 0;
    memset(p->finalists, 0, sizeof p->finalists);
    enum mmul_status status = p->request->panels ? consider_panels(p, last, err)
                                                 : consider_cut(p, &one, WORTH_A_STEP, err);
    if (status == MMUL_OK && !(p->best.seconds > 0))
        return mmul_planning_fail_memory(p, err);
    return status;
}

// ----------------------------------------------------------------------------------------- members

static enum mmul_status choose_members(struct mmul_planning *p, const struct mmul_cut *cut,
                                       struct mmul_error *err) {
    struct mmul_participants members = {
        .absence = p->absence, .in = p->members, .units = p->trial.units};
    p->trial.cut = *cut;
    p->trial.in = p->everybody;
    mmul_planning_compute_capacity(p, &p->trial);
    return mmul_participants_choose(p->cost, cut, (double)p->schedule->total, p->trial.capacity,
                                    &members, err);
}

// Finds the best cut for all ranks, then the members that are faster alone with it, then the best
// cut for these. If the numbers of panels differ by more than a factor of two, repeats this once
// with the new cut.
static enum mmul_status choose_best(struct mmul_planning *p, struct mmul_error *err) {
    enum { TURNS = 2 };
    enum mmul_status status = choose_cut(p, p->everybody, !p->automatic, err);
    p->all_cut = p->best.cut;
    bool settled = !p->automatic;
    for (int i = 0; status == MMUL_OK && i < TURNS && !settled; i++) {
        const struct mmul_cut cut = p->best.cut;
        status = choose_members(p, &cut, err);
        if (status == MMUL_OK)
            status = choose_cut(p, p->members, true, err);
        settled = p->best.cut.panels <= 2 * cut.panels && cut.panels <= 2 * p->best.cut.panels;
    }
    return status;
}

// ----------------------------------------------------------------------------------- work stealing

// Sets the share of a block that other ranks may steal. A stealable part must be worth two more
// calls (schedule_memory.c). Slices of long sums cost nothing (plan/lists/tasks.c).
static void choose_steal_shares(struct mmul_planning *p) {
    const int64_t terms = 512;
    bool automatic = p->request->tail == MMUL_TAIL_AUTO;
    if (p->request->tail == MMUL_TAIL_OFF || p->schedule->problem.alpha == 0)
        return;
    p->schedule->claim_share = automatic ? MMUL_CLAIM_SHARE : p->request->tail_share;
    p->schedule->slice_terms = automatic ? terms : 0;
    p->schedule->may_steal = p->request->may_steal_across_nodes;
}

// Turns work stealing off if a rank has more lines than positions can count. Returns true if it was
// on.
static bool stop_stealing(struct mmul_planning *p) {
    double most = 0;
    for (int rank = 0; rank < p->schedule->size; rank++)
        most = fmax(most, (double)p->best.counts[rank] + (double)p->best.cut.rounds);
    bool fits = most * (double)p->best.cut.panels <= (double)MMUL_POSITIONS_MOST;
    bool stops = !fits && p->schedule->claim_share > 0;
    p->schedule->claim_share = fits ? p->schedule->claim_share : 0;
    p->schedule->may_steal &= fits;
    return stops;
}

// --------------------------------------------------------------------------------------- finalists

// Writes the final plan to the schedule.
static void write_shares(struct mmul_planning *p) {
    int64_t begin = 0;
    p->schedule->rounds = p->best.cut.rounds;
    p->schedule->panel_units = p->best.cut.panel_units;
    p->schedule->panel_matrices = p->best.cut.panel_matrices;
    for (int rank = 0; rank < p->schedule->size; rank++) {
        p->ranks[rank].begin = begin;
        p->ranks[rank].end = begin += p->best.counts[rank];
    }
}

enum mmul_status mmul_planning_replay(struct mmul_planning *p, struct mmul_error *err) {
    const struct mmul_stage_plan stage = {.schedule = p->schedule, .cost = p->cost, .needs = -1};
    const struct mmul_replay_request request = {
        .cluster = p->request->cluster, .stages = &stage, .count = 1};
    write_shares(p);
    p->best.seconds = 0;
    if (!mmul_planning_size_segments(p))
        return MMUL_OK;
    mmul_cost_set(p->cost, p->best.in, &p->best.cut);
    for (int node = 0; node < p->schedule->node_count; node++)
        p->nodes[node].chain_place = p->cost->nodes[node].chain_place;
    mmul_replay_destroy(p->replay);
    p->replay = NULL;
    enum mmul_status status = mmul_replay_make(&request, &p->replay, err);
    if (status == MMUL_OK)
        p->best.seconds = p->replay->seconds;
    return status;
}

void mmul_planning_copy(const struct mmul_planning *p, const struct mmul_candidate *from,
                        struct mmul_candidate *to) {
    size_t size = (size_t)p->schedule->size, nodes = (size_t)p->schedule->node_count;
    to->cut = from->cut;
    to->in = from->in;
    to->seconds = from->seconds;
    memcpy(to->units, from->units, size * sizeof *to->units);
    memcpy(to->counts, from->counts, size * sizeof *to->counts);
    memcpy(to->capacity, from->capacity, nodes * sizeof *to->capacity);
    memcpy(to->work_bytes, from->work_bytes, nodes * sizeof *to->work_bytes);
    memcpy(to->clipped, from->clipped, nodes * sizeof *to->clipped);
}

// Computes shares as if every rank continued at its own speed until all end together. Returns false
// if they already do.
static bool correct_shares(struct mmul_planning *p) {
    const double together = 0.995;
    double rates = 0, until = 0, first = INFINITY, sum = 0;
    for (int rank = 0; rank < p->schedule->size; rank++) {
        const struct mmul_replay_rank *r = &p->replay->ranks[rank];
        double rate = r->finish > 0 ? (double)p->best.counts[rank] / r->compute_seconds : 0;
        rates += rate;
        until += rate * r->finish;
        first = rate > 0 ? fmin(first, r->finish) : first;
    }
    for (int rank = 0; rank < p->schedule->size; rank++) {
        const struct mmul_replay_rank *r = &p->replay->ranks[rank];
        double own = (double)p->best.counts[rank];
        if (r->finish > 0)
            own *= fmax(0.5, 1 + (until / rates - r->finish) / r->compute_seconds);
        p->best.units[rank] = own;
        sum += own;
    }
    for (int rank = 0; rank < p->schedule->size; rank++)
        p->best.units[rank] *= (double)p->schedule->total / sum;
    return first < together * p->replay->seconds;
}

// Returns true if the candidate just walked is the best. A cut with more passes must be faster by
// WORTH_A_STEP.
static bool is_best_walked(const struct mmul_planning *p) {
    const struct mmul_candidate *c = &p->best, *before = &p->walked;
    int64_t passes = c->cut.rounds * c->cut.panels,
            steps_before = before->cut.rounds * before->cut.panels;
    double share = passes > steps_before   ? WORTH_A_STEP
                   : passes < steps_before ? 1 / WORTH_A_STEP
                                           : 1;
    return c->seconds > 0 && (!(before->seconds > 0) || c->seconds < share * before->seconds);
}

// Walks the lists of a cut, first with the shares of the closed form.
static enum mmul_status walk_cut(struct mmul_planning *p, const struct mmul_cut *cut,
                                 const bool *in, struct mmul_error *err) {
    enum { TURNS = 4 };
    p->trial.cut = *cut;
    p->trial.in = in;
    enum mmul_status status = score_trial(p, err);
    if (status != MMUL_OK || !(p->trial.seconds > 0))
        return status;
    mmul_planning_copy(p, &p->trial, &p->best);
    for (int turn = 0; status == MMUL_OK && turn < TURNS; turn++) {
        if (p->automatic)
            status = mmul_planning_share(p, p->best.units, &p->best, err);
        if (status == MMUL_OK)
            status = mmul_planning_replay(p, err);
        if (status == MMUL_OK && is_best_walked(p))
            mmul_planning_copy(p, &p->best, &p->walked);
        if (status != MMUL_OK || !(p->best.seconds > 0) || !p->automatic || !correct_shares(p))
            break;
    }
    return status == MMUL_ERR_SYSTEM ? MMUL_OK : status;
}

// Returns true if a cut has lanes and slots that fit, with the shares of the closed form.
static bool cut_fits(struct mmul_planning *p, const struct mmul_cut *cut) {
    struct mmul_error ignored;
    p->trial.cut = *cut;
    p->trial.in = p->everybody;
    if (score_trial(p, &ignored) != MMUL_OK || !(p->trial.seconds > 0))
        return false;
    mmul_planning_copy(p, &p->trial, &p->best);
    if (p->automatic && mmul_planning_share(p, p->best.units, &p->best, &ignored) != MMUL_OK)
        return false;
    write_shares(p);
    return mmul_planning_size_segments(p);
}

// Finds a cut for all ranks that fits. Walks no lists.
static enum mmul_status try_cuts(struct mmul_planning *p, struct mmul_error *err) {
    enum mmul_status status = choose_cut(p, p->everybody, !p->automatic, err);
    for (int i = 0; status == MMUL_OK && i < MMUL_FINALISTS && p->finalists[i].seconds > 0; i++)
        if (cut_fits(p, &p->finalists[i].cut))
            return MMUL_OK;
    return status == MMUL_OK ? mmul_planning_fail_memory(p, err) : status;
}

// Chooses the finalist that ends first, and computes the seconds with all ranks.
static enum mmul_status choose_shares(struct mmul_planning *p, struct mmul_error *err) {
    enum mmul_status status = choose_best(p, err);
    const bool *in = p->best.in;
    if (status != MMUL_OK)
        return status;
    p->walked.seconds = p->all_seconds = 0;
    if (p->automatic && in != p->everybody)
        status = walk_cut(p, &p->all_cut, p->everybody, err);
    p->all_seconds = p->walked.seconds;
    p->walked.seconds = 0;
    for (int i = 0; status == MMUL_OK && i < MMUL_FINALISTS && p->finalists[i].seconds > 0; i++)
        status = walk_cut(p, &p->finalists[i].cut, in, err);
    if (status == MMUL_OK && !(p->walked.seconds > 0))
        status = mmul_planning_fail_memory(p, err);
    mmul_planning_copy(p, &p->walked, &p->best);
    return status;
}

// ------------------------------------------------------------------------------------ the schedule

enum mmul_status mmul_planning_choose(struct mmul_planning *p, bool walks_lists,
                                      struct mmul_error *err) {
    enum mmul_status status;
    choose_steal_shares(p);
    do
        status = walks_lists ? choose_shares(p, err) : try_cuts(p, err);
    while (status == MMUL_OK && (mmul_planning_stop_mapping(p) || stop_stealing(p)));
    return status;
}
