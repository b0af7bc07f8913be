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

static struct mmul_mesh_request mesh_request(const struct mmul_program_costs *c) {
    return (struct mmul_mesh_request){c->size, c->node_count, c->rank_node, c->shares};
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
    const struct mmul_mesh_request request = mesh_request(&c);
    if (status == MMUL_OK)
        status = mmul_mesh_init(&c.mesh, &request, err);
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
    mmul_mesh_fini(&costs->mesh);
    *costs = (struct mmul_program_costs){0};
}

static bool is_split(enum mmul_placement_kind kind) {
    return !mmul_placement_is_whole(kind);
}

// Which part of the value a node has.
static double has(const struct mmul_program_costs *c, enum mmul_placement_kind kind, int node) {
    const struct mmul_mesh_node *mesh = &c->mesh.nodes[node];
    switch (kind) {
    case MMUL_PLACE_FILE:
        return node == c->rank_node[0];
    case MMUL_PLACE_GRID:
        return mesh->block;
    case MMUL_PLACE_GRID_ROWS:
        return mesh->rows;
    case MMUL_PLACE_GRID_COLS:
        return mesh->cols;
    default:
        return is_split(kind) ? c->node_shares[node] : 1;
    }
}

static double bytes_of(struct mmul_shape shape) {
    return (double)shape.batch * (double)shape.depth * (double)shape.rows * (double)shape.cols *
           (double)sizeof(float);
}

struct traffic {
    double most; // of one node, in or out, as parts of the value
    double all;
    int stages;
};

static struct traffic add_node(struct traffic t, double sends, double takes) {
    return (struct traffic){fmax(t.most, fmax(sends, takes)), t.all + sends, t.stages};
}

// Blocks to the rows (columns) of the mesh that they are in.
static struct traffic along_mesh(const struct mmul_program_costs *c, bool rows) {
    struct traffic t = {.stages = (rows ? c->mesh.row_nodes : c->mesh.col_nodes) - 1};
    for (int node = 0; node < c->node_count; node++) {
        const struct mmul_mesh_node *n = &c->mesh.nodes[node];
        t = add_node(t, rows ? n->row_sends : n->col_sends, (rows ? n->rows : n->cols) - n->block);
    }
    return t;
}

static struct traffic between(const struct mmul_program_costs *c, enum mmul_placement_kind from,
                              enum mmul_placement_kind to) {
    struct traffic t = {.stages = c->node_count - 1};
    double have = 0, want = 0;
    bool copies = from == MMUL_PLACE_GRID_ROWS || from == MMUL_PLACE_GRID_COLS;
    for (int node = 0; node < c->node_count; node++)
        have += has(c, from, node);
    // What a node takes, by how much others have: of copies what it has not, once.
    for (int turn = 0; turn < 2; turn++)
        for (int node = 0; node < c->node_count; node++) {
            double own = has(c, from, node), others = have - own;
            double each = has(c, to, node);
            if (copies)
                each *= others > 0 ? (1 - own) / others : 0;
            if (turn == 0)
                want += each;
            else
                t = add_node(t, own * (want - each), each * others);
        }
    return t;
}

static struct traffic traffic_of(const struct mmul_program_costs *c, enum mmul_placement_kind from,
                                 enum mmul_placement_kind to) {
    bool rows = to == MMUL_PLACE_GRID_ROWS;
    if (from == MMUL_PLACE_REPLICATE || to == MMUL_PLACE_PARTIAL || from == to)
        return (struct traffic){0};
    if (from == MMUL_PLACE_GRID && (rows || to == MMUL_PLACE_GRID_COLS))
        return along_mesh(c, rows);
    return between(c, from, to);
}

double mmul_program_move_seconds(const struct mmul_program_costs *costs, struct mmul_shape shape,
                                 enum mmul_placement_kind from, enum mmul_placement_kind to,
                                 double *bytes) {
    const struct mmul_program_costs *c = costs;
    const double all = bytes_of(shape);
    const struct traffic t = traffic_of(c, from, to);
    double widest = 0;
    for (int node = 0; node < c->node_count; node++)
        widest = fmax(widest, has(c, to, node));
    *bytes = all * t.all;
    double seconds = all * widest / TOUCH_BYTES_PER_SECOND;
    if (from == MMUL_PLACE_FILE || to == MMUL_PLACE_FILE)
        seconds += all / MMUL_FILE_BYTES_PER_SECOND;
    if (t.most > 0)
        seconds += all * t.most / c->bytes_per_second + t.stages * c->latency_seconds;
    return seconds;
}

// The part of the work that a rank does: its share of what is split; of what is whole on every node
// its share of the node's. Summands are split along the inner size, others are made by everybody.
static double part_of(const struct mmul_program_costs *c, enum mmul_operation_kind kind,
                      enum mmul_placement_kind result, int rank) {
    if (result == MMUL_PLACE_GRID)
        return rank < c->mesh.rows * c->mesh.cols ? c->mesh.row_shares[rank / c->mesh.cols] *
                                                        c->mesh.col_shares[rank % c->mesh.cols]
                                                  : 0;
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

// ------------------------------------------------------------------------------------------- mesh

static double product_seconds(const struct mmul_program_costs *c, struct mmul_shape a,
                              struct mmul_shape b) {
    double seconds = 0, ignored;
    double flops = 2 * (double)a.rows * (double)a.cols * (double)b.cols;
    for (int rank = 0; rank < c->mesh.rows * c->mesh.cols; rank++)
        seconds =
            fmax(seconds, flops / c->flops[rank] * part_of(c, MMUL_MATMUL, MMUL_PLACE_GRID, rank));
    return seconds +
           mmul_program_move_seconds(c, a, MMUL_PLACE_GRID, MMUL_PLACE_GRID_ROWS, &ignored) +
           mmul_program_move_seconds(c, b, MMUL_PLACE_GRID, MMUL_PLACE_GRID_COLS, &ignored);
}

void mmul_program_costs_mesh(struct mmul_program_costs *costs, struct mmul_shape a,
                             struct mmul_shape b) {
    static const double evenness[] = {0, 0.25, 0.5, 0.75, 1};
    enum { CHOICES = sizeof evenness / sizeof *evenness };
    const struct mmul_mesh_request request = mesh_request(costs);
    double best = INFINITY, best_evenness = 0;
    int best_rows = 1;
    for (int rows = 1; rows <= costs->size; rows++)
        for (int i = 0; i < CHOICES && mmul_mesh_is_candidate(costs->size, rows); i++) {
            if (!mmul_mesh_set(&costs->mesh, &request, rows, costs->size / rows, evenness[i]))
                break;
            double seconds = product_seconds(costs, a, b);
            if (seconds >= best * (1 - 1e-9))
                continue;
            best = seconds;
            best_rows = rows;
            best_evenness = evenness[i];
        }
    mmul_mesh_set(&costs->mesh, &request, best_rows, costs->size / best_rows, best_evenness);
}
