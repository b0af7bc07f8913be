// SPDX-License-Identifier: MIT
// Solves the cost model for shares, as fractions of units. share.c rounds them. participants.c
// decides if ranks are left out.
#include "plan/product/balance.h"

#include <math.h>

enum { COUPLINGS = 4, SEARCH_STEPS = 100 };
static const double CLOSE_ENOUGH = 1e-7;

struct balance {
    struct mmul_cost *cost;
    double total;
    const int64_t *capacity;
    double *units;
    double seconds; // T of the inner search
    double kept;    // share of the other nodes' units that the return link can carry
};

// Bracket of the zero of a decreasing function: positive at `low`, zero or less at `high`. The
// search uses regula falsi, halving the value at an end that does not move (Dowell & Jarratt 1971,
// the Illinois method). A bisection now and then handles functions that are flat somewhere.
struct bracket {
    double low, at_low, high, at_high;
};

static double find_zero(double (*function)(struct balance *, double), struct balance *b,
                        struct bracket r, double scale) {
    double x = r.high;
    int side = 0; // end that moved last
    for (int i = 0; i < SEARCH_STEPS && r.high - r.low > 1e-12 * r.high; i++) {
        bool flat = i % 8 == 7 || !(r.at_low > r.at_high);
        x = flat ? (r.low + r.high) / 2
                 : r.low + (r.high - r.low) * (r.at_low / (r.at_low - r.at_high));
        double y = function(b, x);
        if (fabs(y) <= CLOSE_ENOUGH * scale)
            return x;
        if (y > 0) {
            r.at_high /= side > 0 ? 2 : 1;
            r.low = x;
            r.at_low = y;
        } else {
            r.at_low /= side < 0 ? 2 : 1;
            r.high = x;
            r.at_high = y;
        }
        side = y > 0 ? 1 : -1;
    }
    return x;
}

// Returns a node's units, clipped to its capacity. A capacity that holds the total is ignored: for
// a time that is too late, the units must be able to exceed the total.
static double clipped_units(const struct balance *b, int node) {
    double units = b->cost->nodes[node].units;
    bool clipped = b->capacity != NULL && (double)b->capacity[node] < b->total &&
                   units > (double)b->capacity[node];
    return clipped ? (double)b->capacity[node] : units;
}

// Computes the units that each rank can take until b->seconds. Returns the S that they cause.
static double fill_units(struct balance *b, double s) {
    struct mmul_cost *cost = b->cost;
    struct mmul_cost_links links = mmul_cost_links(cost, s);
    for (int i = 0; i < cost->node_count; i++)
        cost->nodes[i].units = 0;
    for (int rank = 0; rank < cost->size; rank++) {
        double units = cost->ranks[rank].in ? mmul_cost_units(cost, rank, links, b->seconds) : 0;
        b->units[rank] = units < b->total ? units : b->total;
        cost->nodes[cost->ranks[rank].node].units += b->units[rank];
    }
    double caused = 0;
    for (int i = 0; i < cost->node_count; i++)
        caused += cost->nodes[i].remote ? clipped_units(b, i) * cost->nodes[i].link : 0;
    for (int rank = 0; rank < cost->size; rank++) {
        int node = cost->ranks[rank].node;
        double held = clipped_units(b, node);
        if (held < cost->nodes[node].units)
            b->units[rank] *= held / cost->nodes[node].units;
    }
    return caused;
}

// Returns the spare seconds if results come back one after another from the first block on.
static double spare_seconds(const struct balance *b, double s) {
    struct mmul_cost_links links = mmul_cost_links(b->cost, s);
    double first = mmul_cost_first_block(b->cost, b->units, b->kept, links);
    return isinf(first) ? b->seconds : b->seconds - first - links.result;
}

// Returns a positive value while S is less than the other nodes could cause and the return link can
// carry it.
static double traffic_surplus(struct balance *b, double s) {
    double caused = fill_units(b, s), more = caused - s;
    b->kept = caused > s ? s / caused : 1;
    if (b->cost->passes == 1)
        return more;
    double spare = spare_seconds(b, s) / (b->cost->piece_bytes + b->cost->result_bytes);
    return spare < more ? spare : more;
}

// Returns the units of all ranks until `seconds`, with the matching S.
static double units_until(struct balance *b, double seconds) {
    b->seconds = seconds;
    double most = traffic_surplus(b, 0);
    if (most > 0) {
        most = fill_units(b, 0);
        double s = find_zero(traffic_surplus, b,
                             (struct bracket){0, most, most, traffic_surplus(b, most)}, most);
        traffic_surplus(b, s);
    }
    double units = 0;
    for (int rank = 0; rank < b->cost->size; rank++) {
        b->units[rank] *= b->cost->nodes[b->cost->ranks[rank].node].remote ? b->kept : 1;
        units += b->units[rank];
    }
    return units;
}

static double units_missing(struct balance *b, double seconds) {
    return b->total - units_until(b, seconds);
}

// Returns true if the participating nodes have capacity for the total.
static bool capacity_suffices(const struct balance *b) {
    double room = 0;
    for (int i = 0; b->capacity != NULL && i < b->cost->node_count; i++)
        room += b->cost->nodes[i].in ? (double)b->capacity[i] : 0;
    return b->capacity == NULL || room >= b->total;
}

// Returns a lower bound of the seconds: no rank waits.
static double least_seconds(const struct mmul_cost *cost, double total) {
    double rate = 0;
    for (int rank = 0; rank < cost->size; rank++)
        if (cost->ranks[rank].in)
            rate += cost->rounds / cost->passes * mmul_pass_rate(&cost->ranks[rank].pass);
    return rate > 0 ? total / rate : 0;
}

// Returns the T at which the shares add up to the total; 0 if they never do.
static double solve_seconds(struct balance *b, double guess) {
    struct bracket r = {.low = guess / 2, .high = guess};
    r.at_low = units_missing(b, r.low);
    for (int i = 0; r.at_low <= 0 && i < SEARCH_STEPS; i++) {
        r.high = r.low;
        r.low /= 2;
        r.at_low = units_missing(b, r.low);
    }
    r.at_high = units_missing(b, r.high);
    for (int i = 0; r.at_high > 0; i++) {
        if (i == SEARCH_STEPS)
            return 0;
        r.low = r.high;
        r.at_low = r.at_high;
        r.high *= 2;
        r.at_high = units_missing(b, r.high);
    }
    double seconds = find_zero(units_missing, b, r, b->total);
    double sum = units_until(b, seconds);
    for (int rank = 0; rank < b->cost->size; rank++)
        b->units[rank] *= b->total / sum;
    return seconds;
}

// Sets the first shares, as if no rank waited.
static void spread_by_rate(const struct mmul_cost *cost, double total, double *units) {
    double sum = 0;
    for (int rank = 0; rank < cost->size; rank++) {
        units[rank] = cost->ranks[rank].in ? mmul_pass_rate(&cost->ranks[rank].pass) : 0;
        sum += units[rank];
    }
    for (int rank = 0; rank < cost->size; rank++)
        units[rank] *= sum > 0 ? total / sum : 0;
}

double mmul_balance(struct mmul_cost *cost, double total, const int64_t *capacity, double *units) {
    struct balance b = {
        .cost = cost, .total = total, .capacity = capacity, .units = units, .kept = 1};
    double seconds = least_seconds(cost, total), before = 0;
    if (!(seconds > 0) || !capacity_suffices(&b))
        return 0;
    spread_by_rate(cost, total, units);
    for (int i = 0; i < COUPLINGS && fabs(seconds - before) > 1e-4 * seconds; i++) {
        before = seconds;
        mmul_cost_couple(cost, units);
        seconds = solve_seconds(&b, seconds);
        if (!(seconds > 0))
            return 0;
    }
    return mmul_cost_evaluate(cost, units);
}
