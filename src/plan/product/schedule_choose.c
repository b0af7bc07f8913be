// SPDX-License-Identifier: MIT
// Chooses the cut and the members. A candidate is a cut with its members. mmul_planning_score gives
// it seconds and shares, or none if it does not fit into memory.
#include "plan/product/schedule_planning.h"

#include <math.h>

#include "base/integer.h"
#include "base/status.h"
#include "plan/lists/tasks.h"

static const double WORTH_A_STEP = 0.99; // share of the seconds with fewer panels
static const double WORTH_ROUNDS = 0.95; // share of the seconds in one round
static const double WORTH_IT = 0.99;     // share of the seconds of the members before

// -------------------------------------------------------------------------------------------- cuts

static enum mmul_status consider_cut(struct mmul_planning *p, const struct mmul_cut *cut,
                                     double share, struct mmul_error *err) {
    p->trial.cut = *cut;
    return mmul_planning_score(p, share, err);
}

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

// Returns true if more panels or rounds than those of the last cut need not be tried.
static bool is_hopeless(const struct mmul_planning *p) {
    const double much = 1.25; // share of the best seconds
    return p->best.seconds > 0 && (p->only_fits || p->trial.seconds > much * p->best.seconds);
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
    const int count = cuts[0].panels == one->panels ? 1 : 2;
    for (int i = 0; i < count; i++) {
        for (int64_t rounds = 2; status == MMUL_OK && rounds <= 8; rounds *= 2) {
            cuts[i].rounds = rounds;
            share = p->best.cut.rounds > 1 ? WORTH_A_STEP : share;
            status = consider_cut(p, &cuts[i], share, err);
            if (is_hopeless(p))
                break;
        }
    }
    return status;
}

// Tries one round if it fits, then the panels with the least seconds; else as few rounds as
// possible.
static enum mmul_status consider_panels(struct mmul_planning *p, struct mmul_error *err) {
    struct mmul_cut cuts[MMUL_PANEL_CANDIDATES];
    int count = mmul_panels_candidates(&p->schedule->problem, p->schedule->axis, cuts);
    enum mmul_status status = MMUL_OK;
    for (int i = 0; status == MMUL_OK && i < count && !is_hopeless(p); i++)
        status = consider_cut(p, &cuts[i], WORTH_A_STEP, err);
    if (status == MMUL_OK && p->best.seconds > 0 && p->speeds_known &&
        p->schedule->node_count > 1 && !p->only_fits)
        return consider_rounds(p, &cuts[0], err);
    for (int i = 0;
         status == MMUL_OK && !(p->best.seconds > 0 && p->best.cut.rounds == 1) && i < count; i++)
        status = consider_streams(p, cuts[i], err);
    return status;
}

// Chooses the best cut for the members `in`. A run without panels can only do one round of one
// panel.
static enum mmul_status choose_cut(struct mmul_planning *p, const bool *in,
                                   struct mmul_error *err) {
    const struct mmul_cut one = mmul_panels_single(&p->schedule->problem, p->schedule->axis);
    p->trial.in = in;
    p->trial.seconds = p->best.seconds = 0;
    enum mmul_status status =
        p->request->panels ? consider_panels(p, err) : consider_cut(p, &one, WORTH_A_STEP, err);
    if (status == MMUL_OK && !(p->best.seconds > 0))
        return mmul_planning_fail_memory(p, err);
    return status;
}

// ----------------------------------------------------------------------------------------- members

// Scores the first `nodes` nodes of the order with a cut. *best: number of nodes of the best
// candidate.
static enum mmul_status try_node_count(struct mmul_planning *p,
                                       const struct mmul_participants *participants,
                                       const struct mmul_cut *cut, int nodes, int *best,
                                       struct mmul_error *err) {
    if (nodes < 0 || nodes > participants->count)
        return MMUL_OK;
    const double before = p->best.seconds;
    mmul_participants_admit(participants, p->cost, nodes, p->members);
    enum mmul_status status = consider_cut(p, cut, 1, err);
    *best = p->best.seconds != before ? nodes : *best;
    return status;
}

// Finds the best number of nodes for the cut of the best candidate. With few nodes every number is
// tried. With many nodes the numbers grow by half, then a closer search runs around the best.
// *best: stays if no number is better.
static enum mmul_status choose_node_count(struct mmul_planning *p,
                                          const struct mmul_participants *participants, int *best,
                                          struct mmul_error *err) {
    enum { FEW_NODES = 16, CLOSER_LOOKS = 4 };
    const int count = participants->count;
    const struct mmul_cut cut = p->best.cut;
    p->trial.in = p->members;
    enum mmul_status status = MMUL_OK;
    for (int nodes = 0; status == MMUL_OK && nodes < count;
         nodes += count <= FEW_NODES ? 1 : (int)mmul_max(1, nodes / 2))
        status = try_node_count(p, participants, &cut, nodes, best, err);
    int step = count <= FEW_NODES ? 0 : (int)mmul_max(1, *best / 4);
    for (int i = 0; status == MMUL_OK && step > 0 && i < CLOSER_LOOKS; i++, step /= 2) {
        const int middle = *best;
        status = try_node_count(p, participants, &cut, middle - step, best, err);
        if (status == MMUL_OK)
            status = try_node_count(p, participants, &cut, middle + step, best, err);
    }
    return status;
}

// Sets the reason of the absence of each rank: the device, or the link of a node that is no member,
// or that gets no units though it has memory for them.
static void note_absent(struct mmul_planning *p, const struct mmul_participants *participants) {
    mmul_cost_set_counts(p->cost, p->best.counts);
    for (int rank = 0; rank < p->schedule->size; rank++) {
        const int node = p->rank_node[rank];
        const bool has_memory = !p->best.clipped[node] && p->best.capacity[node] > 0,
                   far = p->cost->nodes[node].remote && !p->cost->nodes[node].in &&
                         (has_memory || !p->members[rank]);
        p->absence[rank] = participants->absence[rank] == MMUL_NOT_EXCLUDED && far
                               ? MMUL_EXCLUDED_SLOW_LINK
                               : participants->absence[rank];
    }
}

static bool is_same_cut(const struct mmul_cut *a, const struct mmul_cut *b) {
    return a->rounds == b->rounds && a->panels == b->panels && a->whole_stays == b->whole_stays;
}

// Leaves out slow devices, and nodes without which the job takes less than WORTH_IT of the seconds.
// Other members may need another cut, for which other members may be the best.
static enum mmul_status choose_members(struct mmul_planning *p,
                                       const struct mmul_participants *participants,
                                       struct mmul_error *err) {
    enum { ROUNDS = 3 };
    int nodes = participants->count;
    bool all = mmul_participants_admit(participants, p->cost, nodes, p->members), more = true;
    enum mmul_status status = choose_cut(p, p->members, err);
    if (status != MMUL_OK)
        return status;
    const double all_seconds = p->best.seconds;
    for (int round = 0; status == MMUL_OK && more && round < ROUNDS; round++) {
        mmul_planning_copy(p, &p->best, &p->previous);
        const int before = nodes;
        status = choose_node_count(p, participants, &nodes, err);
        more = p->best.seconds < WORTH_IT * p->previous.seconds;
        nodes = more ? nodes : before;
        all = mmul_participants_admit(participants, p->cost, nodes, p->members);
        if (status == MMUL_OK && more)
            status = choose_cut(p, p->members, err);
        else
            mmul_planning_copy(p, &p->previous, &p->best);
        more = more && !is_same_cut(&p->best.cut, &p->previous.cut);
    }
    note_absent(p, participants);
    p->all_seconds = all ? 0 : all_seconds;
    return status;
}

// Finds the best members, and the best cut for them.
static enum mmul_status choose_best(struct mmul_planning *p, struct mmul_error *err) {
    const struct mmul_cut one = mmul_panels_single(&p->schedule->problem, p->schedule->axis);
    struct mmul_participants participants;
    p->all_seconds = 0;
    if (!p->automatic || p->only_fits)
        return choose_cut(p, p->everybody, err);
    mmul_cost_set(p->cost, &one);
    enum mmul_status status = mmul_participants_find(p->cost, &participants, err);
    if (status == MMUL_OK)
        status = choose_members(p, &participants, err);
    mmul_participants_fini(&participants);
    return status;
}

// Returns the rounds in which lines of the result are complete in time for the journal; 0: no
// matter. Results that are computed in their file are recorded block by block
// (exec/tasks/write_back.h).
static int64_t rounds_for_journal(const struct mmul_planning *p) {
    static const int64_t least_units = 1024; // a round packs the whole operand again: about 2 %
    const struct mmul_candidate *best = &p->best;
    int64_t most = 0;
    double units = 0;
    bool in_place = true;
    for (int rank = 0; rank < p->schedule->size; rank++) {
        most = mmul_max(most, best->counts[rank]);
        in_place &= best->counts[rank] == 0 || (p->maps[p->rank_node[rank]] & MMUL_MAPS_C) != 0;
    }
    if (p->speeds_known)
        units = fmin((double)most * p->request->journal_seconds / best->seconds, (double)most);
    return in_place ? 0 : mmul_divide_up(most, mmul_max(least_units, (int64_t)units));
}

// Cuts the best candidate into more rounds if a journal needs them and they fit into memory. Panels
// would complete lines along the other axis, and a later run continues along one axis only. With
// several panels a round completes no line before its last, so one panel may take a little longer.
static enum mmul_status add_rounds_for_journal(struct mmul_planning *p, struct mmul_error *err) {
    static const double worth_one_panel = 1.01;
    const int64_t rounds = rounds_for_journal(p);
    struct mmul_cut cut = p->best.cut,
                    one = mmul_panels_single(&p->schedule->problem, p->schedule->axis);
    enum mmul_status status = MMUL_OK;
    if (rounds <= cut.rounds)
        return MMUL_OK;
    const bool has_panels = cut.panels > 1;
    p->trial.in = p->best.in;
    one.rounds = cut.rounds = rounds;
    for (int stays = 1; status == MMUL_OK && p->best.cut.rounds < rounds && stays >= 0; stays--) {
        cut.whole_stays = stays;
        if (has_panels || stays)
            status = consider_cut(p, &cut, HUGE_VAL, err);
    }
    if (status == MMUL_OK && has_panels && p->best.cut.rounds == rounds)
        status = consider_cut(p, &one, worth_one_panel, err);
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

// ------------------------------------------------------------------------------------ the schedule

enum mmul_status mmul_planning_choose(struct mmul_planning *p, bool only_fits,
                                      struct mmul_error *err) {
    enum mmul_status status;
    p->only_fits = only_fits;
    choose_steal_shares(p);
    do {
        status = choose_best(p, err);
        if (status == MMUL_OK && p->request->journal_seconds > 0 && p->request->panels &&
            !only_fits)
            status = add_rounds_for_journal(p, err);
    } while (status == MMUL_OK && (mmul_planning_stop_mapping(p) || stop_stealing(p)));
    return status;
}
