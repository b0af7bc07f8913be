// SPDX-License-Identifier: MIT
// The plan: choose the axis, share the range, size tiles and memory, predict. Each step fills in
// its part of one block and reads only what earlier steps wrote. Printing is in plan_text.c.
#include "plan/plan.h"

#include <math.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "model/check.h"
#include "plan/share.h"

// Assumed until links are measured: 1 Gbit/s between nodes, 1 GB/s for files and first touch.
static const double LINK_BYTES_PER_SECOND = 125e6;
static const double FILE_BYTES_PER_SECOND = 1e9;

// Room beside the bytes of small jobs: rounds deal out whole 64-byte pieces to each node.
enum { ROUND_LEAST = 1 << 20 };

// Of the available memory; the rest is for the system and for what is not counted here.
static const double MEMORY_SHARE = 0.95;
static const double DEVICE_MEMORY_SHARE = 0.8;

// Work space of one call.
struct planning {
    const struct mmul_plan_request *request;
    struct mmul_plan *plan;
    struct mmul_plan_rank *ranks;
    struct mmul_plan_node *nodes;
    double *weights;   // one per rank
    int64_t *counts;   // one per rank
    int64_t *capacity; // one per node
    int *rank_node;    // one per rank
    bool *clipped;     // one per node
};

static struct mmul_plan_rank *plan_ranks(struct mmul_plan *plan) {
    return (struct mmul_plan_rank *)(plan + 1);
}

static struct mmul_plan_node *plan_nodes(struct mmul_plan *plan) {
    return (struct mmul_plan_node *)(plan_ranks(plan) + plan->size);
}

const struct mmul_plan_rank *mmul_plan_ranks(const struct mmul_plan *plan) {
    return (const struct mmul_plan_rank *)(plan + 1);
}

const struct mmul_plan_node *mmul_plan_nodes(const struct mmul_plan *plan) {
    return (const struct mmul_plan_node *)(mmul_plan_ranks(plan) + plan->size);
}

void mmul_plan_destroy(struct mmul_plan *plan) {
    mmul_free(plan);
}

static void planning_fini(struct planning *p) {
    mmul_free(p->weights);
    mmul_free(p->counts);
    mmul_free(p->capacity);
    mmul_free(p->rank_node);
    mmul_free(p->clipped);
}

static enum mmul_status planning_init(struct planning *p, struct mmul_error *err) {
    int size = p->request->cluster->size, nodes = p->request->cluster->node_count;
    int64_t bytes = (int64_t)sizeof(struct mmul_plan) +
                    size * (int64_t)sizeof(struct mmul_plan_rank) +
                    nodes * (int64_t)sizeof(struct mmul_plan_node);
    const struct {
        int64_t count;
        size_t each;
        void **memory;
    } blocks[] = {
        {bytes, 1, (void **)&p->plan},
        {size, sizeof *p->weights, (void **)&p->weights},
        {size, sizeof *p->counts, (void **)&p->counts},
        {nodes, sizeof *p->capacity, (void **)&p->capacity},
        {size, sizeof *p->rank_node, (void **)&p->rank_node},
        {nodes, sizeof *p->clipped, (void **)&p->clipped},
    };
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        enum mmul_status status =
            mmul_allocate(blocks[i].count, blocks[i].each, "the plan", blocks[i].memory, err);
        if (status != MMUL_OK)
            return status;
    }
    p->plan->problem = *p->request->problem;
    p->plan->rule = p->request->rule;
    p->plan->size = size;
    p->plan->node_count = nodes;
    p->plan->bytes = bytes;
    p->ranks = plan_ranks(p->plan);
    p->nodes = plan_nodes(p->plan);
    return MMUL_OK;
}

// Who is there, with which weight.
static void copy_cluster(struct planning *p) {
    const struct mmul_cluster *cluster = p->request->cluster;
    for (int rank = 0; rank < cluster->size; rank++) {
        const struct mmul_rank_info *info = &cluster->ranks[rank];
        p->rank_node[rank] = p->ranks[rank].node = info->node;
        p->weights[rank] = p->request->weights ? p->request->weights[rank] : info->speed_flops;
        p->ranks[rank].weight = p->weights[rank];
        mmul_text_copy(p->ranks[rank].device, sizeof p->ranks[rank].device,
                       info->device.id[0] ? info->device.id : info->device_name);
    }
    for (int node = 0; node < cluster->node_count; node++) {
        const struct mmul_node_info *info = &cluster->nodes[node];
        double memory = MEMORY_SHARE * (double)info->memory_available_bytes;
        int64_t limit = p->request->memory_limit_bytes;
        p->nodes[node].memory_bytes = limit > 0 && (double)limit < memory ? limit : (int64_t)memory;
        mmul_text_copy(p->nodes[node].host, sizeof p->nodes[node].host, info->host);
    }
}

// ------------------------------------------------------------------------------------- the axis

static int64_t operand_bytes(const struct mmul_problem *problem, struct mmul_shape shape,
                             enum mmul_dtype dtype) {
    if (problem->alpha == 0)
        return 0;
    return mmul_shape_matrices(shape) * shape.rows * shape.cols * (int64_t)mmul_dtype_bytes(dtype);
}

static int64_t whole_bytes(const struct mmul_problem *problem, enum mmul_axis axis) {
    return operand_bytes(problem, mmul_problem_whole_shape(problem, axis),
                         mmul_problem_whole_dtype(problem, axis));
}

// Bytes of the split operand per unit.
static int64_t piece_unit_bytes(const struct mmul_problem *problem, enum mmul_axis axis) {
    return problem->alpha == 0
               ? 0
               : problem->k * (int64_t)mmul_dtype_bytes(mmul_problem_split_dtype(problem, axis));
}

// The share of weight away from root's node, and how many nodes that is.
static double remote_share(const struct planning *p, int *remote_nodes) {
    double all = 0, remote = 0;
    bool *seen = p->clipped; // not used yet: borrowed as marks
    *remote_nodes = 0;
    for (int rank = 0; rank < p->plan->size; rank++) {
        int node = p->rank_node[rank];
        all += p->weights[rank];
        if (node == p->rank_node[0] || !(p->weights[rank] > 0))
            continue;
        remote += p->weights[rank];
        *remote_nodes += !seen[node];
        seen[node] = true;
    }
    return all > 0 ? remote / all : 0;
}

static int64_t axis_bytes(const struct planning *p, enum mmul_axis axis, double share, int nodes) {
    const struct mmul_problem *problem = &p->plan->problem;
    double pieces =
        share * (double)mmul_problem_total(problem, axis) * (double)piece_unit_bytes(problem, axis);
    return (int64_t)(pieces + (double)nodes * (double)whole_bytes(problem, axis));
}

// Fewest bytes over the network; but an axis with fewer units than ranks leaves ranks idle, so the
// other one is taken when it has more. Rows where nothing decides.
static void choose_axis(struct planning *p) {
    const struct mmul_problem *problem = &p->plan->problem;
    int nodes;
    double share = remote_share(p, &nodes);
    int64_t rows = mmul_problem_total(problem, MMUL_ROWS);
    int64_t cols = mmul_problem_total(problem, MMUL_COLS);
    p->plan->rows_bytes_moved = axis_bytes(p, MMUL_ROWS, share, nodes);
    p->plan->cols_bytes_moved = axis_bytes(p, MMUL_COLS, share, nodes);
    bool fewer = p->plan->cols_bytes_moved < p->plan->rows_bytes_moved;
    bool too_few = rows < p->plan->size && cols > rows;
    bool cols_too_few = cols < p->plan->size && rows > cols;
    p->plan->axis_chosen = p->request->split == MMUL_SPLIT_AUTO;
    if (p->plan->axis_chosen)
        p->plan->axis = (fewer && !cols_too_few) || too_few ? MMUL_COLS : MMUL_ROWS;
    else
        p->plan->axis = p->request->split == MMUL_SPLIT_COLS ? MMUL_COLS : MMUL_ROWS;
    p->plan->total = mmul_problem_total(problem, p->plan->axis);
}

// --------------------------------------------------------------------------------------- shares

// Host bytes of one unit in the shared segment: its part of the operand, of C and of C_in.
static int64_t unit_bytes(const struct mmul_plan *plan) {
    int64_t result = 4 * mmul_problem_result_width(&plan->problem, plan->axis);
    return piece_unit_bytes(&plan->problem, plan->axis) +
           (plan->problem.beta != 0 ? 2 : 1) * result;
}

// Ranks of the same node on the same device share its memory.
static int ranks_on_device(const struct planning *p, int rank) {
    const struct mmul_rank_info *ranks = p->request->cluster->ranks;
    int count = 0;
    for (int i = 0; ranks[rank].device_index >= 0 && i < p->plan->size; i++)
        count +=
            ranks[i].node == ranks[rank].node && ranks[i].device_index == ranks[rank].device_index;
    return count > 0 ? count : 1;
}

// What a rank may use of its device.
static int64_t device_memory(const struct planning *p, int rank) {
    double memory =
        DEVICE_MEMORY_SHARE * (double)p->request->cluster->ranks[rank].device.memory_bytes;
    int64_t limit = p->request->device_memory_limit_bytes;
    if (limit > 0 && (double)limit < memory)
        memory = (double)limit;
    return (int64_t)memory / ranks_on_device(p, rank);
}

// The memory of such a device is host memory: operands and temporaries of the whole product, or
// what the device may use if that is less.
static int64_t on_cpu_through_opencl(const struct planning *p, int rank) {
    const struct mmul_problem *q = &p->plan->problem;
    double m = (double)q->m, n = (double)q->n, k = (double)q->k;
    double whole = 8 * (m * k + k * n + m * n);
    double most = (double)device_memory(p, rank);
    return (int64_t)(whole < most ? whole : most);
}

// Work space of one rank beside the segment: checks, widened 16-bit operands, root's round.
static int64_t private_bytes(const struct planning *p, int rank) {
    const struct mmul_problem *problem = &p->plan->problem;
    int64_t bytes = mmul_check_bytes(problem->n, problem->k) + problem->m;
    bool half = mmul_dtype_bytes(problem->a_dtype) < 4 || mmul_dtype_bytes(problem->b_dtype) < 4;
    if (half && p->request->cluster->ranks[rank].host_memory)
        bytes += MMUL_HOST_STAGING_BYTES;
    if (p->request->cluster->ranks[rank].device.type == MMUL_DEVICE_CPU &&
        !p->request->cluster->ranks[rank].host_memory)
        bytes += on_cpu_through_opencl(p, rank);
    return rank == 0 ? bytes + p->plan->round_bytes : bytes;
}

// Small jobs need no large buffer.
static void size_round(struct planning *p) {
    const struct mmul_problem *problem = &p->plan->problem;
    double whole = (double)whole_bytes(problem, p->plan->axis);
    double shared = (double)p->plan->total * (double)unit_bytes(p->plan);
    double most = whole > shared ? whole : shared;
    if (p->plan->node_count > 1)
        p->plan->round_bytes =
            most < MMUL_ROUND_BYTES ? (int64_t)most + ROUND_LEAST : MMUL_ROUND_BYTES;
}

static void measure_capacity(struct planning *p) {
    int64_t whole = whole_bytes(&p->plan->problem, p->plan->axis);
    for (int rank = 0; rank < p->plan->size; rank++)
        p->nodes[p->rank_node[rank]].private_bytes += private_bytes(p, rank);
    for (int node = 0; node < p->plan->node_count; node++) {
        int64_t room = p->nodes[node].memory_bytes - whole - p->nodes[node].private_bytes;
        p->capacity[node] = room > 0 ? room / unit_bytes(p->plan) : 0;
    }
}

// The numbers behind "does not fit".
static enum mmul_status fail_memory(const struct planning *p, struct mmul_error *err) {
    char whole[32], part[32], work[32], have[32];
    int64_t memory = 0, private = 0;
    for (int node = 0; node < p->plan->node_count; node++) {
        memory += p->nodes[node].memory_bytes;
        private += p->nodes[node].private_bytes;
    }
    mmul_bytes_format(whole_bytes(&p->plan->problem, p->plan->axis), whole);
    mmul_bytes_format((int64_t)((double)p->plan->total * (double)unit_bytes(p->plan)), part);
    mmul_bytes_format(private, work);
    mmul_bytes_format(memory, have);
    mmul_fail(err, MMUL_ERR_SYSTEM,
              "cannot fit '%s' x '%s' into memory: %s on every node, %s shared among nodes and %s "
              "of work space needed, %s available on %d node%s",
              p->plan->problem.a_name, p->plan->problem.b_name, whole, part, work, have,
              p->plan->node_count, p->plan->node_count == 1 ? "" : "s");
    mmul_hint(err, "add machines, or raise --memory if that is the limit");
    return MMUL_ERR_SYSTEM;
}

static const char *why_text(const struct planning *p, int rank) {
    int node = p->rank_node[rank];
    if (!(p->weights[rank] > 0))
        return "weight 0";
    if (p->capacity[node] == 0)
        return "node has no memory for the whole operand";
    if (p->clipped[node])
        return "clipped to the node's memory";
    return p->counts[rank] == 0 ? "share rounds to nothing" : "";
}

static enum mmul_status share_range(struct planning *p, struct mmul_error *err) {
    size_round(p);
    measure_capacity(p);
    if (p->nodes[p->rank_node[0]].memory_bytes < private_bytes(p, 0)) // root passes all bytes on
        return fail_memory(p, err);
    const struct mmul_share_request request = {.total = p->plan->total,
                                               .size = p->plan->size,
                                               .node_count = p->plan->node_count,
                                               .weights = p->weights,
                                               .rank_node = p->rank_node,
                                               .node_capacity = p->capacity,
                                               .rule = p->plan->rule};
    enum mmul_status status = mmul_share_units(&request, p->counts, p->clipped, err);
    if (status == MMUL_ERR_SYSTEM)
        return fail_memory(p, err);
    if (status != MMUL_OK)
        return status;
    int64_t begin = 0;
    for (int rank = 0; rank < p->plan->size; rank++) {
        p->ranks[rank].begin = begin;
        p->ranks[rank].end = begin += p->counts[rank];
        mmul_text_copy(p->ranks[rank].why, sizeof p->ranks[rank].why, why_text(p, rank));
    }
    return MMUL_OK;
}

// ---------------------------------------------------------------------------- tiles and memory

// The largest product of a part: all units of one matrix, or the part if that is less.
static struct mmul_tile_request tile_request(const struct planning *p, int rank) {
    const struct mmul_problem *problem = &p->plan->problem;
    const struct mmul_rank_info *info = &p->request->cluster->ranks[rank];
    int64_t units = mmul_problem_units(problem, p->plan->axis);
    int64_t most = p->counts[rank] < units ? p->counts[rank] : units;
    bool rows = p->plan->axis == MMUL_ROWS;
    return (struct mmul_tile_request){
        .m = rows ? most : problem->m,
        .n = rows ? problem->n : most,
        .k = problem->k,
        .a_bytes_each = mmul_dtype_bytes(problem->a_dtype),
        .b_bytes_each = mmul_dtype_bytes(problem->b_dtype),
        .host_memory = info->host_memory,
        .memory_bytes = device_memory(p, rank),
        .max_allocation_bytes = info->device.max_allocation_bytes,
    };
}

static enum mmul_status size_ranks(struct planning *p, struct mmul_error *err) {
    for (int rank = 0; rank < p->plan->size; rank++) {
        struct mmul_plan_rank *r = &p->ranks[rank];
        r->host_bytes = p->counts[rank] * unit_bytes(p->plan) + private_bytes(p, rank);
        if (p->counts[rank] == 0)
            continue;
        struct mmul_tile_request request = tile_request(p, rank);
        enum mmul_status status = mmul_tile_choose(&request, &r->tile, err);
        if (status != MMUL_OK)
            return status;
    }
    return MMUL_OK;
}

// One round of one panel: everything in core.
static void choose_panels(struct mmul_plan *plan) {
    plan->rounds = 1;
    plan->panel_units = mmul_problem_result_width(&plan->problem, plan->axis);
    plan->panel_matrices =
        mmul_shape_matrices(mmul_problem_whole_shape(&plan->problem, plan->axis));
    plan->tail_begin = plan->total;
}

// Lanes and slots of what the node does not map.
static void size_segment(const struct planning *p, struct mmul_plan_node *node) {
    bool rows = p->plan->axis == MMUL_ROWS;
    unsigned split = rows ? MMUL_MAPS_A : MMUL_MAPS_B, whole = rows ? MMUL_MAPS_B : MMUL_MAPS_A;
    node->whole_stays = true;
    if (node->result_bytes == 0)
        return;
    node->piece_lanes = 1;
    node->piece_lane_bytes = node->maps & split ? 0 : node->piece_bytes;
    node->c_in_lane_bytes = node->maps & MMUL_MAPS_C_IN ? 0 : node->c_in_bytes;
    node->whole_slots = node->maps & whole || node->whole_bytes == 0 ? 0 : 1;
    node->whole_slot_bytes = node->whole_slots > 0 ? node->whole_bytes : 0;
    node->result_slots = node->maps & MMUL_MAPS_C ? 0 : 1;
    node->result_slot_bytes = node->result_slots > 0 ? node->result_bytes : 0;
    node->segment_bytes = node->piece_lanes * (node->piece_lane_bytes + node->c_in_lane_bytes) +
                          node->whole_slots * node->whole_slot_bytes +
                          node->result_slots * node->result_slot_bytes;
}

static void size_nodes(struct planning *p) {
    const struct mmul_problem *problem = &p->plan->problem;
    int64_t piece = piece_unit_bytes(problem, p->plan->axis);
    int64_t result = 4 * mmul_problem_result_width(problem, p->plan->axis);
    for (int rank = 0; rank < p->plan->size; rank++) {
        struct mmul_plan_node *node = &p->nodes[p->rank_node[rank]];
        node->piece_bytes += p->counts[rank] * piece;
        node->result_bytes += p->counts[rank] * result;
        node->c_in_bytes += problem->beta != 0 ? p->counts[rank] * result : 0;
    }
    for (int i = 0; i < p->plan->node_count; i++) {
        struct mmul_plan_node *node = &p->nodes[i];
        node->maps = p->request->node_maps ? p->request->node_maps[i] : 0;
        node->whole_bytes = node->result_bytes > 0 ? whole_bytes(problem, p->plan->axis) : 0;
        node->network_bytes = i == p->rank_node[0] ? 0
                                                   : node->whole_bytes + node->piece_bytes +
                                                         node->c_in_bytes + node->result_bytes;
        size_segment(p, node);
    }
}

// ----------------------------------------------------------------------------------- prediction

static void name_limit(struct mmul_plan *plan, int slowest, const char *device, double network) {
    if (plan->compute_seconds >= plan->transfer_seconds)
        snprintf(plan->limits, sizeof plan->limits, "compute on rank %d (%.40s)", slowest, device);
    else if (network > plan->transfer_seconds / 2)
        snprintf(plan->limits, sizeof plan->limits, "network, %.3g Gbit/s assumed",
                 plan->link_bytes_per_second * 8e-9);
    else
        snprintf(plan->limits, sizeof plan->limits, "reading and writing files");
}

// Nothing overlaps yet: seconds add up.
static void predict(struct planning *p) {
    struct mmul_plan *plan = p->plan;
    const struct mmul_problem *problem = &plan->problem;
    double flops_unit =
        2.0 * (double)problem->k * (double)mmul_problem_result_width(problem, plan->axis);
    double network = 0, files;
    int slowest = 0;
    for (int rank = 0; rank < plan->size; rank++) {
        double speed = p->request->cluster->ranks[rank].speed_flops;
        struct mmul_plan_rank *r = &p->ranks[rank];
        r->compute_seconds = speed > 0 ? flops_unit * (double)p->counts[rank] / speed : 0;
        if (r->compute_seconds > plan->compute_seconds) {
            plan->compute_seconds = r->compute_seconds;
            slowest = rank;
        }
    }
    plan->link_bytes_per_second = LINK_BYTES_PER_SECOND;
    for (int node = 0; node < plan->node_count; node++)
        network += (double)p->nodes[node].network_bytes / LINK_BYTES_PER_SECOND;
    files = ((double)operand_bytes(problem, problem->a, problem->a_dtype) +
             (double)operand_bytes(problem, problem->b, problem->b_dtype) +
             4.0 * (double)problem->matrices * (double)problem->m * (double)problem->n) /
            FILE_BYTES_PER_SECOND;
    plan->transfer_seconds = network + files;
    name_limit(plan, slowest, p->ranks[slowest].device, network);
}

enum mmul_status mmul_plan_make(const struct mmul_plan_request *request, struct mmul_plan **plan,
                                struct mmul_error *err) {
    struct planning p = {.request = request};
    enum mmul_status status = planning_init(&p, err);
    if (status == MMUL_OK) {
        copy_cluster(&p);
        choose_axis(&p);
        status = share_range(&p, err);
    }
    if (status == MMUL_OK)
        status = size_ranks(&p, err);
    if (status == MMUL_OK) {
        choose_panels(p.plan);
        size_nodes(&p);
        predict(&p);
        *plan = p.plan;
    } else {
        mmul_plan_destroy(p.plan);
    }
    planning_fini(&p);
    return status;
}
