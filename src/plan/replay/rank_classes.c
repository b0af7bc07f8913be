// SPDX-License-Identifier: MIT
// Finds classes of similar ranks and nodes, with a tolerance that grows until few enough classes
// are left, then makes a schedule of them.
#include "plan/replay/rank_classes.h"

#include <math.h>

#include "base/integer.h"
#include "base/memory.h"
#include "plan/lists/schedule.h"

static const double TOLERANCE = 0.01, TOLERANCE_MOST = 4;

// -------------------------------------------------------------------------------------- similarity

struct comparison {
    const struct mmul_cluster *cluster;
    const struct mmul_product_plan *products;
    int count;
    double tolerance; // 0: no ranks are similar
};

static bool is_near(double x, double y, double tolerance) {
    return fabs(x - y) <= tolerance * fmax(fabs(x), fabs(y));
}

static double units_of(const struct mmul_schedule *schedule, int rank) {
    return (double)(mmul_schedule_ranks(schedule)[rank].end -
                    mmul_schedule_ranks(schedule)[rank].begin);
}

// Returns true if two ranks are similar. Ranks without units are similar regardless of their speed.
static bool ranks_alike(const struct comparison *comparison, int a, int b) {
    for (int i = 0; i < comparison->count; i++) {
        const struct mmul_product_plan *product = &comparison->products[i];
        double x = units_of(product->schedule, a), y = units_of(product->schedule, b);
        double one = mmul_pass_seconds(&product->cost->ranks[a].pass, x);
        double other = mmul_pass_seconds(&product->cost->ranks[b].pass, y);
        if (fabs(x - y) > 1 && !is_near(x, y, comparison->tolerance))
            return false;
        if ((x > 0) != (y > 0) || (x > 0 && !is_near(one, other, comparison->tolerance)))
            return false;
    }
    return comparison->tolerance > 0;
}

// Compares two nodes in one product. Links count only if there are bytes to move.
static bool is_like_node(const struct comparison *comparison,
                         const struct mmul_product_plan *product, int a, int b) {
    const struct mmul_schedule_node *x = &mmul_schedule_nodes(product->schedule)[a],
                                    *y = &mmul_schedule_nodes(product->schedule)[b];
    const struct mmul_cost_node *p = &product->cost->nodes[a], *q = &product->cost->nodes[b];
    bool moves = x->network_bytes > 0 || y->network_bytes > 0;
    return x->maps == y->maps && x->whole_slots == y->whole_slots &&
           x->result_slots == y->result_slots && (x->result_bytes > 0) == (y->result_bytes > 0) &&
           (!moves || (is_near(p->link, q->link, comparison->tolerance) &&
                       is_near(p->sending, q->sending, comparison->tolerance) &&
                       is_near(p->receiving, q->receiving, comparison->tolerance)));
}

static bool nodes_alike(const struct comparison *comparison, int a, int b) {
    const struct mmul_cluster *cluster = comparison->cluster;
    const struct mmul_node_info *nodes = cluster->nodes;
    int i = nodes[a].leader, j = nodes[b].leader;
    if (a == cluster->ranks[0].node || nodes[a].rank_count != nodes[b].rank_count ||
        comparison->tolerance == 0)
        return false;
    for (int p = 0; p < comparison->count; p++)
        if (!is_like_node(comparison, &comparison->products[p], a, b))
            return false;
    for (; i >= 0; i = mmul_cluster_next_rank(cluster, i), j = mmul_cluster_next_rank(cluster, j))
        if (!ranks_alike(comparison, i, j))
            return false;
    return true;
}

// ----------------------------------------------------------------------------------------- classes

// Assigns a node to the class of an earlier node, whose rank classes it takes, or to a new class.
static void assign_node(const struct comparison *comparison, struct mmul_rank_classes *f, int node,
                        int *first) {
    const struct mmul_cluster *cluster = comparison->cluster;
    int class = 0;
    while (class < f->node_count && !nodes_alike(comparison, node, first[class]))
        class ++;
    f->node_of[node] = class;
    int i = cluster->nodes[node].leader;
    if (class < f->node_count) {
        int j = cluster->nodes[first[class]].leader;
        for (; i >= 0;
             i = mmul_cluster_next_rank(cluster, i), j = mmul_cluster_next_rank(cluster, j))
            f->rank_of[i] = f->rank_of[j];
        return;
    }
    first[f->node_count++] = node;
    for (; i >= 0; i = mmul_cluster_next_rank(cluster, i)) {
        // The leader is alone in its class.
        int other = mmul_cluster_next_rank(cluster, cluster->nodes[node].leader);
        while (other >= 0 && other < i && !ranks_alike(comparison, i, other))
            other = mmul_cluster_next_rank(cluster, other);
        f->rank_of[i] = other >= 0 && other < i ? f->rank_of[other] : f->size++;
    }
}

// Finds the classes, root's node first. `first`: one node of each class. Returns false if there are
// more than `most` classes.
static bool find_classes(const struct comparison *comparison, struct mmul_rank_classes *f,
                         int *first, int most) {
    const struct mmul_cluster *cluster = comparison->cluster;
    int root = cluster->ranks[0].node;
    f->size = f->node_count = 0;
    assign_node(comparison, f, root, first);
    for (int node = 0; node < cluster->node_count && f->size <= most; node++)
        if (node != root)
            assign_node(comparison, f, node, first);
    return f->size <= most;
}

static int position_in_chain(const struct comparison *comparison, int node) {
    return mmul_schedule_nodes(comparison->products[0].schedule)[node].chain_place;
}

static void count_classes(const struct comparison *comparison, struct mmul_rank_classes *f) {
    const struct mmul_cluster *cluster = comparison->cluster;
    for (int rank = 0; rank < cluster->size; rank++) {
        f->members[f->rank_of[rank]]++;
        f->home[f->rank_of[rank]] = f->node_of[cluster->ranks[rank].node];
    }
    for (int node = cluster->node_count - 1; node >= 0; node--) {
        int class = f->node_of[node];
        if (f->nodes[class]++ == 0 ||
            position_in_chain(comparison, node) > position_in_chain(comparison, f->last[class]))
            f->last[class] = node;
        f->leaders[class] = f->rank_of[cluster->nodes[node].leader];
    }
}

// Returns true if there are a product and enough ranks to fold. In a stack ranks need matrices of
// their own, so up to four times as many ranks represent themselves.
static bool may_fold(const struct comparison *comparison) {
    if (comparison->count == 0)
        return false;
    const struct mmul_schedule *first = comparison->products[0].schedule;
    bool stack = mmul_problem_whole_matrices(&first->problem, first->axis) > 1;
    return comparison->cluster->size > (stack ? 4 : 1) * MMUL_FOLD_RANKS;
}

enum mmul_status mmul_rank_classes_init(const struct mmul_cluster *cluster,
                                        const struct mmul_product_plan *products, int count,
                                        struct mmul_rank_classes *classes, struct mmul_error *err) {
    struct comparison comparison = {.cluster = cluster, .products = products, .count = count};
    int size = cluster->size, nodes = cluster->node_count, *first = NULL;
    *classes = (struct mmul_rank_classes){0};
    if (MMUL_ALLOCATE_ALL("the simulation", err, MMUL_ARRAY(classes->rank_of, size),
                          MMUL_ARRAY(classes->node_of, nodes), MMUL_ARRAY(classes->members, size),
                          MMUL_ARRAY(classes->nodes, nodes), MMUL_ARRAY(classes->home, size),
                          MMUL_ARRAY(classes->leaders, nodes), MMUL_ARRAY(classes->last, nodes),
                          MMUL_ARRAY(first, nodes)) != MMUL_OK) {
        mmul_rank_classes_fini(classes);
        return err->status;
    }
    bool few = !may_fold(&comparison);
    for (double t = TOLERANCE; !few; t *= 2) {
        comparison.tolerance = t;
        few =
            find_classes(&comparison, classes, first, t < TOLERANCE_MOST ? MMUL_FOLD_RANKS : size);
    }
    if (comparison.tolerance == 0)
        (void)find_classes(&comparison, classes, first, size);
    count_classes(&comparison, classes);
    mmul_free(first);
    return MMUL_OK;
}

void mmul_rank_classes_fini(struct mmul_rank_classes *classes) {
    MMUL_FREE_ALL(classes->rank_of, classes->node_of, classes->members, classes->nodes,
                  classes->home, classes->leaders, classes->last);
    *classes = (struct mmul_rank_classes){0};
}

// ------------------------------------------------------------------------------------ the schedule

// Keeps the first rounds, and widens panels, until there are few enough passes.
static void shorten_schedule(struct mmul_schedule *schedule, struct mmul_schedule_node *nodes) {
    const int64_t rounds_least = 4;
    int64_t panels = mmul_schedule_panels(schedule);
    if (schedule->rounds * panels <= MMUL_FOLD_PASSES)
        return;
    schedule->rounds =
        mmul_min(schedule->rounds, mmul_max(rounds_least, MMUL_FOLD_PASSES / panels));
    int64_t factor = mmul_divide_up(schedule->rounds * panels, MMUL_FOLD_PASSES);
    int64_t width = mmul_problem_result_width(&schedule->problem, schedule->axis);
    int64_t units = mmul_min(width, factor * schedule->panel_units);
    if (units == width)
        schedule->panel_matrices *= mmul_divide_up(factor * schedule->panel_units, width);
    schedule->panel_units = units;
    for (int i = 0; i < schedule->node_count; i++)
        if (!nodes[i].whole_stays)
            nodes[i].whole_slots =
                mmul_max(mmul_min(2, nodes[i].whole_slots), nodes[i].whole_slots / factor);
}

enum mmul_status mmul_rank_classes_fold(const struct mmul_rank_classes *classes,
                                        const struct mmul_schedule *whole,
                                        struct mmul_schedule **schedule, struct mmul_error *err) {
    struct mmul_schedule *made;
    if (mmul_schedule_create(classes->size, classes->node_count, &made, err) != MMUL_OK)
        return err->status;
    const int64_t bytes = made->bytes;
    *made = *whole;
    made->size = classes->size;
    made->node_count = classes->node_count;
    made->bytes = bytes;
    struct mmul_schedule_rank *ranks = (struct mmul_schedule_rank *)(made + 1);
    struct mmul_schedule_node *nodes = (struct mmul_schedule_node *)(ranks + classes->size);
    for (int i = 0; i < whole->node_count; i++)
        if (classes->last[classes->node_of[i]] == i)
            nodes[classes->node_of[i]] = mmul_schedule_nodes(whole)[i];
    shorten_schedule(made, nodes);
    // The first member of a class decides.
    for (int i = whole->size - 1; i >= 0; i--) {
        const struct mmul_schedule_rank *its = &mmul_schedule_ranks(whole)[i];
        struct mmul_schedule_rank *r = &ranks[classes->rank_of[i]];
        *r = (struct mmul_schedule_rank){.node = classes->node_of[its->node],
                                         .begin = its->begin,
                                         .end = its->begin,
                                         .steal_lines_least = its->steal_lines_least,
                                         .whole_begin = its->whole_begin,
                                         .whole_end = its->whole_begin};
    }
    for (int i = 0; i < whole->size; i++) {
        const struct mmul_schedule_rank *its = &mmul_schedule_ranks(whole)[i];
        ranks[classes->rank_of[i]].end += its->end - its->begin;
        ranks[classes->rank_of[i]].whole_end += its->whole_end - its->whole_begin;
    }
    for (int i = 0; i < classes->size; i++) {
        int64_t beyond = mmul_max(0, ranks[i].end - whole->total);
        double part = (double)made->rounds / (double)whole->rounds;
        ranks[i].begin -= beyond;
        ranks[i].end =
            ranks[i].begin + llround(part * (double)(ranks[i].end - beyond - ranks[i].begin));
    }
    *schedule = made;
    return MMUL_OK;
}
