// SPDX-License-Identifier: MIT
// Makes the schedule: ranks and nodes, the axis, then cut and shares (schedule_choose.c), memory
// (schedule_memory.c), tiles, and the prediction (schedule_predict.c). Each step fills in its part
// of one block and reads only parts of earlier steps. Printing is in plan_text.c.
#include "plan/product/schedule_make.h"

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "model/weights.h"
#include "plan/product/schedule_planning.h"

// Share of the available memory that is used; the rest is for the system and for bytes not counted
// here.
static const double MEMORY_SHARE = 0.95;

static const double ASSUMED_FLOPS = 1e11; // mean over the ranks

// -------------------------------------------------------------------------------------- work space

static void candidate_fini(struct mmul_candidate *c) {
    MMUL_FREE_ALL(c->counts, c->capacity, c->work_bytes, c->clipped);
}

static enum mmul_status candidate_init(struct mmul_candidate *c, int size, int nodes,
                                       struct mmul_error *err) {
    return MMUL_ALLOCATE_ALL("the schedule", err, MMUL_ARRAY(c->counts, size),
                             MMUL_ARRAY(c->capacity, nodes), MMUL_ARRAY(c->work_bytes, nodes),
                             MMUL_ARRAY(c->clipped, nodes));
}

static void planning_fini(struct mmul_planning *p) {
    mmul_cost_destroy(p->cost);
    candidate_fini(&p->trial);
    candidate_fini(&p->best);
    candidate_fini(&p->previous);
    mmul_replay_destroy(p->replay);
    MMUL_FREE_ALL(p->weights, p->assumed, p->everybody, p->rank_node, p->needs, p->maps, p->members,
                  p->absence, p->units, p->slopes, p->before);
}

static enum mmul_status planning_init(struct mmul_planning *p, struct mmul_error *err) {
    int size = p->request->cluster->size, nodes = p->request->cluster->node_count;
    if (mmul_schedule_create(size, nodes, &p->schedule, err) != MMUL_OK ||
        MMUL_ALLOCATE_ALL("the schedule", err, MMUL_ARRAY(p->weights, size),
                          MMUL_ARRAY(p->assumed, size), MMUL_ARRAY(p->everybody, size),
                          MMUL_ARRAY(p->rank_node, size), MMUL_ARRAY(p->needs, nodes),
                          MMUL_ARRAY(p->maps, nodes), MMUL_ARRAY(p->members, size),
                          MMUL_ARRAY(p->absence, size), MMUL_ARRAY(p->units, size),
                          MMUL_ARRAY(p->slopes, size), MMUL_ARRAY(p->before, size)) != MMUL_OK ||
        candidate_init(&p->trial, size, nodes, err) != MMUL_OK ||
        candidate_init(&p->best, size, nodes, err) != MMUL_OK ||
        candidate_init(&p->previous, size, nodes, err) != MMUL_OK)
        return err->status;
    p->schedule->problem = *p->request->problem;
    p->schedule->rule = p->request->rule;
    p->schedule->whole_is_distributed = p->request->whole_offsets != NULL;
    p->ranks = (struct mmul_schedule_rank *)(p->schedule + 1);
    p->nodes = (struct mmul_schedule_node *)(p->ranks + size);
    p->root_node = p->request->cluster->ranks[0].node;
    return MMUL_OK;
}

// --------------------------------------------------------------------------------- ranks and nodes

// Returns the memory that a node may use: from its available memory, or from the rest of a limit.
// `most` caps it if not 0; then no limit applies.
static int64_t node_memory(const struct mmul_planning *p, int node, int64_t most) {
    const struct mmul_schedule_request *r = p->request;
    const struct mmul_node_info *info = &r->cluster->nodes[node];
    const int64_t available = info->memory_available_bytes - info->input_bytes,
                  taken = r->taken_bytes != NULL ? r->taken_bytes[node] : 0,
                  memory = (int64_t)(MEMORY_SHARE * (double)mmul_max(available - taken, 0)),
                  left = mmul_node_memory_left(r->cluster, node, r->memory_limit_bytes) - taken;
    if (most > 0)
        return mmul_min(memory, most);
    return r->memory_limit_bytes > 0 ? mmul_min(memory, mmul_max(left, 0)) : memory;
}

// most: cap of every node; NULL: none.
static void set_nodes(struct mmul_planning *p, const int64_t *most) {
    const struct mmul_cluster *cluster = p->request->cluster;
    for (int node = 0; node < cluster->node_count; node++) {
        const struct mmul_node_info *info = &cluster->nodes[node];
        p->nodes[node].memory_bytes = node_memory(p, node, most != NULL ? most[node] : 0);
        p->maps[node] = p->request->node_maps ? p->request->node_maps[node] : 0;
        mmul_text_copy(p->nodes[node].host, sizeof p->nodes[node].host, info->host);
    }
}

// Sets the weights: as given, or the speeds, so that all ranks finish together; equal if no speed
// is known. In the last case cuts are chosen by assumed speeds.
static enum mmul_status set_ranks(struct mmul_planning *p, struct mmul_error *err) {
    const struct mmul_cluster *cluster = p->request->cluster;
    const enum mmul_dtype dtype = mmul_problem_result_dtype(p->request->problem);
    int measured = 0, missing = 0;
    double sum = 0;
    for (int rank = 0; rank < cluster->size; rank++)
        measured += mmul_product_is_measured(&cluster->ranks[rank], dtype);
    p->automatic = p->request->weights == NULL && measured > 0;
    for (int rank = 0; rank < cluster->size; rank++) {
        const struct mmul_rank_info *info = &cluster->ranks[rank];
        double speed = mmul_product_rate(info, dtype, 0, 1e9, 1e9, 1e9);
        p->rank_node[rank] = p->ranks[rank].node = info->node;
        p->weights[rank] = p->automatic ? speed : 1;
        if (p->request->weights != NULL)
            p->weights[rank] = p->request->weights[rank];
        p->ranks[rank].weight = p->weights[rank];
        if (p->request->whole_offsets != NULL) {
            p->ranks[rank].whole_begin = p->request->whole_offsets[rank];
            p->ranks[rank].whole_end = p->request->whole_offsets[rank + 1];
        }
        p->everybody[rank] = p->weights[rank] > 0;
        sum += p->everybody[rank] ? p->weights[rank] : 0;
        missing += p->everybody[rank] && !mmul_product_is_measured(info, dtype);
        mmul_text_copy(p->ranks[rank].device, sizeof p->ranks[rank].device,
                       info->device.id[0] ? info->device.id : info->device_name);
    }
    for (int rank = 0; rank < cluster->size; rank++)
        p->assumed[rank] = p->automatic || !p->everybody[rank]
                               ? 0
                               : ASSUMED_FLOPS * cluster->size * (p->weights[rank] / sum);
    p->speeds_known = missing == 0;
    return mmul_weights_check(p->weights, cluster->size, MMUL_ERR_USAGE, err);
}

// ---------------------------------------------------------------------------------------- the axis

// Returns the bytes over the network: pieces by weight, and the whole operand once per node with
// any weight.
static int64_t axis_bytes(struct mmul_planning *p, enum mmul_axis axis) {
    const struct mmul_cluster *cluster = p->request->cluster;
    const struct mmul_problem *problem = &p->schedule->problem;
    double all = 0, pieces = 0, wholes = 0;
    for (int node = 0; node < p->schedule->node_count; node++) {
        double weight = 0; // sum over its ranks
        for (int i = cluster->nodes[node].leader; i >= 0; i = mmul_cluster_next_rank(cluster, i))
            weight += p->weights[i];
        all += weight;
        if (node == p->root_node || !(weight > 0))
            continue;
        pieces += p->maps[node] & mmul_maps_split_operand(axis) ? 0 : weight;
        wholes += !(p->maps[node] & mmul_maps_whole_operand(axis));
    }
    return (int64_t)(pieces / all * (double)mmul_problem_total(problem, axis) *
                         (double)mmul_problem_split_unit_bytes(problem, axis) +
                     wholes * (double)mmul_problem_whole_bytes(problem, axis));
}

// Chooses the axis with the fewest network bytes. An axis with fewer units than ranks leaves ranks
// idle, so the other one is taken if it has more units. Ties go to rows. Sets the bytes per unit.
static void choose_axis(struct mmul_planning *p) {
    const struct mmul_problem *problem = &p->schedule->problem;
    int64_t rows = mmul_problem_total(problem, MMUL_ROWS);
    int64_t cols = mmul_problem_total(problem, MMUL_COLS);
    p->schedule->rows_bytes_moved = axis_bytes(p, MMUL_ROWS);
    p->schedule->cols_bytes_moved = axis_bytes(p, MMUL_COLS);
    bool fewer = p->schedule->cols_bytes_moved < p->schedule->rows_bytes_moved;
    bool too_few = rows < p->schedule->size && cols > rows;
    bool cols_too_few = cols < p->schedule->size && rows > cols;
    p->schedule->axis_chosen = p->request->split == MMUL_SPLIT_AUTO;
    if (p->schedule->axis_chosen)
        p->schedule->axis = (fewer && !cols_too_few) || too_few ? MMUL_COLS : MMUL_ROWS;
    else
        p->schedule->axis = p->request->split == MMUL_SPLIT_COLS ? MMUL_COLS : MMUL_ROWS;
    const enum mmul_axis axis = p->schedule->axis;
    p->schedule->total = mmul_problem_total(problem, axis);
    p->piece_bytes = mmul_problem_split_unit_bytes(problem, axis);
    p->result_bytes = mmul_problem_result_unit_bytes(problem, axis);
    p->c_in_bytes = problem->beta != 0 ? p->result_bytes : 0;
    p->whole_bytes = mmul_problem_whole_bytes(problem, axis);
}

// ------------------------------------------------------------------------------------------- ranks

static const char *absence_text(const struct mmul_planning *p, int rank) {
    static const char *const absent[] = {
        [MMUL_EXCLUDED_SPEED_UNKNOWN] = "speed not measured",
        [MMUL_EXCLUDED_SLOW_LINK] = "its link is too slow: data would arrive too late",
        [MMUL_EXCLUDED_SLOW_TRANSFERS] = "slows the job: slow transfers to its device",
        [MMUL_EXCLUDED_SLOW_DEVICE] = "slows the job: device slower than one CPU core",
    };
    int node = p->rank_node[rank];
    if (p->automatic && p->absence[rank] == MMUL_EXCLUDED_SLOW_LINK &&
        p->best.seconds < 0.95 * p->all_seconds)
        return "slows the job: slow link";
    if (p->automatic && p->absence[rank] != MMUL_NOT_EXCLUDED)
        return absent[p->absence[rank]];
    if (!(p->weights[rank] > 0))
        return "weight 0";
    if (p->best.capacity[node] == 0)
        return "the node's memory cannot hold the whole operand";
    if (p->best.clipped[node])
        return "limited by the node's memory";
    return p->best.counts[rank] == 0 ? "its share rounds to zero" : "";
}

// Returns the largest product of a pass: of one matrix, one panel and one round.
static struct mmul_tile_request tile_request(const struct mmul_planning *p, int rank) {
    const struct mmul_problem *problem = &p->schedule->problem;
    const struct mmul_rank_info *info = &p->request->cluster->ranks[rank];
    int64_t round = mmul_divide_up(p->best.counts[rank], p->best.cut.rounds);
    int64_t most = mmul_min(round, mmul_problem_units(problem, p->schedule->axis));
    bool rows = p->schedule->axis == MMUL_ROWS;
    return (struct mmul_tile_request){
        .m = rows ? most : p->best.cut.panel_units,
        .n = rows ? p->best.cut.panel_units : most,
        .k = problem->k,
        .a_bytes_each = mmul_dtype_bytes(problem->a_dtype),
        .b_bytes_each = mmul_dtype_bytes(problem->b_dtype),
        .host_memory = info->host_memory,
        .memory_bytes = mmul_rank_device_bytes(p->request->cluster, rank,
                                               p->request->device_memory_limit_bytes),
        .max_allocation_bytes = info->device.max_allocation_bytes,
    };
}

// Returns the bytes of a rank's part in memory: all of it, or two rounds of it.
static int64_t part_bytes(const struct mmul_planning *p, int rank) {
    int64_t rounds = p->best.cut.rounds, units = p->best.counts[rank];
    int64_t held = rounds > 1 ? mmul_min(units, 2 * mmul_divide_up(units, rounds)) : units;
    return held * (p->piece_bytes + p->c_in_bytes + p->result_bytes);
}

static enum mmul_status size_ranks(struct mmul_planning *p, struct mmul_error *err) {
    for (int rank = 0; rank < p->schedule->size; rank++) {
        struct mmul_schedule_rank *r = &p->ranks[rank];
        r->host_bytes = part_bytes(p, rank) + mmul_planning_private_bytes(p, &p->best.cut, rank);
        mmul_text_copy(r->why, sizeof r->why, absence_text(p, rank));
        if (p->best.counts[rank] == 0)
            continue;
        struct mmul_tile_request request = tile_request(p, rank);
        enum mmul_status status = mmul_tile_choose(&request, &r->tile, err);
        if (status != MMUL_OK)
            return status;
    }
    return MMUL_OK;
}

// Does everything that comes before the choice of a cut.
static enum mmul_status begin_planning(struct mmul_planning *p, struct mmul_error *err) {
    enum mmul_status status = planning_init(p, err);
    if (status == MMUL_OK)
        status = set_ranks(p, err);
    if (status != MMUL_OK)
        return status;
    set_nodes(p, p->request->most_bytes);
    choose_axis(p);
    mmul_planning_size_chunk(p);
    const struct mmul_cost_request request = {.problem = &p->schedule->problem,
                                              .axis = p->schedule->axis,
                                              .cluster = p->request->cluster,
                                              .node_maps = p->maps,
                                              .value_maps = p->request->value_maps,
                                              .assumed = p->assumed};
    return mmul_cost_create(&request, &p->cost, err);
}

// Returns MMUL_OK if a cut exists with `bytes` of memory on every node.
static enum mmul_status try_memory(struct mmul_planning *p, int64_t bytes, struct mmul_error *err) {
    set_nodes(p, NULL);
    for (int node = 0; node < p->schedule->node_count; node++)
        p->nodes[node].memory_bytes = node_memory(p, node, bytes);
    return mmul_planning_choose(p, true, err);
}

enum mmul_status mmul_schedule_least_memory(const struct mmul_schedule_request *request,
                                            int64_t *bytes, struct mmul_error *err) {
    const int64_t near = 128; // the result exceeds the minimum by at most 1 / near
    struct mmul_planning p = {.request = request};
    struct mmul_error refused;
    int64_t low = 0, high = 1 << 20;
    enum mmul_status status = begin_planning(&p, err);
    if (status == MMUL_OK)
        status = try_memory(&p, INT64_MAX, err);
    for (; status == MMUL_OK && try_memory(&p, high, &refused) != MMUL_OK; high *= 2)
        low = high;
    while (status == MMUL_OK && high - low > high / near) {
        const int64_t middle = low + (high - low) / 2;
        *(try_memory(&p, middle, &refused) == MMUL_OK ? &high : &low) = middle;
    }
    *bytes = high;
    mmul_schedule_free(p.schedule);
    planning_fini(&p);
    return status;
}

enum mmul_status mmul_schedule_make(const struct mmul_schedule_request *request,
                                    struct mmul_schedule **schedule, struct mmul_error *err) {
    struct mmul_planning p = {.request = request};
    enum mmul_status status = begin_planning(&p, err);
    if (status == MMUL_OK)
        status = mmul_planning_choose(&p, false, err);
    if (status == MMUL_OK)
        status = size_ranks(&p, err);
    if (status == MMUL_OK)
        status = mmul_planning_predict(&p, err);
    if (status == MMUL_OK)
        *schedule = p.schedule;
    else
        mmul_schedule_free(p.schedule);
    planning_fini(&p);
    return status;
}
