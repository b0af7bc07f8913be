// SPDX-License-Identifier: MIT
// Sums over nodes and largest parts of ranks. Chooses nothing.
#include "plan/program_cost.h"

#include <math.h>

#include "base/memory.h"
#include "base/status.h"
#include "plan/cost.h"

// Copies within a node, and elementwise operations; files of root.
static const double TOUCH_BYTES_PER_SECOND = 2e9, ASSUMED_FLOPS = 1e10;

static double slowest_link(const struct mmul_cluster *cluster, double *latency_seconds) {
    double rate = 0;
    *latency_seconds = MMUL_LINK_LATENCY_SECONDS;
    for (int node = 1; node < cluster->node_count; node++) {
        const struct mmul_link link = cluster->nodes[node].root_link;
        if (link.bytes_per_second <= 0 || (rate > 0 && link.bytes_per_second >= rate))
            continue;
        rate = link.bytes_per_second;
        *latency_seconds = link.latency_seconds;
    }
    return rate > 0 ? rate : MMUL_LINK_BYTES_PER_SECOND;
}

enum mmul_status mmul_program_costs_init(struct mmul_program_costs *costs,
                                         const struct mmul_cluster *cluster, const double *weights,
                                         struct mmul_error *err) {
    struct mmul_program_costs c = {.size = cluster->size, .node_count = cluster->node_count};
    c.bytes_per_second = slowest_link(cluster, &c.latency_seconds);
    enum mmul_status status = MMUL_ALLOCATE(c.rank_node, c.size, "costs", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(c.shares, c.size, "costs", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(c.flops, c.size, "costs", err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(c.node_shares, c.node_count, "costs", err);
    double sum = 0;
    for (int rank = 0; status == MMUL_OK && rank < c.size; rank++)
        sum += weights[rank];
    for (int rank = 0; status == MMUL_OK && rank < c.size; rank++) {
        const struct mmul_rank_info *info = &cluster->ranks[rank];
        c.rank_node[rank] = info->node;
        c.shares[rank] = weights[rank] / sum;
        c.node_shares[info->node] += c.shares[rank];
        c.flops[rank] = info->speed_flops > 0 ? info->speed_flops : ASSUMED_FLOPS;
    }
    if (status == MMUL_OK)
        *costs = c;
    else
        mmul_program_costs_fini(&c);
    return status;
}

void mmul_program_costs_fini(struct mmul_program_costs *costs) {
    mmul_free(costs->rank_node);
    mmul_free(costs->shares);
    mmul_free(costs->flops);
    mmul_free(costs->node_shares);
    *costs = (struct mmul_program_costs){0};
}

static bool is_split(enum mmul_placement_kind kind) {
    return !mmul_placement_is_whole(kind);
}

// Which part of the value a node sends, as a fraction, and which one it takes.
static double has(const struct mmul_program_costs *c, enum mmul_placement_kind kind, int node) {
    if (is_split(kind))
        return c->node_shares[node];
    return kind != MMUL_PLACE_FILE || node == c->rank_node[0];
}

static double bytes_of(struct mmul_shape shape) {
    return (double)shape.batch * (double)shape.depth * (double)shape.rows * (double)shape.cols *
           (double)sizeof(float);
}

double mmul_program_move_seconds(const struct mmul_program_costs *costs, struct mmul_shape shape,
                                 enum mmul_placement_kind from, enum mmul_placement_kind to,
                                 double *bytes) {
    const struct mmul_program_costs *c = costs;
    const double all = bytes_of(shape);
    double have = 0, want = 0, most = 0, widest = 0;
    bool travels = from != MMUL_PLACE_REPLICATE && to != MMUL_PLACE_PARTIAL;
    for (int node = 0; node < c->node_count; node++) {
        have += has(c, from, node);
        want += has(c, to, node);
        widest = fmax(widest, has(c, to, node));
    }
    *bytes = 0;
    for (int node = 0; travels && node < c->node_count; node++) {
        double sends = has(c, from, node) * (want - has(c, to, node));
        double takes = has(c, to, node) * (have - has(c, from, node));
        most = fmax(most, fmax(sends, takes));
        *bytes += all * sends;
    }
    double seconds = all * widest / TOUCH_BYTES_PER_SECOND;
    if (from == MMUL_PLACE_FILE || to == MMUL_PLACE_FILE)
        seconds += all / MMUL_FILE_BYTES_PER_SECOND;
    if (most > 0)
        seconds += all * most / c->bytes_per_second + (c->node_count - 1) * c->latency_seconds;
    return seconds;
}

// The part of the work that a rank does: its share of what is split; of what is whole on every node
// its share of the node's. Summands are split along the inner size, others are made by everybody.
static double part_of(const struct mmul_program_costs *c, enum mmul_operation_kind kind,
                      enum mmul_placement_kind result, int rank) {
    if (is_split(result) || (kind == MMUL_MATMUL && result == MMUL_PLACE_PARTIAL))
        return c->shares[rank];
    double node_share = c->node_shares[c->rank_node[rank]];
    if (result == MMUL_PLACE_REPLICATE)
        return node_share > 0 ? c->shares[rank] / node_share : 1;
    return 1;
}

double mmul_program_operation_seconds(const struct mmul_program_costs *costs,
                                      const struct mmul_program *program,
                                      const struct mmul_operation *operation,
                                      const struct mmul_rule *rule) {
    const struct mmul_operation_row *row = mmul_operation_row(operation->kind);
    const struct mmul_program_costs *c = costs;
    struct mmul_operand_info operands[MMUL_OPERANDS];
    struct mmul_shape shape = mmul_program_shape(program, operation);
    double most = 0;
    if (row->flops == NULL || row->is_view)
        return 0;
    mmul_program_operands(program, operation, operands);
    double flops = row->flops(operands, shape);
    double touched = bytes_of(shape) * (1 + row->arity);
    for (int rank = 0; rank < c->size; rank++) {
        double part = part_of(c, operation->kind, rule->result, rank);
        double seconds = operation->kind == MMUL_MATMUL ? flops / c->flops[rank]
                                                        : touched / TOUCH_BYTES_PER_SECOND;
        // Every rank of a sum writes all of it.
        if (rule->result == MMUL_PLACE_PARTIAL)
            seconds += bytes_of(shape) / TOUCH_BYTES_PER_SECOND / fmax(part, 1e-9);
        most = fmax(most, part * seconds);
    }
    return most;
}
