// SPDX-License-Identifier: MIT
// Evaluates the formulas of other algorithms. None of them is ever run: the program cuts along one
// axis, because its operands begin, and its result ends, in files on root.
#include "plan/simulate/grid.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "plan/cost/cost.h"

enum { SUMMA_PANEL = 256 };

// Minimum, maximum or sum of each property over the first nodes.
struct nodes {
    bool root;
    double slowest, rate, latency, memory;
    double root_seconds_per_byte; // sum of 1 / B_i
};

struct terms {
    double a, b, c, operations; // bytes of the operands
    int count;
    struct nodes *nodes; // count, owned: nodes[p - 1] of the first p
};

static struct nodes describe_node(const struct mmul_cluster *cluster, enum mmul_dtype dtype,
                                  int node) {
    bool root = node == cluster->ranks[0].node;
    double flops = 0;
    for (int i = cluster->nodes[node].leader; i >= 0; i = mmul_cluster_next_rank(cluster, i))
        flops += mmul_product_rate(&cluster->ranks[i], dtype, 0, 1e9, 1e9, 1e9);
    struct mmul_link link = mmul_cost_root_link(cluster, node);
    return (struct nodes){.root = root,
                          .slowest = flops,
                          .rate = root ? INFINITY : link.bytes_per_second,
                          .latency = root ? 0 : link.latency_seconds,
                          .memory = (double)cluster->nodes[node].memory_available_bytes,
                          .root_seconds_per_byte = root ? 0 : 1 / link.bytes_per_second};
}

static int compare_nodes(const void *a, const void *b) {
    const struct nodes *x = a, *y = b;
    if (x->root != y->root)
        return x->root ? -1 : 1;
    return (x->slowest < y->slowest) - (x->slowest > y->slowest);
}

static enum mmul_status terms_init(struct terms *t, const struct mmul_problem *p,
                                   const struct mmul_cluster *cluster, struct mmul_error *err) {
    double m = (double)p->m, n = (double)p->n, k = (double)p->k;
    *t = (struct terms){.a = m * k * (double)mmul_dtype_bytes(p->a_dtype),
                        .b = k * n * (double)mmul_dtype_bytes(p->b_dtype),
                        .c = (double)mmul_problem_result_each(p) * m * n,
                        .operations = mmul_problem_flops(p),
                        .count = cluster->node_count};
    enum mmul_status status = MMUL_ALLOCATE(t->nodes, t->count, "nodes", err);
    if (status != MMUL_OK)
        return status;
    for (int node = 0; node < t->count; node++)
        t->nodes[node] = describe_node(cluster, mmul_problem_result_dtype(p), node);
    qsort(t->nodes, (size_t)t->count, sizeof *t->nodes, compare_nodes);
    for (int i = 1; i < t->count; i++) {
        struct nodes *own = &t->nodes[i];
        const struct nodes *before = own - 1;
        own->slowest = fmin(own->slowest, before->slowest);
        own->rate = fmin(own->rate, before->rate);
        own->latency = fmax(own->latency, before->latency);
        own->memory = fmin(own->memory, before->memory);
        own->root_seconds_per_byte += before->root_seconds_per_byte;
    }
    return MMUL_OK;
}

static void keep_better(struct mmul_grid *best, struct mmul_grid grid) {
    if (best->rows == 0 || grid.seconds < best->seconds)
        *best = grid;
}

// Evaluates a candidate with its bytes and latencies, in place and from root.
static void consider_grid(struct mmul_grids *grids, const struct terms *t, struct mmul_grid grid,
                          double latencies) {
    int used = grid.rows * grid.cols * grid.copies;
    const struct nodes *nodes = &t->nodes[used - 1];
    double compute = t->operations / (used * nodes->slowest);
    double moving = used > 1 ? grid.bytes / nodes->rate + latencies * nodes->latency : 0;
    // Seconds per byte that is distributed evenly.
    double link = nodes->root_seconds_per_byte / used;
    grid.bytes = used > 1 ? grid.bytes : 0;
    grid.seconds = fmax(compute, moving);
    keep_better(&grids->in_place, grid);
    grid.seconds = fmax(grid.seconds, (t->a + t->b) * link) + t->c * link;
    keep_better(&grids->from_root, grid);
}

static void evaluate_rows(struct mmul_grids *grids, const struct terms *t, int nodes) {
    for (int rows = 1; rows <= nodes; rows++) {
        struct mmul_grid grid = {.rows = rows, .cols = 1, .copies = 1};
        grid.bytes = t->b * (1 - 1.0 / rows);
        consider_grid(grids, t, grid, rows);
    }
}

static void evaluate_summa(struct mmul_grids *grids, const struct terms *t, double k, int nodes) {
    for (int rows = 1; rows <= nodes; rows++) {
        for (int cols = 1; cols <= nodes / rows; cols++) {
            struct mmul_grid grid = {.rows = rows, .cols = cols, .copies = 1};
            grid.bytes = t->a / rows * (1 - 1.0 / cols) + t->b / cols * (1 - 1.0 / rows);
            consider_grid(grids, t, grid, k / SUMMA_PANEL + rows + cols);
        }
    }
}

static void evaluate_layered(struct mmul_grids *grids, const struct terms *t, int nodes) {
    double all = t->a + t->b;
    for (int copies = 1; copies * copies * copies <= nodes; copies++) {
        for (int side = copies; side * side * copies <= nodes; side++) {
            double used = (double)side * side * copies;
            struct mmul_grid grid = {.rows = side, .cols = side, .copies = copies};
            if (copies > 1 && (all + t->c) * copies / used > t->nodes[(int)used - 1].memory)
                continue;
            grid.bytes =
                all / sqrt(copies * used) + (copies > 1 ? (all + t->c) * copies / used : 0);
            consider_grid(grids, t, grid, sqrt(used / pow(copies, 3)) + log2(copies));
        }
    }
}

enum mmul_status mmul_grids(const struct mmul_problem *problem, const struct mmul_cluster *cluster,
                            struct mmul_grids grids[static MMUL_GRIDS], struct mmul_error *err) {
    struct terms t;
    enum mmul_status status = terms_init(&t, problem, cluster, err);
    if (status != MMUL_OK)
        return status;
    grids[0] = (struct mmul_grids){.name = "1-D"};
    grids[1] = (struct mmul_grids){.name = "2-D (SUMMA)"};
    grids[2] = (struct mmul_grids){.name = "2.5-D"};
    evaluate_rows(&grids[0], &t, t.count);
    evaluate_summa(&grids[1], &t, (double)problem->k, t.count);
    evaluate_layered(&grids[2], &t, t.count);
    mmul_free(t.nodes);
    return MMUL_OK;
}
