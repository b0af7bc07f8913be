// SPDX-License-Identifier: MIT
// Computes the holders of a program's values and the part of each, then sums over nodes and largest
// parts of ranks. Chooses only the mesh.
#include "plan/cost/program_cost.h"

#include <math.h>

#include "base/memory.h"
#include "model/matrix.h"
#include "model/rank_groups.h"
#include "plan/cost/cost.h"

// Rate of copies within a node through a buffer, and of root's files.
static const double TOUCH_BYTES_PER_SECOND = 2e9;

// Operations other than products, as measured (src/NOTES.md, "Planning and cost").
// MAP_BYTES_PER_SECOND is the memory traffic of a node, all its ranks together, until measured.
// MAP_PART relates the speed of a rank to its rate of products: exponentials of 10 operations each
// come at 1 to 2 per nanosecond where products make 100 operations. ATTENTION_PART: the tiles of
// attention are small products.
static const double MAP_BYTES_PER_SECOND = 1e10, MAP_PART = 0.125, ATTENTION_PART = 0.5;

// Cost of a step that the ranks of a node make together, or that moves bytes between them. Ranks
// wait for the last one in sleep intervals (exec/memory/progress.c), and no rank takes over lines
// of a late one.
static const double TOGETHER_SECONDS = 1e-4, TOGETHER_PART = 0.1;

// Copies rows of a piece into a message (measured 7e9) and out of one (5e9): one thread, in memory
// used before.
static const double COPY_BYTES_PER_SECOND = 6e9;

static const double ASSUMED_FLOPS = 1e10; // mean of the ranks; weights scale it

// ------------------------------------------------------------------------------ holders of a value

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

static void set_links(struct mmul_program_costs *c, const struct mmul_cluster *cluster) {
    const int root = cluster->ranks[0].node;
    double fastest = 0;
    c->bytes_per_second = slowest_link(cluster, &c->latency_seconds);
    for (int node = 0; node < c->node_count; node++) {
        c->node_bytes_per_second[node] = mmul_cost_root_link(cluster, node).bytes_per_second;
        fastest = node != root ? fmax(fastest, c->node_bytes_per_second[node]) : fastest;
    }
    if (fastest > 0)
        c->node_bytes_per_second[root] = fastest;
}

static enum mmul_status find_holders(struct mmul_program_costs *c,
                                     const struct mmul_cluster *cluster,
                                     const struct mmul_rank_group *rank_group,
                                     struct mmul_error *err) {
    bool *ranks = NULL, *ranks_of_nodes = NULL, *nodes = NULL;
    enum mmul_status status = MMUL_ALLOCATE_ALL(
        "a group of ranks", err, MMUL_ARRAY(c->holders, 1), MMUL_ARRAY(ranks, cluster->size),
        MMUL_ARRAY(ranks_of_nodes, cluster->size), MMUL_ARRAY(nodes, cluster->node_count));
    if (status != MMUL_OK)
        return status;
    *c->holders = (struct mmul_holders){ranks, ranks_of_nodes, nodes, -1, 0, c->size};
    for (int rank = 0; rank < cluster->size; rank++) {
        ranks[rank] = mmul_rank_group_contains(rank_group, rank);
        nodes[cluster->ranks[rank].node] |= ranks[rank];
        c->holders->count += ranks[rank];
        if (ranks[rank] && c->holders->first < 0)
            c->holders->first = rank;
    }
    for (int rank = 0; rank < cluster->size; rank++)
        ranks_of_nodes[rank] = nodes[cluster->ranks[rank].node];
    return MMUL_OK;
}

// Sets the rate of a node to the sum over its ranks, if all of them were measured.
static void set_memory_rates(struct mmul_program_costs *c, const struct mmul_cluster *cluster) {
    for (int rank = 0; rank < c->size; rank++)
        c->check_bytes_per_second[rank] = mmul_check_bytes_per_second(&cluster->ranks[rank]);
    for (int node = 0; node < c->node_count; node++) {
        double sum = 0, least = INFINITY;
        for (int rank = 0; rank < c->size; rank++)
            if (cluster->ranks[rank].node == node) {
                sum += cluster->ranks[rank].speed.map_bytes_per_second;
                least = fmin(least, cluster->ranks[rank].speed.map_bytes_per_second);
            }
        c->map_bytes_per_second[node] = least > 0 ? sum : MAP_BYTES_PER_SECOND;
    }
}

// Sets the shares of all ranks, or of the group's ranks alone. They are equal if no rank has a
// weight.
static void set_shares(struct mmul_program_costs *c, const double *weights) {
    const bool *in = c->holders != NULL ? c->holders->ranks : NULL;
    double sum = 0;
    int count = 0;
    for (int rank = 0; rank < c->size; rank++)
        if (in == NULL || in[rank]) {
            sum += weights[rank];
            count++;
        }
    for (int rank = 0; rank < c->size; rank++)
        c->shares[rank] = in != NULL && !in[rank] ? 0 : sum > 0 ? weights[rank] / sum : 1.0 / count;
}

enum mmul_status mmul_program_costs_init(struct mmul_program_costs *costs,
                                         const struct mmul_cluster *cluster, const double *weights,
                                         int64_t groups, const struct mmul_rank_group *rank_group,
                                         struct mmul_error *err) {
    struct mmul_program_costs c = {
        .size = cluster->size, .node_count = cluster->node_count, .groups = groups};
    enum mmul_status status = MMUL_ALLOCATE_ALL(
        "costs", err, MMUL_ARRAY(c.rank_node, c.size), MMUL_ARRAY(c.shares, c.size),
        MMUL_ARRAY(c.flops, c.size), MMUL_ARRAY(c.transfer, c.size),
        MMUL_ARRAY(c.check_bytes_per_second, c.size),
        MMUL_ARRAY(c.map_bytes_per_second, c.node_count), MMUL_ARRAY(c.node_shares, c.node_count),
        MMUL_ARRAY(c.node_bytes_per_second, c.node_count), MMUL_ARRAY(c.group_offsets, c.size + 1));
    if (status == MMUL_OK && rank_group != NULL)
        status = find_holders(&c, cluster, rank_group, err);
    if (status == MMUL_OK) {
        set_links(&c, cluster);
        set_memory_rates(&c, cluster);
        set_shares(&c, weights);
    }
    if (status == MMUL_OK && groups > 1)
        status =
            mmul_split_offsets(groups, c.size, c.shares, MMUL_SPLIT_EXACT, c.group_offsets, err);
    for (int rank = 0; status == MMUL_OK && groups > 1 && rank < c.size; rank++)
        c.shares[rank] =
            (double)(c.group_offsets[rank + 1] - c.group_offsets[rank]) / (double)groups;
    for (int rank = 0; status == MMUL_OK && rank < c.size; rank++) {
        const struct mmul_rank_info *info = &cluster->ranks[rank];
        c.rank_node[rank] = info->node;
        c.node_shares[info->node] += c.shares[rank];
        const double assumed = ASSUMED_FLOPS * fmax(c.shares[rank] * c.size, 1e-3);
        c.flops[rank][0] = mmul_rank_estimate_flops(info, MMUL_F32, assumed);
        c.flops[rank][1] = mmul_rank_estimate_flops(info, MMUL_F64, assumed);
        double slower =
            fmin(info->speed.upload_bytes_per_second, info->speed.download_bytes_per_second);
        c.transfer[rank] = !info->host_memory && slower > 0 ? 1 / slower : 0;
    }
    const struct mmul_mesh_request request = {c.size, c.node_count, c.rank_node, c.shares};
    if (status == MMUL_OK)
        status = mmul_mesh_init(&c.mesh, &request, err);
    if (status == MMUL_OK)
        *costs = c;
    else
        mmul_program_costs_fini(&c);
    return status;
}

void mmul_program_costs_fini(struct mmul_program_costs *costs) {
    MMUL_FREE_ALL(costs->rank_node, costs->shares, costs->group_offsets, costs->flops,
                  costs->transfer, costs->check_bytes_per_second, costs->map_bytes_per_second,
                  costs->node_shares, costs->node_bytes_per_second);
    mmul_mesh_fini(&costs->mesh);
    if (costs->holders != NULL) {
        MMUL_FREE_ALL((void *)(uintptr_t)costs->holders->ranks,
                      (void *)(uintptr_t)costs->holders->ranks_of_nodes,
                      (void *)(uintptr_t)costs->holders->nodes);
    }
    mmul_free(costs->holders);
    *costs = (struct mmul_program_costs){0};
}

// ------------------------------------------------------------------------------------------- moves

static bool is_split(enum mmul_placement_kind kind) {
    return !mmul_placement_is_whole(kind);
}

// Returns the part of the value that a node has.
static double part_on_node(const struct mmul_program_costs *c, enum mmul_placement_kind kind,
                           int node) {
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
        return is_split(kind) ? c->node_shares[node]
                              : c->holders == NULL || c->holders->nodes[node];
    }
}

bool mmul_program_is_joined_move(enum mmul_placement_kind from, enum mmul_placement_kind to) {
    return from == MMUL_PLACE_GRID && (to == MMUL_PLACE_GRID_ROWS || to == MMUL_PLACE_GRID_COLS);
}

// Traffic of a value, in parts of it and seconds per byte.
struct traffic {
    double seconds; // longest time of a node, sending or receiving
    double all;
    int stages;
    double copied; // by one leader, packing and unpacking beside the traffic
};

static struct traffic add_node_traffic(const struct mmul_program_costs *c, struct traffic t,
                                       int node, double sends, double takes) {
    t.seconds = fmax(t.seconds, fmax(sends, takes) / c->node_bytes_per_second[node]);
    t.all += sends;
    return t;
}

// Returns the traffic of blocks to the rows (columns) of the mesh that contain them.
static struct traffic traffic_along_mesh(const struct mmul_program_costs *c, bool rows) {
    struct traffic t = {.stages = (rows ? c->mesh.row_nodes : c->mesh.col_nodes) - 1};
    for (int node = 0; node < c->node_count; node++) {
        const struct mmul_mesh_node *n = &c->mesh.nodes[node];
        double takes = (rows ? n->rows : n->cols) - n->block;
        t = add_node_traffic(c, t, node, rows ? n->row_sends : n->col_sends, takes);
        // Terms of columns are whole rows of a block, which need no copy at either end.
        t.copied = fmax(t.copied, rows ? n->row_sends + takes : 0);
    }
    return t;
}

static struct traffic traffic_between_nodes(const struct mmul_program_costs *c,
                                            enum mmul_placement_kind from,
                                            enum mmul_placement_kind to) {
    struct traffic t = {.stages = c->node_count - 1};
    double have = 0, want = 0;
    bool copies = from == MMUL_PLACE_GRID_ROWS || from == MMUL_PLACE_GRID_COLS;
    for (int node = 0; node < c->node_count; node++)
        have += part_on_node(c, from, node);
    // Bytes that a node takes from others, in proportion to their parts. Of copies it takes only
    // its missing part, once.
    for (int turn = 0; turn < 2; turn++)
        for (int node = 0; node < c->node_count; node++) {
            double own = part_on_node(c, from, node), others = have - own;
            double each = part_on_node(c, to, node);
            if (copies)
                each *= others > 0 ? (1 - own) / others : 0;
            if (turn == 0)
                want += each;
            else
                t = add_node_traffic(c, t, node, own * (want - each), each * others);
        }
    return t;
}

static struct traffic traffic_of(const struct mmul_program_costs *c, enum mmul_placement_kind from,
                                 enum mmul_placement_kind to) {
    bool rows = to == MMUL_PLACE_GRID_ROWS;
    if (from == MMUL_PLACE_REPLICATE || to == MMUL_PLACE_PARTIAL || from == to)
        return (struct traffic){0};
    if (from == MMUL_PLACE_GRID && (rows || to == MMUL_PLACE_GRID_COLS))
        return traffic_along_mesh(c, rows);
    return traffic_between_nodes(c, from, to);
}

// Returns the traffic of a value that a group hands on: from its files and parts, or from nodes
// that have it whole to nodes without it.
static struct traffic traffic_between_rank_groups(const struct mmul_program_costs *from_costs,
                                                  const struct mmul_program_costs *to_costs,
                                                  enum mmul_placement_kind from,
                                                  enum mmul_placement_kind to) {
    const bool copies = from == MMUL_PLACE_REPLICATE;
    struct traffic t = {.stages = to_costs->node_count - 1};
    double have = 0, want = 0;
    for (int node = 0; node < to_costs->node_count; node++) {
        const double own = part_on_node(from_costs, from, node);
        have += own;
        want += copies && own > 0 ? 0 : part_on_node(to_costs, to, node);
    }
    for (int node = 0; node < to_costs->node_count; node++) {
        const double own = part_on_node(from_costs, from, node),
                     each = part_on_node(to_costs, to, node);
        if (copies)
            t = add_node_traffic(to_costs, t, node, own > 0 ? want / have : 0, own > 0 ? 0 : each);
        else
            t = add_node_traffic(to_costs, t, node, own * (want - each), each * (have - own));
    }
    return t;
}

// Returns the number of lines of a sum, as its check counts them (exec/steps/sums.h).
static double lines_of(const struct mmul_program_costs *c, struct mmul_shape shape,
                       enum mmul_placement_kind to) {
    const double rows = (double)shape.rows, cols = (double)shape.cols;
    const bool by_cols = to == MMUL_PLACE_GRID || to == MMUL_PLACE_GRID_COLS;
    return (double)shape.batch * (double)shape.depth *
           (to == MMUL_PLACE_COLS ? fmin(c->size * rows, cols)
            : by_cols             ? cols
                                  : rows);
}

// Returns the seconds of `sums` sums over all nodes, of vectors of `bytes` bytes together. Long
// vectors go around all nodes twice, to be summed and to be distributed, as MPI libraries do. Short
// ones go along a tree.
static double sums_seconds(const struct mmul_program_costs *c, int sums, double bytes) {
    enum { SHORT_BYTES = 1 << 16 };
    double others = c->node_count - 1;
    double hops = bytes > sums * SHORT_BYTES ? others : ceil(log2(others + 1));
    return others > 0 ? 2 * (bytes / c->bytes_per_second + sums * hops * c->latency_seconds) : 0;
}

static double slowest_check(const struct mmul_program_costs *c) {
    double least = INFINITY;
    for (int rank = 0; rank < c->size; rank++)
        least = fmin(least, c->check_bytes_per_second[rank]);
    return least;
}

// Seconds of a move's parts, and its network bytes.
struct move_cost {
    double here, network, packing, bytes;
};

static struct move_cost make_move_cost(const struct mmul_program_costs *c,
                                       const struct mmul_value *value,
                                       enum mmul_placement_kind from, enum mmul_placement_kind to,
                                       struct traffic t) {
    const double all = mmul_shape_data_bytes(value->shape, value->dtype);
    double widest = 0;
    for (int node = 0; node < c->node_count; node++)
        widest = fmax(widest, part_on_node(c, to, node));
    struct move_cost cost = {.bytes = all * t.all,
                             .here = all * widest / TOUCH_BYTES_PER_SECOND,
                             .packing = all * t.copied / COPY_BYTES_PER_SECOND};
    // Each rank copies its own block, in and out of a buffer.
    if (mmul_program_is_joined_move(from, to))
        cost.here = all * c->mesh.block_most * 2 / COPY_BYTES_PER_SECOND;
    // The check adds two doubles per line.
    if (from == MMUL_PLACE_PARTIAL && to != MMUL_PLACE_PARTIAL)
        cost.here += all * (1 + widest) / slowest_check(c) +
                     sums_seconds(c, 1, 2 * (double)sizeof(double) * lines_of(c, value->shape, to));
    if (from == MMUL_PLACE_FILE || to == MMUL_PLACE_FILE)
        cost.here += all / MMUL_FILE_BYTES_PER_SECOND;
    if (t.seconds > 0)
        cost.network = all * t.seconds + t.stages * c->latency_seconds;
    cost.here += c->size > 1 ? TOGETHER_SECONDS : 0;
    return cost;
}

static struct move_cost move_cost(const struct mmul_program_costs *costs,
                                  const struct mmul_value *value, enum mmul_placement_kind from,
                                  enum mmul_placement_kind to) {
    return make_move_cost(costs, value, from, to, traffic_of(costs, from, to));
}

double mmul_program_rank_group_move_seconds(const struct mmul_program_costs *from_costs,
                                            const struct mmul_program_costs *to_costs,
                                            const struct mmul_value *value,
                                            enum mmul_placement_kind from,
                                            enum mmul_placement_kind to, double *bytes) {
    const struct move_cost cost = make_move_cost(
        to_costs, value, from, to, traffic_between_rank_groups(from_costs, to_costs, from, to));
    *bytes = cost.bytes;
    return cost.here + cost.network;
}

double mmul_program_move_seconds(const struct mmul_program_costs *costs,
                                 const struct mmul_value *value, enum mmul_placement_kind from,
                                 enum mmul_placement_kind to, double *bytes) {
    const struct move_cost cost = move_cost(costs, value, from, to);
    *bytes = cost.bytes;
    return cost.here + fmax(cost.network, cost.packing);
}

// Returns the part of the work that a rank does: its share of a split result, or its share of the
// node's part of a result that is whole on every node. Summands are split along the inner size;
// every rank makes the others itself.
static double work_share(const struct mmul_program_costs *c, enum mmul_operation_kind kind,
                         enum mmul_placement_kind result, int rank) {
    if (c->holders != NULL && !c->holders->ranks[rank])
        return 0;
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

// Returns false for moves that do not exist. A sum goes neither into a file nor into stored
// columns: its check counts lines of the matrix. A file is no summand of a group: root may be
// outside.
static bool move_exists(const struct mmul_program_costs *c, enum mmul_placement_kind from,
                        enum mmul_placement_kind to) {
    const bool is_apart = c->holders != NULL && from == MMUL_PLACE_FILE;
    return !(from == MMUL_PLACE_PARTIAL && (to == MMUL_PLACE_FILE || to == MMUL_PLACE_CYCLIC)) &&
           !(is_apart && to == MMUL_PLACE_PARTIAL);
}

// Returns the split placement in which more ranks have a part.
static enum mmul_placement_kind find_halfway(const struct mmul_program_costs *c,
                                             struct mmul_shape shape) {
    const int64_t rows = mmul_shape_matrices(shape) * shape.rows;
    return c->groups == 1 && rows < c->size && rows < shape.cols ? MMUL_PLACE_COLS
                                                                 : MMUL_PLACE_ROWS;
}

struct mmul_program_path mmul_program_find_path(const struct mmul_program_costs *costs,
                                                const struct mmul_value *value, unsigned have,
                                                enum mmul_placement_kind to) {
    const enum mmul_placement_kind by = find_halfway(costs, value->shape);
    struct mmul_program_path best = {.seconds = INFINITY};
    double ignored, onward = mmul_program_move_seconds(costs, value, by, to, &ignored);
    for (int kind = 0; kind < MMUL_PLACEMENTS; kind++) {
        const enum mmul_placement_kind from = (enum mmul_placement_kind)kind;
        if ((have >> kind & 1) == 0)
            continue;
        double direct = mmul_program_move_seconds(costs, value, from, to, &ignored);
        if (move_exists(costs, from, to) && direct < best.seconds)
            best = (struct mmul_program_path){from, from, direct};
        double in_two = mmul_program_move_seconds(costs, value, from, by, &ignored) + onward;
        // In two moves the product could not read the file itself.
        const bool at_once = costs->streams && from == MMUL_PLACE_FILE;
        if (from != by && to != by && !at_once && in_two < best.seconds)
            best = (struct mmul_program_path){from, by, in_two};
    }
    return best;
}

struct mmul_program_path mmul_program_find_rank_group_path(
    const struct mmul_program_costs *from_costs, const struct mmul_program_costs *to_costs,
    const struct mmul_value *value, unsigned have, enum mmul_placement_kind to) {
    const enum mmul_placement_kind rows = MMUL_PLACE_ROWS;
    const unsigned direct =
        1U << MMUL_PLACE_FILE | 1U << rows | 1U << MMUL_PLACE_COLS | 1U << MMUL_PLACE_REPLICATE;
    struct mmul_program_path best = {.seconds = INFINITY};
    double ignored;
    const double onward =
        mmul_program_rank_group_move_seconds(from_costs, to_costs, value, rows, to, &ignored);
    for (int kind = 0; kind < MMUL_PLACEMENTS; kind++) {
        const enum mmul_placement_kind from = (enum mmul_placement_kind)kind;
        if ((have >> kind & 1) == 0)
            continue;
        const bool by_rows = (direct >> kind & 1) == 0;
        const double seconds =
            by_rows ? mmul_program_move_seconds(from_costs, value, from, rows, &ignored) + onward
                    : mmul_program_rank_group_move_seconds(from_costs, to_costs, value, from, to,
                                                           &ignored);
        if (seconds < best.seconds)
            best = (struct mmul_program_path){from, by_rows ? rows : from, seconds};
    }
    return best;
}

// -------------------------------------------------------------------------------------- operations

// A product, and the parts of its matrices that one rank works with.
struct product {
    struct mmul_shape a, b, c;
    enum mmul_dtype dtype;
    double flops;
    enum mmul_placement_kind result;
};

struct parts {
    double a, b, c, work;
};

static struct parts product_parts(const struct mmul_program_costs *c, const struct product *p,
                                  int rank) {
    double part = work_share(c, MMUL_MATMUL, p->result, rank);
    switch (p->result) {
    case MMUL_PLACE_COLS:
    case MMUL_PLACE_CYCLIC:
        return (struct parts){1, part, part, part};
    case MMUL_PLACE_PARTIAL:
        return (struct parts){part, part, 1, part};
    case MMUL_PLACE_GRID:
        return part > 0 ? (struct parts){c->mesh.row_shares[rank / c->mesh.cols],
                                         c->mesh.col_shares[rank % c->mesh.cols], part, part}
                        : (struct parts){0};
    default:
        return (struct parts){part, 1, part, part};
    }
}

// Returns the seconds of multiplying, with the transfers to and from a device with its own memory.
// The terms of a grid come in panels, and the block of C goes to and fro with each.
static double multiply_seconds(const struct mmul_program_costs *c, const struct product *p) {
    double most = 0, turns = p->result == MMUL_PLACE_GRID ? 2 * mmul_program_panels(p->a.cols) : 1;
    for (int rank = 0; rank < c->size; rank++) {
        struct parts own = product_parts(c, p, rank);
        double bytes = own.a * mmul_shape_data_bytes(p->a, p->dtype) +
                       own.b * mmul_shape_data_bytes(p->b, p->dtype) +
                       own.c * turns * mmul_shape_data_bytes(p->c, p->dtype);
        double seconds =
            own.work * p->flops / c->flops[rank][p->dtype == MMUL_F64] + bytes * c->transfer[rank];
        // Every rank of a sum writes all of C.
        if (p->result == MMUL_PLACE_PARTIAL)
            seconds += mmul_shape_data_bytes(p->c, p->dtype) / TOUCH_BYTES_PER_SECOND;
        most = fmax(most, seconds);
    }
    return most;
}

// Returns the seconds of the check. Each rank reads the operands and the result of its product. For
// a grid it reads a block of each, and vectors are summed: two doubles per column and row, one per
// term (model/check.h).
static double check_seconds(const struct mmul_program_costs *c, const struct product *p) {
    const bool is_grid = p->result == MMUL_PLACE_GRID;
    double most = 0;
    for (int rank = 0; rank < c->size; rank++) {
        struct parts own = product_parts(c, p, rank);
        if (is_grid)
            own.a = own.b = own.c;
        double bytes = own.a * mmul_shape_data_bytes(p->a, p->dtype) +
                       own.b * mmul_shape_data_bytes(p->b, p->dtype) +
                       own.c * mmul_shape_data_bytes(p->c, p->dtype);
        most = fmax(most, bytes / c->check_bytes_per_second[rank]);
    }
    double doubles = (double)p->c.batch * (double)p->c.depth *
                     (2 * (double)p->c.rows + 2 * (double)p->c.cols + (double)p->a.cols);
    return is_grid ? most + sums_seconds(c, 3, (double)sizeof(double) * doubles) : most;
}

static struct product make_product(const struct mmul_operation_call *call, struct mmul_shape c,
                                   enum mmul_placement_kind result) {
    return (struct product){.a = call->operands[0].shape,
                            .b = call->operands[1].shape,
                            .c = {c.batch, c.depth, c.rows, call->operands[1].shape.cols},
                            .dtype = call->operands[0].dtype,
                            .flops = mmul_operation_flops(MMUL_MATMUL, call, c),
                            .result = result};
}

static struct product describe_product(const struct mmul_program *program,
                                       const struct mmul_operation *operation,
                                       const struct mmul_rule *rule) {
    struct mmul_operand_info operands[MMUL_OPERANDS];
    const struct mmul_operation_call call =
        mmul_program_describe_call(program, operation, operands);
    return make_product(&call, mmul_program_shape(program, operation), rule->result);
}

// Returns the seconds of moves, packing and multiplying of a product with joined operands. `apart`
// receives the seconds without overlap.
static double joined_seconds(const struct mmul_program_costs *c, const struct product *p,
                             const bool joined[MMUL_FACTORS], double *apart) {
    static const enum mmul_placement_kind to[][MMUL_FACTORS] = {
        [MMUL_PLACE_ROWS] = {MMUL_PLACE_ROWS, MMUL_PLACE_REPLICATE},
        [MMUL_PLACE_COLS] = {MMUL_PLACE_REPLICATE, MMUL_PLACE_COLS},
        [MMUL_PLACE_GRID] = {MMUL_PLACE_GRID_ROWS, MMUL_PLACE_GRID_COLS}};
    const struct mmul_value factors[] = {{.shape = p->a, .dtype = p->dtype},
                                         {.shape = p->b, .dtype = p->dtype}};
    const bool is_grid = p->result == MMUL_PLACE_GRID; // else pieces come from files
    struct move_cost sum = {0};
    double multiply = multiply_seconds(c, p);
    *apart = multiply;
    for (int i = 0; i < MMUL_FACTORS; i++) {
        const struct move_cost cost = move_cost(
            c, &factors[i], is_grid ? MMUL_PLACE_GRID : MMUL_PLACE_FILE, to[p->result][i]);
        if (!joined[i])
            continue;
        sum.here += cost.here;
        sum.network += cost.network;
        sum.packing += cost.packing;
        *apart += cost.here + fmax(cost.network, cost.packing);
    }
    double before = is_grid ? sum.here : 0;
    double moves = fmax(sum.network, sum.packing) + sum.here - before;
    return before + fmax(moves, multiply) + fmin(moves, multiply) / mmul_program_panels(p->a.cols);
}

double mmul_program_overlap_saving(const struct mmul_program_costs *costs,
                                   const struct mmul_program *program,
                                   const struct mmul_operation *operation,
                                   const struct mmul_rule *rule, const bool joined[MMUL_FACTORS]) {
    double apart;
    if (operation->kind != MMUL_MATMUL || (!joined[0] && !joined[1]))
        return 0;
    const struct product p = describe_product(program, operation, rule);
    double together = joined_seconds(costs, &p, joined, &apart);
    return apart - together;
}

double mmul_program_check_seconds(const struct mmul_program_costs *costs,
                                  const struct mmul_program *program,
                                  const struct mmul_operation *operation,
                                  const struct mmul_rule *rule) {
    const struct product p = describe_product(program, operation, rule);
    return check_seconds(costs, &p);
}

// Adds the cost of waiting to a result that all ranks of a node make together.
static double add_waiting_seconds(const struct mmul_program_costs *c, enum mmul_placement_kind kind,
                                  double seconds) {
    const bool waits = kind == MMUL_PLACE_REPLICATE && c->size > c->node_count;
    return waits ? seconds * (1 + TOGETHER_PART) + TOGETHER_SECONDS : seconds;
}

// Returns the type of the operands, which is one; numbers have none.
static enum mmul_dtype dtype_of(const struct mmul_operation_call *call) {
    enum mmul_dtype dtype = MMUL_F32;
    for (int i = 0; i < call->operand_count; i++)
        dtype = call->operands[i].is_number ? dtype : call->operands[i].dtype;
    return dtype;
}

// Returns the bytes read and written. A lookup counts only the rows that it takes.
static double map_bytes(enum mmul_operation_kind kind, const struct mmul_operation_call *call,
                        struct mmul_shape result) {
    const enum mmul_dtype dtype = dtype_of(call);
    double bytes = mmul_shape_data_bytes(result, dtype);
    for (int i = 0; i < call->operand_count; i++)
        bytes += mmul_shape_data_bytes(
            kind == MMUL_TAKE || kind == MMUL_SLICE ? result : call->operands[i].shape, dtype);
    return bytes;
}

// Returns the seconds of the slowest rank, or of the slowest node if memory is the limit. Summands
// are as large as the result. A result on a device with its own memory is downloaded.
static double map_seconds(const struct mmul_program_costs *c, enum mmul_operation_kind kind,
                          const struct mmul_operation_call *call, struct mmul_shape result,
                          const struct mmul_rule *rule) {
    const bool is_summand = rule->result == MMUL_PLACE_PARTIAL;
    const bool is_inner = is_summand && rule->operands[0] != MMUL_PLACE_PARTIAL;
    const double bytes = map_bytes(kind, call, result),
                 flops = mmul_operation_flops(kind, call, result) /
                         (mmul_operation_row(kind)->class == MMUL_CLASS_ATTENTION ? ATTENTION_PART
                                                                                  : MAP_PART);
    double most = 0;
    for (int rank = 0; rank < c->size; rank++) {
        double part = is_inner ? c->shares[rank] : work_share(c, kind, rule->result, rank);
        double home = (is_summand ? 1 : part) * mmul_shape_data_bytes(result, dtype_of(call)) *
                      c->transfer[rank];
        most = fmax(most, part * flops / c->flops[rank][dtype_of(call) == MMUL_F64] + home);
    }
    for (int node = 0; node < c->node_count; node++) {
        double part = is_summand && !is_inner
                          ? 1
                          : part_on_node(c, is_inner ? MMUL_PLACE_ROWS : rule->result, node);
        double touched =
            part * bytes + (is_summand ? mmul_shape_data_bytes(result, dtype_of(call)) : 0);
        most = fmax(most, touched / c->map_bytes_per_second[node]);
    }
    return add_waiting_seconds(c, rule->result, most);
}

double mmul_program_scan_seconds(const struct mmul_program_costs *costs,
                                 const struct mmul_value *value, enum mmul_placement_kind kind) {
    double most = 0;
    for (int node = 0; node < costs->node_count; node++)
        most = fmax(most, part_on_node(costs, kind, node) / costs->map_bytes_per_second[node]);
    return most * mmul_shape_data_bytes(value->shape, value->dtype);
}

// Returns the seconds to move the units of a persistent value that lie outside the plan's shares by
// more than one unit.
static double persistent_value_seconds(const struct mmul_program_costs *c,
                                       const struct mmul_program *program,
                                       const struct mmul_operation *operation) {
    const struct mmul_persistent_value *set = &program->kept[operation->kept];
    const struct mmul_value *value = &program->values[operation->result];
    if (set->offsets == NULL)
        return 0;
    const double total = (double)set->offsets[set->parts];
    double planned = 0, apart = 0, ignored;
    for (int rank = 0; rank + 1 < c->size; rank++) {
        planned += c->shares[rank] * total;
        apart += fmax(fabs((double)set->offsets[rank + 1] - planned) - 1, 0);
    }
    if (apart == 0)
        return 0;
    return mmul_program_move_seconds(c, value, operation->requested_placement,
                                     operation->requested_placement, &ignored) +
           (c->node_count > 1 ? apart / total * mmul_shape_data_bytes(value->shape, value->dtype) /
                                    c->bytes_per_second
                              : 0);
}

double mmul_program_operation_seconds(const struct mmul_program_costs *costs,
                                      const struct mmul_program *program,
                                      const struct mmul_operation *operation,
                                      const struct mmul_rule *rule) {
    const struct mmul_operation_row *row = mmul_operation_row(operation->kind);
    const struct mmul_program_costs *c = costs;
    struct mmul_operand_info operands[MMUL_OPERANDS];
    struct mmul_shape shape = mmul_program_shape(program, operation);
    if (operation->kind == MMUL_LOAD_PERSISTENT)
        return persistent_value_seconds(c, program, operation);
    if (row->flops_each <= 0 || row->is_view || rule->result == MMUL_PLACE_FILE)
        return 0;
    if (operation->kind == MMUL_MATMUL || operation->kind == MMUL_FUSED_TOPK) {
        const struct product p = describe_product(program, operation, rule);
        return add_waiting_seconds(c, rule->result, multiply_seconds(c, &p) + check_seconds(c, &p));
    }
    const struct mmul_operation_call call =
        mmul_program_describe_call(program, operation, operands);
    return map_seconds(c, operation->kind, &call, shape, rule);
}

// -------------------------------------------------------------------------------------------- mesh

void mmul_program_costs_mesh(struct mmul_program_costs *costs,
                             const struct mmul_operand_info *operands, struct mmul_shape result) {
    static const double evenness[] = {0, 0.125, 0.25, 0.5, 1};
    enum { CHOICES = sizeof evenness / sizeof *evenness };
    const struct mmul_mesh_request request = {costs->size, costs->node_count, costs->rank_node,
                                              costs->shares};
    const struct mmul_operation_call call = {operands, MMUL_FACTORS, NULL};
    const struct product p = make_product(&call, result, MMUL_PLACE_GRID);
    static const bool all_joined[MMUL_FACTORS] = {true, true};
    double best = INFINITY, best_evenness = 0, ignored;
    int best_rows = 1;
    for (int rows = 1; rows <= costs->size; rows++)
        for (int i = 0; i < CHOICES && mmul_mesh_is_candidate(costs->size, rows); i++) {
            if (!mmul_mesh_set(&costs->mesh, &request, rows, costs->size / rows, evenness[i]))
                break;
            const double seconds =
                joined_seconds(costs, &p, all_joined, &ignored) + check_seconds(costs, &p);
            if (seconds >= best * (1 - 1e-9))
                continue;
            best = seconds, best_rows = rows, best_evenness = evenness[i];
        }
    mmul_mesh_set(&costs->mesh, &request, best_rows, costs->size / best_rows, best_evenness);
}
