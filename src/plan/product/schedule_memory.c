// SPDX-License-Identifier: MIT
// Computes the memory of a node: its need for a cut, its capacity in units, then lanes and slots
// for the shares. As memory shrinks, first everything stays, then fewer blocks of C are held, then
// panels share slots. If not even that fits, the cut itself has rounds (schedule_choose.c).
#include "plan/product/schedule_planning.h"

#include <string.h>

#include "base/integer.h"
#include "base/status.h"
#include "model/check.h"
#include "plan/lists/schedule.h"

// Extra room for small jobs: rounds deal out whole 64-byte pieces to each node. Under a limit the
// buffers take at most a ROUND_PART-th of it, if that is enough to work with.
enum { ROUND_LEAST = 1 << 20, ROUND_PART = 16 };

static int64_t split_unit_bytes(const struct mmul_planning *p) {
    return p->piece_bytes + p->c_in_bytes + p->result_bytes;
}

// ---------------------------------------------------------------------------------- private memory

void mmul_planning_size_chunk(struct mmul_planning *p) {
    double whole = (double)p->whole_bytes,
           shared = (double)p->schedule->total * (double)split_unit_bytes(p),
           most = whole > shared ? whole : shared;
    int64_t limit = p->request->memory_limit_bytes, others = p->schedule->node_count - 1;
    int64_t bytes = mmul_min(MMUL_CHUNK_BYTES, others * MMUL_PACKET_BYTES);
    if (others == 0)
        return;
    if (limit > 0)
        bytes = mmul_min(bytes, mmul_max(MMUL_PACKET_BYTES, limit / ROUND_PART));
    p->schedule->chunk_bytes = most < (double)bytes ? (int64_t)most + ROUND_LEAST : bytes;
}

// Returns the bytes of host memory that a CPU through OpenCL uses: operands and temporaries of the
// whole product, or the bytes that the device may use if that is less.
static int64_t opencl_cpu_bytes(const struct mmul_planning *p, int rank) {
    const struct mmul_problem *q = &p->schedule->problem;
    double m = (double)q->m, n = (double)q->n, k = (double)q->k;
    double whole = 2 * (double)mmul_problem_result_each(q) * (m * k + k * n + m * n);
    double most = (double)mmul_rank_device_bytes(p->request->cluster, rank,
                                                 p->request->device_memory_limit_bytes);
    return (int64_t)(whole < most ? whole : most);
}

// Returns the bytes that pass through root: two rounds each way, and packets that enter the chain.
static int64_t root_bytes(const struct mmul_planning *p) {
    int64_t round = p->schedule->chunk_bytes;
    return 2 * MMUL_ROUNDS_IN_FLIGHT * round +
           MMUL_PACKETS_IN_FLIGHT * mmul_min(round, MMUL_PACKET_BYTES);
}

// Returns the seconds per element of packing the whole operand, or the split one, in a product of
// the rank; assumed until measured.
static double packing_seconds(const struct mmul_planning *p, int rank, bool of_whole) {
    const struct mmul_speed *speed = &p->request->cluster->ranks[rank].speed;
    bool of_b = of_whole == (p->schedule->axis == MMUL_ROWS);
    double a = speed->pack_a_seconds, b = speed->pack_b_seconds;
    return of_b ? (b > 0 ? b : MMUL_PACK_B_SECONDS) : (a > 0 ? a : MMUL_PACK_A_SECONDS);
}

// Returns true if blocks are cut along their lines (plan/lists/tasks.h). Every product packs both
// operands. Each part packs the shared operand again, so the operand that is cheaper to pack is
// shared.
static bool cuts_along_lines(const struct mmul_planning *p, int node) {
    double width = (double)mmul_problem_result_width(&p->schedule->problem, p->schedule->axis);
    double lines = (double)p->schedule->total / p->schedule->size;
    int leader = p->request->cluster->nodes[node].leader;
    return packing_seconds(p, leader, true) * width <= packing_seconds(p, leader, false) * lines;
}

// Returns the least lines of a stealable task. A task of its own is worthwhile if it takes `worth`
// times as long as packing the shared operand.
static int64_t least_stealable_lines(const struct mmul_planning *p, int rank) {
    const double worth = 16;
    double flops = mmul_product_rate(&p->request->cluster->ranks[rank],
                                     mmul_problem_result_dtype(&p->schedule->problem),
                                     p->assumed[rank], 1e9, 1e9, 1e9);
    bool by_lines = p->nodes[p->rank_node[rank]].checks_whole;
    if (p->request->tail != MMUL_TAIL_AUTO)
        return 1;
    return (int64_t)(worth * packing_seconds(p, rank, by_lines) * flops / 2);
}

// Returns true if checks project the whole operand. No other function decides this.
static bool check_projects_whole(const struct mmul_planning *p, const struct mmul_cut *cut,
                                 int node) {
    const struct mmul_problem *problem = &p->schedule->problem;
    enum mmul_axis axis = p->schedule->axis;
    int64_t once = mmul_panels_units_at_once(problem, axis, cut->panel_units, p->maps[node]);
    bool by_lines = p->schedule->claim_share > 0 &&
                    (p->schedule->may_steal || (p->request->cluster->nodes[node].rank_count > 1 &&
                                                cuts_along_lines(p, node)));
    return mmul_check_projects_whole(problem, axis, once, cut->rounds, by_lines);
}

// Returns the bytes of the check that grow with a rank's units: vectors, if it projects them, and a
// flag.
static int64_t check_unit_bytes(const struct mmul_planning *p, const struct mmul_cut *cut,
                                int node) {
    const int64_t many = 4096, k = p->schedule->problem.k;
    if (check_projects_whole(p, cut, node))
        return 1;
    return (mmul_check_bytes(2 * many, k) - mmul_check_bytes(many, k)) / many + 1;
}

// Returns the bytes of the check that do not grow with the units: for a few lines, or for all that
// the rank can have.
static int64_t check_bytes(const struct mmul_planning *p, const struct mmul_cut *cut, int rank) {
    const int64_t few = 64; // compensates for rounding up
    const struct mmul_problem *problem = &p->schedule->problem;
    const enum mmul_axis axis = p->schedule->axis;
    const int node = p->rank_node[rank];
    const int64_t *offsets = p->request->offsets;
    const int64_t units = offsets != NULL ? offsets[rank + 1] - offsets[rank] : p->schedule->total,
                  lines = mmul_max(1, mmul_divide_up(units, cut->rounds));
    const int64_t piece =
        check_projects_whole(p, cut, node)
            ? mmul_panels_units_at_once(problem, axis, cut->panel_units, p->maps[node])
            : mmul_min(few, lines);
    return mmul_check_bytes(piece, problem->k) + mmul_problem_result_width(problem, axis);
}

int64_t mmul_planning_private_bytes(const struct mmul_planning *p, const struct mmul_cut *cut,
                                    int rank) {
    const struct mmul_problem *problem = &p->schedule->problem;
    const struct mmul_rank_info *info = &p->request->cluster->ranks[rank];
    int64_t bytes = check_bytes(p, cut, rank);
    bool half = mmul_dtype_bytes(problem->a_dtype) < 4 || mmul_dtype_bytes(problem->b_dtype) < 4;
    if (half && info->host_memory)
        bytes += MMUL_HOST_STAGING_BYTES;
    if (info->device.type == MMUL_DEVICE_CPU && !info->host_memory)
        bytes += opencl_cpu_bytes(p, rank);
    return rank == 0 ? bytes + root_bytes(p) : bytes;
}

// ---------------------------------------------------------------------------------------- capacity

// Returns the bytes of panels that a node must hold at least.
static int64_t least_panels(const struct mmul_planning *p, const struct mmul_cut *cut, int node) {
    int64_t slots = cut->rounds > 1 && cut->whole_stays ? cut->panels : mmul_min(2, cut->panels);
    return p->maps[node] & mmul_maps_whole_operand(p->schedule->axis)
               ? 0
               : slots * mmul_panels_bytes(&p->schedule->problem, p->schedule->axis, cut);
}

// Returns the bytes per unit of a node's part: pieces in one lane or two, two blocks of C if there
// are several, and the check's vectors.
static double unit_bytes(const struct mmul_planning *p, const struct mmul_cut *cut, int node) {
    double lanes = cut->rounds > 1 ? 2 : 1, bytes = 0;
    int64_t width = mmul_problem_result_width(&p->schedule->problem, p->schedule->axis);
    int64_t block = cut->rounds * cut->panels > 1 ? 2 * cut->panel_units : width;
    bytes += p->maps[node] & mmul_maps_split_operand(p->schedule->axis)
                 ? 0
                 : lanes * (double)p->piece_bytes;
    bytes += p->maps[node] & MMUL_MAPS_C_IN ? 0 : lanes * (double)p->c_in_bytes;
    bytes += p->maps[node] & MMUL_MAPS_C
                 ? 0
                 : (double)mmul_problem_result_each(&p->schedule->problem) * (double)block;
    bytes += (double)check_unit_bytes(p, cut, node);
    return bytes / (double)cut->rounds;
}

static int64_t node_capacity(const struct mmul_planning *p, const struct mmul_candidate *c,
                             int node) {
    double each = unit_bytes(p, &c->cut, node);
    double room = (double)(p->nodes[node].memory_bytes - c->work_bytes[node] -
                           least_panels(p, &c->cut, node));
    // A rank's round may have one unit more than its part divided by the rounds.
    if (c->cut.rounds > 1)
        room -= each * (double)c->cut.rounds * p->request->cluster->nodes[node].rank_count;
    if (room < 0)
        return 0;
    return each * (double)p->schedule->total <= room ? p->schedule->total : (int64_t)(room / each);
}

double mmul_planning_compute_capacity(const struct mmul_planning *p, struct mmul_candidate *c) {
    const struct mmul_cluster *cluster = p->request->cluster;
    double sum = 0;
    for (int node = 0; node < p->schedule->node_count; node++) {
        bool any = false;
        c->work_bytes[node] = c->capacity[node] = 0;
        for (int i = cluster->nodes[node].leader; i >= 0; i = mmul_cluster_next_rank(cluster, i)) {
            c->work_bytes[node] += mmul_planning_private_bytes(p, &c->cut, i);
            any = any || c->in[i];
        }
        if (any)
            c->capacity[node] = node_capacity(p, c, node);
        sum += (double)c->capacity[node];
    }
    return c->work_bytes[p->root_node] <= p->nodes[p->root_node].memory_bytes ? sum : 0;
}

bool mmul_planning_stop_mapping(struct mmul_planning *p) {
    bool any = false;
    int64_t limit = p->request->memory_limit_bytes;
    int64_t each = split_unit_bytes(p);
    for (int node = 0; limit > 0 && node < p->schedule->node_count; node++) {
        const struct mmul_cluster *cluster = p->request->cluster;
        const unsigned files = p->maps[node] & ~p->request->value_maps;
        int rank = files != 0 ? cluster->nodes[node].leader : -1;
        double units = 0;
        for (; rank >= 0; rank = mmul_cluster_next_rank(cluster, rank))
            units += (double)p->best.counts[rank];
        if (units > 0 &&
            units * (double)each + (double)(p->whole_bytes + p->best.work_bytes[node]) >
                (double)p->nodes[node].memory_bytes)
            p->maps[node] &= ~files, any = true;
    }
    return any;
}

enum mmul_status mmul_planning_fail_memory(const struct mmul_planning *p, struct mmul_error *err) {
    const struct mmul_schedule *schedule = p->schedule;
    char whole[32], part[32], work[32], have[32];
    int64_t memory = 0, private = 0;
    for (int node = 0; node < schedule->node_count; node++) {
        memory += p->nodes[node].memory_bytes;
        private += p->trial.work_bytes[node];
    }
    struct mmul_cut finest = mmul_panels_cut(&schedule->problem, schedule->axis, schedule->total);
    mmul_bytes_format(private, work);
    mmul_bytes_format(memory, have);
    mmul_bytes_format((int64_t)((double)schedule->total * (double)split_unit_bytes(p)), part);
    if (p->request->panels) {
        mmul_bytes_format(2 * mmul_panels_bytes(&schedule->problem, schedule->axis, &finest),
                          whole);
        mmul_fail(err, MMUL_ERR_SYSTEM,
                  "cannot fit '%s' x '%s' into memory, not even in pieces: %s of panels on every "
                  "node and %s of work space needed, %s available on %d node%s",
                  schedule->problem.a_name, schedule->problem.b_name, whole, work, have,
                  schedule->node_count, schedule->node_count == 1 ? "" : "s");
    } else {
        mmul_bytes_format(p->whole_bytes, whole);
        mmul_fail(err, MMUL_ERR_SYSTEM,
                  "cannot fit '%s' x '%s' into memory: %s on every node, %s shared among nodes and "
                  "%s of work space needed, %s available on %d node%s",
                  schedule->problem.a_name, schedule->problem.b_name, whole, part, work, have,
                  schedule->node_count, schedule->node_count == 1 ? "" : "s");
    }
    mmul_hint(err, "add machines, or raise --memory if that is the limit");
    return MMUL_ERR_SYSTEM;
}

// --------------------------------------------------------------------------------- lanes and slots

static void sum_round_needs(struct mmul_planning *p) {
    int64_t units = mmul_problem_units(&p->schedule->problem, p->schedule->axis);
    for (int node = 0; node < p->schedule->node_count; node++)
        p->needs[node] = (struct mmul_node_need){0};
    for (int rank = 0; rank < p->schedule->size; rank++) {
        int node = p->rank_node[rank];
        struct mmul_node_need *need = &p->needs[node];
        int64_t round = mmul_divide_up(p->trial.counts[rank], p->trial.cut.rounds);
        need->round_units += round;
        need->block_units += round;
        need->panels = round > 0 ? p->trial.cut.panels : need->panels;
        p->nodes[node].private_bytes +=
            mmul_min(round, units) * check_unit_bytes(p, &p->trial.cut, node);
    }
}

// Returns the units of the node's ranks that use the pass's panel.
static int64_t units_in_pass(const struct mmul_planning *p, int node, struct mmul_pass pass) {
    const struct mmul_cluster *cluster = p->request->cluster;
    int64_t units = 0;
    for (int i = cluster->nodes[node].leader; i >= 0; i = mmul_cluster_next_rank(cluster, i)) {
        const struct mmul_schedule_rank *r = &p->ranks[i];
        struct mmul_matrix_range s;
        struct mmul_stretch_walk walk =
            mmul_schedule_walk(p->schedule, (struct mmul_range){r->begin, r->end}, pass);
        while (mmul_schedule_next(&walk, &s))
            units += s.end - s.begin;
    }
    return units;
}

// With several whole matrices a node needs only the panels of its own, and a block has only the
// units that use the panel.
static void sum_matrix_needs(struct mmul_planning *p) {
    for (int node = 0; node < p->schedule->node_count; node++) {
        struct mmul_node_need *need = &p->needs[node];
        int64_t most = need->panels = 0;
        for (int64_t panel = 0; panel < p->trial.cut.panels; panel++) {
            int64_t units = units_in_pass(p, node, mmul_schedule_pass(p->schedule, panel));
            need->panels += units > 0;
            most = mmul_max(most, units);
        }
        need->block_units = mmul_min(need->block_units, most);
    }
}

// Fills `room` with slots: all of the whole operand, else fewer of the result, else fewer of both.
// A result needs one slot to compute into and a few for blocks in flight; more slots would only be
// more memory to touch for the first time.
static void fill_slots(struct mmul_schedule_node *node, int64_t room) {
    const int64_t enough = 4;
    int64_t whole = node->whole_slots, result = mmul_min(node->result_slots, enough);
    int64_t least = mmul_min(2, result);
    node->result_slots = result;
    node->whole_stays = true;
    if ((double)whole * (double)node->whole_slot_bytes +
            (double)result * (double)node->result_slot_bytes <=
        (double)room)
        return;
    int64_t rest = room - whole * node->whole_slot_bytes;
    if (node->result_slot_bytes > 0 && rest >= least * node->result_slot_bytes) {
        node->result_slots = mmul_min(result, rest / node->result_slot_bytes);
        return;
    }
    node->result_slots = least;
    rest = room - least * node->result_slot_bytes;
    if (node->whole_slot_bytes > 0)
        node->whole_slots =
            mmul_min(whole, mmul_max(mmul_min(2, whole), rest / node->whole_slot_bytes));
    node->whole_stays = node->whole_slots == whole;
}

static void size_segment(struct mmul_planning *p, int index) {
    struct mmul_schedule_node *node = &p->nodes[index];
    const struct mmul_node_need *need = &p->needs[index];
    int64_t panel = mmul_panels_bytes(&p->schedule->problem, p->schedule->axis, &p->trial.cut);
    node->piece_lanes = p->trial.cut.rounds > 1 ? 2 : 1;
    node->piece_lane_bytes = node->maps & mmul_maps_split_operand(p->schedule->axis)
                                 ? 0
                                 : need->round_units * p->piece_bytes;
    node->c_in_lane_bytes = node->maps & MMUL_MAPS_C_IN ? 0 : need->round_units * p->c_in_bytes;
    node->whole_slots =
        node->maps & mmul_maps_whole_operand(p->schedule->axis) || panel == 0 ? 0 : need->panels;
    node->whole_slot_bytes = node->whole_slots > 0 ? panel : 0;
    node->result_slots = node->maps & MMUL_MAPS_C ? 0 : p->trial.cut.rounds * need->panels;
    node->result_slot_bytes = node->result_slots > 0
                                  ? need->block_units * p->trial.cut.panel_units *
                                        mmul_problem_result_each(&p->schedule->problem)
                                  : 0;
    int64_t lanes = node->piece_lanes * (node->piece_lane_bytes + node->c_in_lane_bytes);
    fill_slots(node, node->memory_bytes - node->private_bytes - lanes);
    node->segment_bytes = lanes + node->whole_slots * node->whole_slot_bytes +
                          node->result_slots * node->result_slot_bytes;
}

// Returns the bytes of the panels that a node needs; all matrices if it needs all panels.
static int64_t needed_bytes(const struct mmul_planning *p, int64_t panels) {
    int64_t each = mmul_panels_bytes(&p->schedule->problem, p->schedule->axis, &p->trial.cut);
    return panels == p->trial.cut.panels ? p->whole_bytes : mmul_min(p->whole_bytes, panels * each);
}

static int64_t crossing_bytes(const struct mmul_planning *p,
                              const struct mmul_schedule_node *node) {
    int64_t whole = node->maps & mmul_maps_whole_operand(p->schedule->axis) ? 0 : node->whole_bytes;
    return (node->whole_stays ? whole : whole * p->trial.cut.rounds) +
           (node->maps & mmul_maps_split_operand(p->schedule->axis) ? 0 : node->piece_bytes) +
           (node->maps & MMUL_MAPS_C_IN ? 0 : node->c_in_bytes) +
           (node->maps & MMUL_MAPS_C ? 0 : node->result_bytes);
}

// Resets all fields but the node's name, maps and memory.
static void reset_nodes(struct mmul_planning *p) {
    for (int i = 0; i < p->schedule->node_count; i++) {
        struct mmul_schedule_node fresh = {.maps = p->maps[i],
                                           .whole_stays = true,
                                           .checks_whole =
                                               check_projects_whole(p, &p->trial.cut, i),
                                           .private_bytes = p->trial.work_bytes[i],
                                           .memory_bytes = p->nodes[i].memory_bytes};
        memcpy(fresh.host, p->nodes[i].host, sizeof fresh.host);
        p->nodes[i] = fresh;
    }
}

static void sum_part_bytes(struct mmul_planning *p) {
    for (int rank = 0; rank < p->schedule->size; rank++) {
        struct mmul_schedule_node *node = &p->nodes[p->rank_node[rank]];
        p->ranks[rank].steal_lines_least = least_stealable_lines(p, rank);
        node->claims |= p->schedule->claim_share > 0 && p->trial.counts[rank] > 0 &&
                        (p->schedule->may_steal || node->result_bytes > 0);
        node->participates |=
            p->trial.counts[rank] > 0 || p->ranks[rank].whole_end > p->ranks[rank].whole_begin;
        node->piece_bytes += p->trial.counts[rank] * p->piece_bytes;
        node->result_bytes += p->trial.counts[rank] * p->result_bytes;
        node->c_in_bytes += p->trial.counts[rank] * p->c_in_bytes;
    }
}

bool mmul_planning_size_segments(struct mmul_planning *p) {
    struct mmul_schedule_node *root = &p->nodes[p->root_node];
    reset_nodes(p);
    sum_part_bytes(p);
    sum_round_needs(p);
    if (mmul_problem_whole_matrices(&p->schedule->problem, p->schedule->axis) > 1)
        sum_matrix_needs(p);
    for (int i = 0; i < p->schedule->node_count; i++) {
        struct mmul_schedule_node *node = &p->nodes[i];
        if (node->result_bytes == 0)
            continue;
        node->whole_bytes = needed_bytes(p, p->needs[i].panels);
        size_segment(p, i);
        node->network_bytes = i == p->root_node ? 0 : crossing_bytes(p, node);
    }
    if (root->result_bytes == 0 && p->request->panels &&
        !(root->maps & mmul_maps_whole_operand(p->schedule->axis)))
        root->private_bytes +=
            2 * mmul_panels_bytes(&p->schedule->problem, p->schedule->axis, &p->trial.cut);
    return root->private_bytes + root->segment_bytes <= root->memory_bytes;
}
