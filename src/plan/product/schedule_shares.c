// SPDX-License-Identifier: MIT
// Finds the units of each rank for a cut, by replays of the lists: with shares by speed first, then
// with shares corrected until all ranks end together. If speeds are not known, assumed speeds
// decide about cuts but never about shares.
#include "plan/product/schedule_planning.h"

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "plan/parts/share.h"

// Ranks end together if the first one to end needs this share of the seconds.
static const double TOGETHER = 0.995;

// ----------------------------------------------------------------------------------- whole numbers

// Takes the parts as given: values that are in memory cannot go elsewhere.
static enum mmul_status take_given_parts(struct mmul_planning *p, struct mmul_error *err) {
    const int64_t *offsets = p->request->offsets;
    for (int node = 0; node < p->schedule->node_count; node++) {
        int64_t units = 0;
        for (int rank = 0; rank < p->schedule->size; rank++)
            units += p->rank_node[rank] == node ? offsets[rank + 1] - offsets[rank] : 0;
        if (units > p->trial.capacity[node])
            return mmul_fail(err, MMUL_ERR_SYSTEM, "parts do not fit");
    }
    for (int rank = 0; rank < p->schedule->size; rank++)
        p->trial.counts[rank] = offsets[rank + 1] - offsets[rank];
    return MMUL_OK;
}

enum mmul_status mmul_planning_share(struct mmul_planning *p, const double *weights,
                                     struct mmul_error *err) {
    if (p->request->offsets != NULL)
        return take_given_parts(p, err);
    const struct mmul_share_request request = {.total = p->schedule->total,
                                               .size = p->schedule->size,
                                               .node_count = p->schedule->node_count,
                                               .weights = weights,
                                               .rank_node = p->rank_node,
                                               .node_capacity = p->trial.capacity,
                                               .rule = p->schedule->rule};
    return mmul_share_units(&request, p->trial.counts, p->trial.clipped, err);
}

// Writes the trial to the schedule.
static void write_shares(struct mmul_planning *p) {
    int64_t begin = 0;
    p->schedule->rounds = p->trial.cut.rounds;
    p->schedule->panel_units = p->trial.cut.panel_units;
    p->schedule->panel_matrices = p->trial.cut.panel_matrices;
    for (int rank = 0; rank < p->schedule->size; rank++) {
        p->ranks[rank].begin = begin;
        p->ranks[rank].end = begin += p->trial.counts[rank];
    }
}

void mmul_planning_copy(const struct mmul_planning *p, const struct mmul_candidate *from,
                        struct mmul_candidate *to) {
    size_t size = (size_t)p->schedule->size, nodes = (size_t)p->schedule->node_count;
    to->cut = from->cut;
    to->in = from->in;
    to->seconds = from->seconds;
    memcpy(to->counts, from->counts, size * sizeof *to->counts);
    memcpy(to->capacity, from->capacity, nodes * sizeof *to->capacity);
    memcpy(to->work_bytes, from->work_bytes, nodes * sizeof *to->work_bytes);
    memcpy(to->clipped, from->clipped, nodes * sizeof *to->clipped);
}

// ------------------------------------------------------------------------------------- the replay

enum mmul_status mmul_planning_replay(struct mmul_planning *p, struct mmul_error *err) {
    const struct mmul_product_plan product = {
        .schedule = p->schedule, .cost = p->cost, .needs = -1};
    const struct mmul_replay_request request = {.cluster = p->request->cluster,
                                                .stages = &(struct mmul_stage_plan){.seconds = 0},
                                                .products = &product,
                                                .count = 1,
                                                .product_count = 1};
    write_shares(p);
    p->trial.seconds = 0;
    if (!mmul_planning_size_segments(p))
        return MMUL_OK;
    if (p->only_fits) {
        p->trial.seconds = 1;
        return MMUL_OK;
    }
    mmul_cost_set_counts(p->cost, p->trial.counts);
    for (int node = 0; node < p->schedule->node_count; node++)
        p->nodes[node].chain_place = p->cost->nodes[node].chain_place;
    mmul_replay_destroy(p->replay);
    p->replay = NULL;
    enum mmul_status status = mmul_replay_make(&request, &p->replay, err);
    if (status == MMUL_OK)
        p->trial.seconds = p->replay->seconds;
    return status;
}

// --------------------------------------------------------------------------------------- one trial

// Sets the first shares: the weights if they are given, else the speed of long passes. Returns
// false if no rank has any.
static bool set_first_units(struct mmul_planning *p) {
    double sum = 0;
    for (int rank = 0; rank < p->schedule->size; rank++) {
        const double rate = mmul_pass_rate(&p->cost->ranks[rank].pass);
        p->units[rank] = !p->trial.in[rank] ? 0 : p->automatic ? rate : p->weights[rank];
        sum += p->units[rank];
    }
    return sum > 0;
}

// Returns true if a rank can end earlier or later with other shares: it has units, and memory does
// not limit its node.
static bool is_movable(const struct mmul_planning *p, int rank) {
    return p->replay->ranks[rank].finish > 0 && !p->trial.clipped[p->rank_node[rank]];
}

// Returns the seconds by which a rank ends later with one unit more: as seen between the last two
// replays, else as if only its computation grew.
static double find_slope(const struct mmul_planning *p, int rank) {
    const double worth = 0.02; // part of a share that must have changed
    const struct mmul_replay_rank *r = &p->replay->ranks[rank];
    const double units = (double)p->trial.counts[rank], more = units - p->before[rank].units,
                 slope = (r->finish - p->before[rank].finish) / more,
                 least = r->compute_seconds / units, most = 2 * r->finish / units;
    const bool is_known = p->before[rank].units > 0 && fabs(more) > worth * units && slope > 0;
    return is_known ? fmin(slope, most) : least;
}

// Returns true if a rank ends after `seconds` even with hardly any units: what does not depend on
// them, such as the overhead of passes and the arrival of panels, takes too long. Not before the
// second replay, because the first shares may be far off.
static bool is_too_late(const struct mmul_planning *p, int rank, double seconds) {
    const double panels = (double)p->trial.cut.panels, units = (double)p->trial.counts[rank],
                 variable = units * panels / mmul_pass_rate(&p->cost->ranks[rank].pass);
    return p->before[rank].units > 0 && p->replay->ranks[rank].finish - variable > seconds;
}

// Computes shares with which all ranks end at `seconds`, if their ends grow along straight lines,
// and returns their sum. A share at most doubles, and at most halves unless its rank is too late.
static double set_units_until(struct mmul_planning *p, double seconds) {
    double sum = 0;
    for (int rank = 0; rank < p->schedule->size; rank++) {
        const double units = (double)p->trial.counts[rank];
        p->units[rank] = units;
        if (is_movable(p, rank)) {
            const double more = (seconds - p->replay->ranks[rank].finish) / p->slopes[rank],
                         least = is_too_late(p, rank, seconds) ? 0 : units / 2;
            p->units[rank] = fmin(fmax(units + more, least), 2 * units);
        }
        sum += p->units[rank];
    }
    return sum;
}

// Corrects the shares so that all ranks end together. Returns false if they already do.
static bool correct_units(struct mmul_planning *p) {
    enum { BISECTIONS = 50 };
    const double total = (double)p->schedule->total;
    double first = INFINITY, low = 0, high = 2 * p->replay->seconds;
    for (int rank = 0; rank < p->schedule->size; rank++) {
        if (!is_movable(p, rank))
            continue;
        p->slopes[rank] = find_slope(p, rank);
        first = fmin(first, p->replay->ranks[rank].finish);
    }
    if (isinf(first) || first >= TOGETHER * p->replay->seconds)
        return false;
    for (int i = 0; i < BISECTIONS && high - low > 1e-4 * high; i++) {
        const double middle = (low + high) / 2;
        *(set_units_until(p, middle) < total ? &low : &high) = middle;
    }
    set_units_until(p, high);
    for (int rank = 0; rank < p->schedule->size; rank++)
        p->before[rank] =
            (struct mmul_share_end){(double)p->trial.counts[rank], p->replay->ranks[rank].finish};
    return true;
}

// Sets the shares half-way between those of the turn before and those of this one.
static void halve_step(struct mmul_planning *p) {
    for (int rank = 0; rank < p->schedule->size; rank++)
        p->units[rank] = (p->before[rank].units + (double)p->trial.counts[rank]) / 2;
}

// Returns true if more turns can make the trial the best candidate. `before`: its seconds in the
// turn before.
static bool is_promising(const struct mmul_planning *p, double before) {
    const double much = 0.75, little = 0.998; // shares of the seconds that a turn leaves
    const double now = p->trial.seconds;
    return now < 0.9 * before || (now < little * before && now < p->best.seconds / much) ||
           now == p->best.seconds;
}

enum mmul_status mmul_planning_score(struct mmul_planning *p, double share,
                                     struct mmul_error *err) {
    enum { TURNS = 8 };
    p->trial.seconds = 0;
    if (mmul_planning_compute_capacity(p, &p->trial) < (double)p->schedule->total)
        return MMUL_OK;
    mmul_cost_set(p->cost, &p->trial.cut);
    memset(p->before, 0, (size_t)p->schedule->size * sizeof *p->before);
    bool more = set_first_units(p);
    double before = INFINITY;
    enum mmul_status status = MMUL_OK;
    for (int turn = 0; status == MMUL_OK && turn < TURNS && more; turn++) {
        struct mmul_error refusal;
        status = mmul_planning_share(p, p->units, &refusal);
        if (status == MMUL_ERR_SYSTEM)
            return MMUL_OK; // a trial that does not fit is no error of the plan
        if (status == MMUL_OK)
            status = mmul_planning_replay(p, err);
        else
            *err = refusal;
        if (status != MMUL_OK || !(p->trial.seconds > 0))
            break;
        if (!(p->best.seconds > 0) || p->trial.seconds < share * p->best.seconds) {
            mmul_planning_copy(p, &p->trial, &p->best);
            share = 1; // later turns improve on this one
        }
        if (before == p->best.seconds && p->trial.seconds > before) {
            halve_step(p);
            continue;
        }
        more = p->automatic && !p->only_fits && (turn < 2 || is_promising(p, before)) &&
               correct_units(p);
        before = p->trial.seconds;
    }
    return status;
}
