// SPDX-License-Identifier: MIT
// Computes the memory of places on their nodes. A place exists from the stage that makes it to the
// last stage that reads it, or waits for a move of it. Then other places reuse its memory. First
// fit, in the order in which places are made. Moves no data.
//
//     offset
//       ^  | Y = X W | Z = Y V | U = Z W | ...     a stage may overlap the next one, so memory is
//       |  [ X ---- ]          [ U ----------      reused two stages after its last reader
//       |  [ Y ------------- ]
//       |            [ Z ------------- ]
#include "plan/program/program_memory.h"

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "plan/program/program_footprint.h"
#include "plan/program/program_planning.h"

enum { FOR_EVER = INT32_MAX / 2 };

// Stages in which a place has memory, and its bytes on the current node.
struct life {
    int begin, end;
    int first_read; // first stage that reads it; FOR_EVER: none
    bool is_read;
    int64_t bytes;
};

// Records operands and results of a step for the stage that carries it out.
static void record_step(const struct mmul_program_plan *plan, const struct mmul_program_step *step,
                        int stage, struct life *lives) {
    const struct mmul_program_place *made = &plan->places[step->result];
    for (int i = 0; i < mmul_program_operand_count(step); i++) {
        const int place = mmul_program_step_operand(plan, step, i);
        if (place < 0)
            continue;
        struct life *base = &lives[mmul_program_base_place(plan, place)];
        lives[place].is_read = true;
        base->end = stage > base->end ? stage : base->end;
        base->first_read = stage < base->first_read ? stage : base->first_read;
    }
    // A move into summands leaves the rest of the memory unchanged. It must be zero, so the memory
    // is exclusive from the start.
    bool is_added_to = step->kind == MMUL_STEP_MOVE && made->placement.kind == MMUL_PLACE_PARTIAL;
    for (int i = 0; i < mmul_program_result_count(step); i++) {
        const int place = mmul_program_step_result(plan, step, i);
        if (place >= 0) {
            lives[place].begin = is_added_to ? 0 : stage;
            lives[place].end = stage;
        }
    }
}

// Assigns stages. Joined moves have their own stage before that of their product.
static int record_steps(struct mmul_program_plan *plan, struct life *lives) {
    int stage = 0;
    for (int i = 0; i < plan->place_count; i++)
        lives[i].first_read = FOR_EVER;
    for (int i = 0; i < plan->step_count; i++) {
        struct mmul_program_step *step = &plan->steps[i];
        step->stage = stage; // joined moves: the stage before their product's
        if (step->joined)
            continue;
        for (int j = 0; j < step->joined_count; j++)
            record_step(plan, &plan->steps[step->joined_moves[j]], stage, lives);
        stage += step->joined_count > 0;
        step->stage = stage;
        record_step(plan, step, stage++, lives);
    }
    return stage;
}

// Sets the stage that waits for each move: the stage that reads its result, or the next stage if
// the move is not early. The operand of a move lives until then. Early moves with sums to compare
// use MMUL_SEGMENT_EARLY_PARTS segment parts in turn (plan/lists/footprint.h), so each must end
// before the move that reuses its part begins.
static void set_dues(struct mmul_program_plan *plan, int stages, struct life *lives) {
    struct mmul_program_step *with_sums[MMUL_SEGMENT_EARLY_PARTS] = {NULL};
    int count = 0;
    for (int i = 0; i < plan->step_count; i++) {
        struct mmul_program_step *step = &plan->steps[i];
        step->due = step->stage + 1;
        if (!mmul_program_is_early(plan, step))
            continue;
        step->due = (int)mmul_min(stages, lives[step->result].first_read);
        if (mmul_program_sums(plan, step).rounds == 0)
            continue;
        struct mmul_program_step **turn = &with_sums[count++ % MMUL_SEGMENT_EARLY_PARTS];
        if (*turn != NULL)
            (*turn)->due = (int)mmul_min((*turn)->due, step->stage - 1);
        *turn = step;
    }
    for (int i = 0; i < plan->step_count; i++) {
        const struct mmul_program_step *step = &plan->steps[i];
        if (step->kind != MMUL_STEP_MOVE)
            continue;
        struct life *operand = &lives[mmul_program_base_place(plan, step->operands[0])];
        operand->end = (int)mmul_max(operand->end, step->due - 1);
    }
}

// Marks places that stay: the results of the program, which no step reads, shards, and all places
// if the user asks for it.
static void mark_lasting_places(struct mmul_program_plan *plan, struct life *lives) {
    // Views come after the places they show.
    for (int i = plan->place_count - 1; i >= 0; i--) {
        const struct mmul_program_place *place = &plan->places[i];
        if (place->view_of >= 0)
            lives[place->view_of].is_read |= lives[i].is_read;
        if (plan->options.keeps_values || (!lives[i].is_read && !place->is_elided) ||
            place->kept >= 0)
            plan->places[mmul_program_base_place(plan, i)].stays = true;
    }
    for (int i = 0; i < plan->place_count; i++) {
        if (plan->places[i].stays)
            lives[i].end = FOR_EVER;
        plan->places[i].first_stage = lives[i].begin;
        plan->places[i].last_stage = lives[i].end;
    }
}

// ---------------------------------------------------------------------------------------- one node

// Places that were laid out, in order, except those that end before any later place begins. A
// program has many steps, but few live values at a time.
struct neighbours {
    int *places; // owned
    int count;
    int *first; // owned, by place: first begin of the places laid out from there on
};

static void find_first_begins(const struct mmul_program_plan *plan, const struct life *lives,
                              struct neighbours *n) {
    int first = FOR_EVER;
    for (int i = plan->place_count - 1; i >= 0; i--) {
        const bool counts = mmul_program_place_has_memory(&plan->places[i]);
        first = counts && lives[i].begin < first ? lives[i].begin : first;
        n->first[i] = first;
    }
}

static void drop_ended(const struct life *lives, int place, struct neighbours *n) {
    int count = 0;
    for (int i = 0; i < n->count; i++)
        if (lives[n->places[i]].end >= n->first[place] - 1)
            n->places[count++] = n->places[i];
    n->count = count;
}

// Returns the lowest offset where a place fits beside all places that live at the same time.
static int64_t find_offset(const struct life *lives, const int64_t *offsets, int place, int nodes,
                           const struct neighbours *n) {
    int64_t at = 0;
    bool moved = true;
    while (moved) {
        moved = false;
        for (int i = 0; i < n->count; i++) {
            const struct life *other = &lives[n->places[i]];
            int64_t begin = offsets[(int64_t)n->places[i] * nodes];
            bool meet =
                other->begin <= lives[place].end + 1 && lives[place].begin <= other->end + 1;
            bool is_there = meet && begin < at + lives[place].bytes && at < begin + other->bytes;
            at = is_there ? begin + other->bytes : at;
            moved |= is_there;
        }
    }
    return at;
}

// Returns true if the place is a set of shards that the program makes. They outlive the segment.
static bool is_shards(const struct mmul_program_plan *plan, int place) {
    const struct mmul_program_place *p = &plan->places[place];
    return p->kept >= 0 && p->view_of < 0 && !p->is_elided && plan->program->kept[p->kept].is_made;
}

static void lay_out_node(struct mmul_program_plan *plan, struct life *lives, int node,
                         struct neighbours *n) {
    const int nodes = plan->costs.node_count;
    int64_t *offsets = plan->offsets + node;
    n->count = 0;
    for (int i = 0; i < plan->place_count; i++) {
        int64_t *at = &offsets[(int64_t)i * nodes];
        *at = -1;
        plan->shard_bytes[node] += is_shards(plan, i) ? lives[i].bytes : 0;
        if (!mmul_program_place_has_memory(&plan->places[i]))
            continue;
        drop_ended(lives, i, n);
        *at = find_offset(lives, offsets, i, nodes, n);
        plan->node_bytes[node] = mmul_max(plan->node_bytes[node], *at + lives[i].bytes);
        n->places[n->count++] = i;
    }
}

// Sets the bytes of every place on the node. Returns false if they equal those on the node before.
static bool set_place_bytes(const struct mmul_program_plan *plan, const int64_t *bytes, int node,
                            struct life *lives) {
    bool differs = node == 0;
    for (int i = 0; i < plan->place_count; i++) {
        int64_t now = bytes[(int64_t)i * plan->costs.node_count + node];
        differs |= now != lives[i].bytes;
        lives[i].bytes = now;
    }
    return differs;
}

// --------------------------------------------------------------------------------------- all nodes

// Adds up the bytes of every place on every node.
static void sum_place_bytes(const struct mmul_program_plan *plan, int64_t *bytes) {
    const struct mmul_program_costs *c = &plan->costs;
    for (int i = 0; i < plan->place_count; i++) {
        const struct mmul_program_place *place = &plan->places[i];
        enum mmul_placement_kind kind = place->placement.kind;
        int64_t *row = bytes + (int64_t)i * c->node_count;
        if (!mmul_program_place_has_memory(place) && !is_shards(plan, i))
            continue;
        for (int rank = 0; kind != MMUL_PLACE_REPLICATE && rank < c->size; rank++)
            if (mmul_placement_first_copy(&place->placement, c->rank_node, rank,
                                          c->rank_node[rank]) == rank)
                row[c->rank_node[rank]] += mmul_program_place_bytes(plan, place, rank);
        const int64_t whole =
            kind == MMUL_PLACE_REPLICATE ? mmul_program_place_bytes(plan, place, -1) : 0;
        for (int node = 0; kind == MMUL_PLACE_REPLICATE && node < c->node_count; node++)
            row[node] = mmul_placement_covers_node(&place->placement, node) ? whole : 0;
    }
}

// ------------------------------------------------------------------------ memory beside the values

int64_t mmul_program_node_footprint(const struct mmul_program_plan *plan, int node) {
    int64_t bytes = plan->segment_bytes[node];
    for (int rank = 0; rank < plan->costs.size; rank++)
        bytes += plan->costs.rank_node[rank] == node ? plan->rank_private_bytes[rank] : 0;
    return bytes;
}

// Shards may be on a disk. They count only against a limit of the user. If a folder in RAM is too
// small for them, their files fail.
int64_t mmul_program_memory_left(const struct mmul_program_plan *plan,
                                 const struct mmul_cluster *cluster, int node) {
    const struct mmul_node_info *info = &cluster->nodes[node];
    const int64_t limit = plan->options.memory_bytes, available = info->memory_available_bytes;
    const int64_t bytes = plan->node_bytes[node] + mmul_program_node_footprint(plan, node);
    int64_t left = available > 0 ? available - info->input_bytes - bytes : INT64_MAX / 2;
    if (limit > 0)
        left = mmul_min(left, mmul_node_memory_left(cluster, node, limit) - bytes -
                                  plan->shard_bytes[node]);
    return left;
}

int64_t mmul_program_needed_limit(const struct mmul_program_plan *plan,
                                  const struct mmul_cluster *cluster) {
    int64_t most = 0;
    for (int node = 0; node < cluster->node_count; node++)
        most = mmul_max(most, plan->node_bytes[node] + plan->shard_bytes[node] +
                                  mmul_program_node_footprint(plan, node) -
                                  mmul_node_memory_left(cluster, node, 0));
    return most;
}

// Returns the first node with too little memory; -1: none.
static int find_short_node(const struct mmul_program_plan *plan,
                           const struct mmul_cluster *cluster) {
    for (int node = 0; node < cluster->node_count; node++)
        if (mmul_program_memory_left(plan, cluster, node) < 0)
            return node;
    return -1;
}

bool mmul_program_fit_footprint(struct mmul_program_plan *plan,
                                const struct mmul_cluster *cluster) {
    bool fit = false;
    for (int without = 0; !fit && without <= 2; without++) {
        plan->steals_nothing = without >= 1;
        plan->caches_no_sums = without >= 2;
        for (int node = 0; node < plan->costs.node_count; node++)
            plan->segment_bytes[node] = mmul_program_segment_bytes(plan, node);
        for (int rank = 0; rank < plan->costs.size; rank++)
            plan->rank_private_bytes[rank] = mmul_program_rank_private_bytes(plan, rank);
        fit = find_short_node(plan, cluster) < 0;
    }
    return fit;
}

enum mmul_status mmul_program_check_memory(const struct mmul_program_plan *plan,
                                           const struct mmul_cluster *cluster,
                                           struct mmul_error *err) {
    const int64_t limit = plan->options.memory_bytes;
    char needed[32], bytes[32], beside[64] = "", available[32], text[32];
    const int node = find_short_node(plan, cluster);
    if (node < 0)
        return MMUL_OK;
    const struct mmul_node_info *info = &cluster->nodes[node];
    const int64_t rooms = mmul_program_node_footprint(plan, node),
                  left = mmul_node_memory_left(cluster, node, limit);
    const int64_t values = plan->node_bytes[node] + (limit > 0 ? plan->shard_bytes[node] : 0);
    mmul_bytes_format(values, needed);
    // 0 before the footprint is measured.
    if (rooms > 0)
        snprintf(beside, sizeof beside, ", and %s of work space,", mmul_bytes_format(rooms, bytes));
    if (limit == 0 || values + rooms <= left)
        return mmul_fail(
            err, MMUL_ERR_SYSTEM,
            "cannot fit the program's values: %s%s needed on '%s', %s available there", needed,
            beside, info->host,
            mmul_bytes_format(info->memory_available_bytes - info->input_bytes, available));
    return mmul_fail(err, MMUL_ERR_SYSTEM,
                     "cannot fit the program's values: %s%s needed on '%s', where the limit of %s "
                     "leaves %s beside the processes",
                     needed, beside, info->host, mmul_bytes_format(limit, text),
                     mmul_bytes_format(mmul_max(left, 0), available));
}

enum mmul_status mmul_program_assign_memory(struct mmul_program_plan *plan,
                                            struct mmul_error *err) {
    const int nodes = plan->costs.node_count;
    int64_t *bytes = NULL, count = (int64_t)plan->place_count * nodes;
    struct life *lives = NULL;
    struct neighbours neighbours = {0};
    enum mmul_status status = MMUL_ALLOCATE_ALL(
        "a plan", err, MMUL_ARRAY(plan->node_bytes, nodes), MMUL_ARRAY(plan->shard_bytes, nodes),
        MMUL_ARRAY(plan->segment_bytes, nodes),
        MMUL_ARRAY(plan->rank_private_bytes, plan->costs.size), MMUL_ARRAY(plan->offsets, count),
        MMUL_ARRAY(bytes, count), MMUL_ARRAY(lives, plan->place_count),
        MMUL_ARRAY(neighbours.places, plan->place_count),
        MMUL_ARRAY(neighbours.first, plan->place_count));
    if (status == MMUL_OK) {
        set_dues(plan, record_steps(plan, lives), lives);
        mark_lasting_places(plan, lives);
        sum_place_bytes(plan, bytes);
        find_first_begins(plan, lives, &neighbours);
        for (int node = 0; node < nodes; node++) {
            if (set_place_bytes(plan, bytes, node, lives)) {
                lay_out_node(plan, lives, node, &neighbours);
                continue;
            }
            for (int64_t i = 0; i < plan->place_count; i++)
                plan->offsets[i * nodes + node] = plan->offsets[i * nodes + node - 1];
            plan->node_bytes[node] = plan->node_bytes[node - 1];
            plan->shard_bytes[node] = plan->shard_bytes[node - 1];
        }
        for (int node = 0; node < nodes; node++)
            plan->node_bytes_most =
                mmul_max(plan->node_bytes_most, plan->node_bytes[node] + plan->shard_bytes[node]);
    }
    MMUL_FREE_ALL(neighbours.places, neighbours.first, bytes, lives);
    return status;
}

// --------------------------------------------------------------------------------------- over time

// Returns the first step of the stage or a later one. Steps are sorted by stage.
static int find_step(const struct mmul_program_plan *plan, int stage) {
    int low = 0, high = plan->step_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (plan->steps[middle].stage < stage)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void mmul_program_rank_memory(const struct mmul_program_plan *plan, int rank, int64_t *bytes,
                              int64_t *device) {
    const struct mmul_program_costs *c = &plan->costs;
    const int node = c->rank_node[rank];
    int first = rank;
    const int ranks = mmul_program_node_ranks(plan, node, &first);
    for (int i = 0; i < plan->step_count; i++)
        bytes[i] = 0;
    // First the bytes that begin and end at each step, then their running sum.
    for (int i = 0; i < plan->place_count; i++) {
        const struct mmul_program_place *place = &plan->places[i];
        bool is_whole = place->placement.kind == MMUL_PLACE_REPLICATE;
        if ((!mmul_program_place_has_memory(place) && !is_shards(plan, i)) ||
            (is_whole
                 ? rank != first
                 : mmul_placement_first_copy(&place->placement, c->rank_node, rank, node) != rank))
            continue;
        const int64_t own = mmul_program_place_bytes(plan, place, rank);
        int begin = find_step(plan, place->first_stage),
            end = find_step(plan, place->last_stage + 1);
        if (begin < plan->step_count)
            bytes[begin] += own;
        if (end < plan->step_count)
            bytes[end] -= own;
    }
    for (int i = 1; i < plan->step_count; i++)
        bytes[i] += bytes[i - 1];
    for (int i = 0; i < plan->step_count; i++) {
        device[i] = 0;
        bytes[i] += plan->segment_bytes[node] / ranks + plan->rank_private_bytes[rank];
    }
    for (int i = 0; i < plan->product_count; i++) {
        const struct mmul_program_step *step = &plan->steps[plan->products[i]];
        if (step->kind == MMUL_STEP_PRODUCT)
            device[plan->products[i]] = mmul_schedule_ranks(step->schedule)[rank].tile.device_bytes;
    }
}
