// SPDX-License-Identifier: MIT
// Turns rules into places and steps. An operand in another placement than its rule requires is
// moved first. program_choose.c chooses the rules.
#include "plan/program/program_make.h"

#include <math.h>
#include <string.h>

#include "base/integer.h"
#include "base/memory.h"
#include "base/status.h"
#include "model/dtype.h"
#include "model/matrix.h"
#include "model/rank_groups.h"
#include "plan/parts/deal.h"
#include "plan/program/program_footprint.h"
#include "plan/program/program_memory.h"
#include "plan/program/program_planning.h"

enum { KINDS = MMUL_PLACEMENTS };

// Kinds of parts of a range. BY_BLOCK: stored columns of dealt blocks.
enum range_parts { BY_RANK, BY_GRID_ROW, BY_GRID_COL, BY_BLOCK };

struct mmul_program_offsets {
    struct mmul_program_offsets *next;
    enum range_parts parts;
    int rank_group;
    int64_t total;
    int64_t offsets[]; // BY_BLOCK: three arrays, as struct mmul_dealt_blocks and its offsets
};

struct making {
    struct mmul_program_plan *plan;
    const struct mmul_rule **rules;
    double seconds; // predicted seconds of `rules`
    bool streams;
    int *place_of; // value * KINDS + kind: its place so far; -1: none
};

// -------------------------------------------------------------------------------------- placements

static int parts_of(const struct mmul_program_plan *plan, enum range_parts parts) {
    return parts == BY_GRID_ROW   ? plan->costs.mesh.rows
           : parts == BY_GRID_COL ? plan->costs.mesh.cols
                                  : plan->costs.size;
}

static const double *shares_of(const struct mmul_program_costs *costs, enum range_parts parts) {
    return parts == BY_GRID_ROW   ? costs->mesh.row_shares
           : parts == BY_GRID_COL ? costs->mesh.col_shares
                                  : costs->shares;
}

static int64_t count_blocks(const struct mmul_program_costs *costs, int64_t cols) {
    return (cols - 1) / costs->block_cols + 1;
}

// Returns the blocks behind the offsets of stored columns.
static struct mmul_dealt_blocks dealt_behind(const struct mmul_program_costs *costs,
                                             const int64_t *offsets) {
    const int64_t *first = offsets + costs->size + 1;
    return (struct mmul_dealt_blocks){costs->block_cols, first, first + costs->size + 1};
}

// Deals the blocks of `total` columns and adds up the stored columns of each rank.
static enum mmul_status deal_offsets(const struct mmul_program_costs *costs, int64_t total,
                                     int64_t *offsets, struct mmul_error *err) {
    const int size = costs->size;
    const int64_t blocks = count_blocks(costs, total);
    const struct mmul_dealt_blocks dealt = dealt_behind(costs, offsets);
    int64_t *first = offsets + size + 1;
    enum mmul_status status =
        mmul_deal_blocks(blocks, size, costs->shares, first, first + size + 1, err);
    for (int rank = 0; status == MMUL_OK && rank < size; rank++) {
        const int64_t end = first[rank + 1];
        offsets[rank + 1] = offsets[rank] + (end - first[rank]) * dealt.cols;
        if (end > first[rank] && dealt.blocks[end - 1] == blocks - 1)
            offsets[rank + 1] -= blocks * dealt.cols - total; // the last block is narrower
    }
    return status;
}

static enum mmul_status find_offsets(struct mmul_program_plan *plan, enum range_parts parts,
                                     int rank_group, int64_t total, const int64_t **offsets,
                                     struct mmul_error *err) {
    const struct mmul_program_costs *costs = mmul_program_costs_of(plan, rank_group);
    struct mmul_program_offsets *made = plan->ranges;
    while (made != NULL &&
           (made->parts != parts || made->rank_group != rank_group || made->total != total))
        made = made->next;
    if (made != NULL) {
        *offsets = made->offsets;
        return MMUL_OK;
    }
    int count = parts_of(plan, parts);
    const int64_t groups = costs->groups;
    const int64_t numbers =
        parts == BY_BLOCK ? 2 * (count + 1) + count_blocks(costs, total) : count + 1;
    made = mmul_allocate(1, sizeof *made + (size_t)numbers * sizeof *made->offsets, "offsets", err);
    if (made == NULL)
        return err->status;
    enum mmul_status status = MMUL_OK;
    if (parts == BY_RANK && groups > 1 && total % groups == 0)
        for (int i = 0; i <= count; i++)
            made->offsets[i] = costs->group_offsets[i] * (total / groups);
    else if (parts == BY_BLOCK)
        status = deal_offsets(costs, total, made->offsets, err);
    else
        status = mmul_split_offsets(total, count, shares_of(costs, parts), MMUL_SPLIT_EXACT,
                                    made->offsets, err);
    if (status != MMUL_OK) {
        mmul_free(made);
        return status;
    }
    made->parts = parts;
    made->rank_group = rank_group;
    made->total = total;
    made->next = plan->ranges;
    plan->ranges = made;
    *offsets = made->offsets;
    return MMUL_OK;
}

static enum mmul_status make_placement(struct mmul_program_plan *plan,
                                       const struct mmul_value *value,
                                       enum mmul_placement_kind kind,
                                       struct mmul_placement *placement, struct mmul_error *err) {
    const struct mmul_shape shape = value->shape;
    struct mmul_placement p = {.kind = kind, .row_parts = 1, .col_parts = 1};
    if (kind != MMUL_PLACE_FILE)
        p.holders = mmul_program_costs_of(plan, value->rank_group)->holders;
    int64_t matrices = mmul_shape_matrices(shape);
    enum mmul_status status = MMUL_OK;
    bool mesh = mmul_placement_is_mesh(kind);
    if (mesh) {
        p.row_parts = parts_of(plan, BY_GRID_ROW);
        p.col_parts = parts_of(plan, BY_GRID_COL);
    }
    if (kind == MMUL_PLACE_ROWS || (mesh && kind != MMUL_PLACE_GRID_COLS)) {
        const enum range_parts parts = mesh ? BY_GRID_ROW : BY_RANK;
        p.row_parts = parts_of(plan, parts);
        status = find_offsets(plan, parts, value->rank_group, matrices * shape.rows, &p.row_offsets,
                              err);
    }
    if (status == MMUL_OK && (kind == MMUL_PLACE_COLS || (mesh && kind != MMUL_PLACE_GRID_ROWS))) {
        const enum range_parts parts = mesh ? BY_GRID_COL : BY_RANK;
        p.col_parts = parts_of(plan, parts);
        status = find_offsets(plan, parts, value->rank_group,
                              mesh ? shape.cols : matrices * shape.cols, &p.col_offsets, err);
    }
    if (kind == MMUL_PLACE_CYCLIC) {
        p.col_parts = parts_of(plan, BY_BLOCK);
        status = find_offsets(plan, BY_BLOCK, value->rank_group, shape.cols, &p.col_offsets, err);
        if (status == MMUL_OK)
            p.dealt = dealt_behind(&plan->costs, p.col_offsets);
    }
    if (status == MMUL_OK)
        *placement = p;
    return status;
}

// ----------------------------------------------------------------------------------- places, steps

static enum mmul_status add_place(struct making *m, int value, enum mmul_placement_kind kind,
                                  int operation, struct mmul_error *err) {
    struct mmul_program_plan *plan = m->plan;
    struct mmul_program_place place = {
        .value = value, .view_of = -1, .operation = operation, .kept = -1};
    enum mmul_status status =
        make_placement(plan, &plan->program->values[value], kind, &place.placement, err);
    if (status == MMUL_OK)
        plan->places[plan->place_count++] = place;
    return status;
}

// Returns a step without operands.
static struct mmul_program_step begin_step(enum mmul_program_step_kind kind, int operation) {
    struct mmul_program_step step = {.kind = kind, .operation = operation};
    for (int i = 0; i < MMUL_OPERANDS; i++)
        step.operands[i] = -1;
    return step;
}

static enum mmul_status add_move(struct making *m, int from, enum mmul_placement_kind to,
                                 int operation, struct mmul_error *err) {
    struct mmul_program_plan *plan = m->plan;
    const struct mmul_program_place *place = &plan->places[from];
    int value = place->value;
    struct mmul_program_step step = begin_step(MMUL_STEP_MOVE, operation);
    step.operands[0] = from;
    const struct mmul_value *v = &plan->program->values[value];
    step.seconds = mmul_program_move_seconds(mmul_program_costs_of(plan, v->rank_group), v,
                                             place->placement.kind, to, &step.network_bytes);
    step.result = plan->place_count;
    plan->steps[plan->step_count++] = step;
    return add_place(m, value, to, operation, err);
}

static unsigned placements_of(const struct making *m, int value) {
    unsigned have = 0;
    for (int kind = 0; kind < KINDS; kind++)
        have |= m->place_of[(int64_t)value * KINDS + kind] >= 0 ? 1U << kind : 0;
    return have;
}

// Moves a value from a placement that exists to the placement that an operation needs.
static enum mmul_status bring_value(struct making *m, int value, enum mmul_placement_kind to,
                                    int operation, struct mmul_error *err) {
    struct mmul_program_plan *plan = m->plan;
    int *place_of = m->place_of + (int64_t)value * KINDS;
    const struct mmul_value *v = &plan->program->values[value];
    struct mmul_program_path path = mmul_program_find_path(
        mmul_program_costs_of(plan, v->rank_group), v, placements_of(m, value), to);
    int from = place_of[path.from];
    if (path.by != path.from) {
        enum mmul_status status = add_move(m, from, path.by, operation, err);
        if (status != MMUL_OK)
            return status;
        from = place_of[path.by] = plan->place_count - 1;
    }
    return add_move(m, from, to, operation, err);
}

// Hands a value on from the ranks of one group to another, as another value.
static enum mmul_status hand_to_rank_group(struct making *m, int index, struct mmul_error *err) {
    struct mmul_program_plan *plan = m->plan;
    const struct mmul_operation *o = &plan->program->operations[index];
    const struct mmul_value *v = &plan->program->values[o->operands[0]];
    const struct mmul_program_costs *from_costs = mmul_program_costs_of(plan, v->rank_group),
                                    *to_costs = mmul_program_costs_of(
                                        plan, plan->program->values[o->result].rank_group);
    const enum mmul_placement_kind to = m->rules[index]->result;
    const struct mmul_program_path path = mmul_program_find_rank_group_path(
        from_costs, to_costs, v, placements_of(m, o->operands[0]), to);
    int *place_of = m->place_of + (int64_t)o->operands[0] * KINDS;
    const enum mmul_placement_kind from = path.by;
    if (place_of[from] < 0) {
        if (add_move(m, place_of[path.from], from, index, err) != MMUL_OK)
            return err->status;
        place_of[from] = plan->place_count - 1;
    }
    struct mmul_program_step step = begin_step(MMUL_STEP_MOVE, index);
    step.operands[0] = place_of[from];
    step.seconds = mmul_program_rank_group_move_seconds(from_costs, to_costs, v, from, to,
                                                        &step.network_bytes);
    step.result = plan->place_count;
    plan->steps[plan->step_count++] = step;
    m->place_of[(int64_t)o->result * KINDS + (int)to] = step.result;
    return add_place(m, o->result, to, index, err);
}

// Returns true if a later move of the same operation takes the result of this one.
static bool is_moved_on(const struct mmul_program_plan *plan,
                        const struct mmul_program_step *step) {
    bool moved = false;
    for (const struct mmul_program_step *s = step + 1; s < plan->steps + plan->step_count; s++)
        moved |= s->operands[0] == step->result;
    return moved;
}

// Joins moves of blocks to the rows and columns of their mesh with their product. They come after
// its other moves.
static void join_moves(struct mmul_program_plan *plan, int operation, bool joined[MMUL_FACTORS],
                       double *seconds) {
    for (int i = plan->step_count - 1; i >= 0 && plan->steps[i].operation == operation; i--) {
        struct mmul_program_step *step = &plan->steps[i];
        enum mmul_placement_kind to = plan->places[step->result].placement.kind;
        step->joined =
            plan->program->operations[operation].kind == MMUL_MATMUL &&
            mmul_program_is_joined_move(plan->places[step->operands[0]].placement.kind, to) &&
            !is_moved_on(plan, step);
        if (!step->joined)
            continue;
        joined[to == MMUL_PLACE_GRID_COLS] = true;
        *seconds += step->seconds;
        step->seconds = 0;
    }
}

// Counts the units of a range that one node has and another one needs.
static int64_t count_misplaced_units(const struct mmul_program_costs *costs, const int64_t *have,
                                     const int64_t *want) {
    int64_t apart = 0;
    for (int i = 0, j = 0; i < costs->size && j < costs->size;) {
        int64_t begin = mmul_max(have[i], want[j]), end = mmul_min(have[i + 1], want[j + 1]);
        if (begin < end && costs->rank_node[i] != costs->rank_node[j])
            apart += end - begin;
        if (have[i + 1] <= want[j + 1])
            i++;
        else
            j++;
    }
    return apart;
}

// Gives a place the memory of a set of shards. network_bytes: bytes to move until it matches the
// plan's shares. Returns true if it matches already.
static bool use_shards(const struct mmul_program_plan *plan, int kept,
                       struct mmul_program_place *place, double *network_bytes) {
    const struct mmul_persistent_value *set = &plan->program->kept[kept];
    const int size = plan->costs.size;
    struct mmul_placement *p = &place->placement;
    const int64_t **offsets = p->kind == MMUL_PLACE_ROWS ? &p->row_offsets : &p->col_offsets;
    const int64_t *planned = *offsets;
    place->kept = kept;
    *network_bytes = 0;
    if (set->offsets == NULL)
        return true;
    *offsets = set->offsets;
    const struct mmul_value *value = &plan->program->values[place->value];
    *network_bytes = (double)count_misplaced_units(&plan->costs, set->offsets, planned) /
                     (double)planned[size] * mmul_shape_data_bytes(value->shape, value->dtype);
    return memcmp(planned, set->offsets, (size_t)(size + 1) * sizeof *planned) == 0;
}

// Adds a value that exists as shards. If the plan has other shares, a move brings it there first.
static enum mmul_status add_persistent_value(struct making *m, int index, struct mmul_error *err) {
    struct mmul_program_plan *plan = m->plan;
    const struct mmul_operation *o = &plan->program->operations[index];
    const int first = plan->place_count;
    int *place = &m->place_of[o->result * KINDS + (int)o->requested_placement];
    double bytes;
    enum mmul_status status = add_place(m, o->result, o->requested_placement, index, err);
    *place = first;
    if (status != MMUL_OK || use_shards(plan, o->kept, &plan->places[first], &bytes))
        return status;
    struct mmul_program_step *step = &plan->steps[plan->step_count];
    status = add_move(m, first, o->requested_placement, index, err);
    step->network_bytes = bytes;
    step->seconds += bytes / plan->costs.bytes_per_second;
    *place = plan->place_count - 1;
    return status;
}

// Gives a place the memory of a set of shards. If it has the memory of another place or set
// already, a copy is made.
static enum mmul_status make_place_persistent(struct making *m, int place, int index,
                                              struct mmul_error *err) {
    const struct mmul_program_place *have = &m->plan->places[place];
    enum mmul_status status = MMUL_OK;
    if (have->view_of >= 0 || have->kept >= 0) {
        status = add_move(m, place, have->placement.kind, index, err);
        place = m->plan->place_count - 1;
    }
    m->plan->places[place].kept = m->plan->program->operations[index].kept;
    return status;
}

// Returns true if the result is the same memory in other sizes. False if that memory is read
// transposed.
static bool shows_reshaped(const struct mmul_program_plan *plan, const struct mmul_operation *o,
                           const struct mmul_rule *rule, int place) {
    return o->kind == MMUL_RESHAPE && rule->operands[0] == rule->result &&
           !mmul_program_is_read_transposed(plan, place);
}

static enum mmul_status add_operation(struct making *m, int index, struct mmul_error *err) {
    struct mmul_program_plan *plan = m->plan;
    const struct mmul_operation *o = &plan->program->operations[index];
    const struct mmul_operation_row *row = mmul_operation_row(o->kind);
    const struct mmul_rule *rule = m->rules[index];
    struct mmul_program_step step = begin_step(MMUL_STEP_COMPUTE, index);
    enum mmul_status status = MMUL_OK;
    if (o->kind == MMUL_LOAD_PERSISTENT)
        return add_persistent_value(m, index, err);
    if (mmul_program_is_group_move(plan->program, o))
        return hand_to_rank_group(m, index, err);
    for (int i = 0; status == MMUL_OK && i < o->operand_count; i++) {
        if (o->operands[i] == MMUL_NUMBER)
            continue;
        int *place = &m->place_of[o->operands[i] * KINDS + (int)rule->operands[i]];
        if (o->kind == MMUL_SAVE)
            return bring_value(m, o->operands[i], MMUL_PLACE_FILE, index, err);
        if (*place < 0) {
            status = bring_value(m, o->operands[i], rule->operands[i], index, err);
            *place = plan->place_count - 1;
        }
        step.operands[i] = *place;
    }
    if (status == MMUL_OK && o->kind == MMUL_SAVE_PERSISTENT)
        return make_place_persistent(m, step.operands[0], index, err);
    step.result = plan->place_count;
    if (status == MMUL_OK)
        status = add_place(m, o->result, rule->result, index, err);
    if (status != MMUL_OK)
        return status;
    m->place_of[o->result * KINDS + (int)rule->result] = step.result;
    const bool reshaped = shows_reshaped(plan, o, rule, step.operands[0]);
    if (row->is_view || reshaped) {
        plan->places[step.result].view_of = step.operands[0];
        plan->places[step.result].transposed = o->kind == MMUL_TRANSPOSE;
        plan->places[step.result].reshaped = reshaped;
    } else if (rule->result != MMUL_PLACE_FILE) {
        bool joined[MMUL_FACTORS] = {false};
        join_moves(plan, index, joined, &step.seconds);
        const struct mmul_program_costs *costs = mmul_program_step_costs(plan, &step);
        step.seconds += mmul_program_operation_seconds(costs, plan->program, o, rule) -
                        mmul_program_overlap_saving(costs, plan->program, o, rule, joined);
        plan->steps[plan->step_count++] = step;
    }
    return MMUL_OK;
}

// -------------------------------------------------------------------------------------------- plan

static enum mmul_status add_operations(struct making *m, struct mmul_error *err) {
    struct mmul_program_plan *plan = m->plan;
    int64_t values = plan->program->value_count, operations = plan->program->operation_count;
    int64_t steps = operations * (1 + 2 * MMUL_OPERANDS); // at most two moves per operand
    enum mmul_status status =
        MMUL_ALLOCATE_ALL("a plan", err, MMUL_ARRAY(m->place_of, values * KINDS),
                          MMUL_ARRAY(plan->places, steps), MMUL_ARRAY(plan->steps, steps));
    for (int64_t i = 0; status == MMUL_OK && i < values * KINDS; i++)
        m->place_of[i] = -1;
    for (int i = 0; status == MMUL_OK && i < operations; i++)
        status = add_operation(m, i, err);
    return status;
}

static void remove_gone_steps(struct mmul_program_plan *plan) {
    int kept = 0;
    for (int i = 0; i < plan->step_count; i++)
        if (plan->steps[i].kind != MMUL_STEP_REMOVED)
            plan->steps[kept++] = plan->steps[i];
    plan->step_count = kept;
}

// Records in every product the moves that are joined with it: those after the previous product.
static void record_joined_moves(struct mmul_program_plan *plan) {
    int moves[MMUL_FACTORS], count = 0;
    for (int i = 0; i < plan->step_count; i++) {
        struct mmul_program_step *step = &plan->steps[i];
        if (step->joined)
            moves[count++] = i;
        if (step->kind == MMUL_STEP_MOVE)
            continue;
        memcpy(step->joined_moves, moves, (size_t)count * sizeof *moves);
        step->joined_count = count;
        count = 0;
    }
}

// Shrinks places and steps to their final number, and lists the products.
static enum mmul_status shrink_arrays(struct mmul_program_plan *plan, struct mmul_error *err) {
    struct mmul_program_place *places = NULL;
    struct mmul_program_step *steps = NULL;
    if (MMUL_ALLOCATE_ALL("a plan", err, MMUL_ARRAY(places, plan->place_count),
                          MMUL_ARRAY(steps, plan->step_count),
                          MMUL_ARRAY(plan->products, plan->step_count)) != MMUL_OK) {
        MMUL_FREE_ALL(places, steps);
        return err->status;
    }
    memcpy(places, plan->places, (size_t)plan->place_count * sizeof *places);
    memcpy(steps, plan->steps, (size_t)plan->step_count * sizeof *steps);
    mmul_free(plan->places);
    mmul_free(plan->steps);
    plan->places = places;
    plan->steps = steps;
    for (int i = 0; i < plan->step_count; i++)
        if (steps[i].kind == MMUL_STEP_UNSCHEDULED)
            plan->products[plan->product_count++] = i;
    return MMUL_OK;
}

// Chooses the mesh for the largest product.
static void choose_mesh(const struct mmul_program *program, struct mmul_program_costs *costs) {
    struct mmul_operand_info operands[MMUL_OPERANDS] = {{.shape = {1, 1, 1, 1}},
                                                        {.shape = {1, 1, 1, 1}}};
    struct mmul_shape result = operands[0].shape;
    double most = 0;
    int largest = -1;
    for (int i = 0; i < program->operation_count; i++) {
        const struct mmul_operation *o = &program->operations[i];
        if (o->kind != MMUL_MATMUL)
            continue;
        const double flops = mmul_program_flops(program, o);
        largest = flops > most ? i : largest;
        most = fmax(most, flops);
    }
    if (largest >= 0) {
        mmul_program_describe_call(program, &program->operations[largest], operands);
        result = mmul_program_shape(program, &program->operations[largest]);
    }
    mmul_program_costs_mesh(costs, operands, result);
}

static void destroy_costs(struct mmul_program_costs *costs, int count) {
    for (int t = 0; costs != NULL && t < count; t++)
        mmul_program_costs_fini(&costs[t]);
    mmul_free(costs);
}

// Returns the columns of a block that the program requests, one number for all of its values; 0:
// none.
static int64_t find_block_cols(const struct mmul_program *program) {
    int64_t cols = 0;
    for (int i = 0; cols == 0 && i < program->operation_count; i++) {
        const struct mmul_operation *o = &program->operations[i];
        if (o->kind == MMUL_PLACE && o->requested_placement == MMUL_PLACE_CYCLIC)
            cols = o->with.count;
    }
    return cols;
}

// Computes costs by group; the first entry is for all ranks. A group of ranks of one rank has all
// of its values.
static enum mmul_status make_costs(const struct making *m,
                                   const struct mmul_program_request *request, int64_t groups,
                                   struct mmul_program_costs **costs, struct mmul_error *err) {
    const struct mmul_program *program = request->program;
    const int count = MMUL_GROUP_ALL + 1 + program->rank_group_count;
    enum mmul_status status = MMUL_ALLOCATE(*costs, count, "a plan", err);
    for (int t = MMUL_GROUP_ALL; status == MMUL_OK && t < count; t++) {
        struct mmul_program_costs *c = &(*costs)[t];
        const struct mmul_rank_group *rank_group = mmul_program_rank_group(program, t);
        int ranks = 0;
        for (int rank = 0; rank_group != NULL && rank < request->cluster->size; rank++)
            ranks += mmul_rank_group_contains(rank_group, rank);
        status = mmul_program_costs_init(c, request->cluster, request->weights,
                                         ranks == 1 ? MMUL_ONE_RANK : groups, rank_group, err);
        if (status != MMUL_OK)
            break;
        choose_mesh(program, c);
        c->streams = m->streams;
        c->block_cols = find_block_cols(program);
        c->keeps_values = m->plan->options.keeps_values;
    }
    return status;
}

// Chooses rules for values that are split between `groups` groups. The shorter one of two such
// choices stays.
static enum mmul_status choose_rules(struct making *m, const struct mmul_program_request *request,
                                     int64_t groups, struct mmul_error *err) {
    const struct mmul_program *program = m->plan->program;
    const int count = MMUL_GROUP_ALL + 1 + program->rank_group_count;
    struct mmul_program_costs *costs = NULL;
    const struct mmul_rule **rules = NULL;
    double seconds = 0;
    enum mmul_status status = make_costs(m, request, groups, &costs, err);
    if (status == MMUL_OK)
        status = MMUL_ALLOCATE(rules, program->operation_count, "a plan", err);
    if (status == MMUL_OK)
        status = mmul_program_choose(program, costs, rules, &seconds, err);
    if (status == MMUL_OK && (m->rules == NULL || seconds < m->seconds * (1 - 1e-9))) {
        mmul_program_costs_fini(&m->plan->costs);
        destroy_costs(m->plan->rank_group_costs, m->plan->rank_group_count);
        mmul_free(m->rules);
        m->plan->costs = costs[MMUL_GROUP_ALL];
        costs[MMUL_GROUP_ALL] = (struct mmul_program_costs){0};
        m->plan->rank_group_costs = costs;
        m->plan->rank_group_count = count;
        m->rules = rules;
        m->seconds = seconds;
        return MMUL_OK;
    }
    destroy_costs(costs, count);
    mmul_free(rules);
    return status;
}

static enum mmul_status choose_groups(struct making *m, const struct mmul_program_request *request,
                                      struct mmul_error *err) {
    int64_t groups = 1;
    enum mmul_status status =
        mmul_program_find_groups(m->plan->program, request->cluster->size, &groups, err);
    if (status == MMUL_OK)
        status = choose_rules(m, request, groups == MMUL_ONE_RANK ? groups : 1, err);
    if (status == MMUL_OK && groups > 1)
        status = choose_rules(m, request, groups, err);
    return status;
}

static bool is_from_files(const struct mmul_program *program) {
    bool any = false;
    for (int i = 0; i < program->operation_count; i++)
        any |= program->operations[i].scale.is_given;
    return any;
}

enum mmul_status mmul_program_plan_make(const struct mmul_program_request *request,
                                        struct mmul_program_plan **plan, struct mmul_error *err) {
    const struct mmul_cluster *cluster = request->cluster;
    struct making m = {.streams = request->streams || is_from_files(request->program)};
    if (request->program->operation_count == 0)
        return mmul_fail(err, MMUL_ERR_USAGE, "the program has no operations");
    enum mmul_status status = MMUL_ALLOCATE(m.plan, 1, "a plan", err);
    if (status != MMUL_OK)
        return status;
    m.plan->program = request->program;
    if (request->options != NULL)
        m.plan->options = *request->options;
    status = MMUL_ALLOCATE(m.plan->weights, cluster->size, "a plan", err);
    if (status == MMUL_OK) {
        memcpy(m.plan->weights, request->weights, (size_t)cluster->size * sizeof *m.plan->weights);
        status = choose_groups(&m, request, err);
    }
    if (status == MMUL_OK)
        status = add_operations(&m, err);
    if (status == MMUL_OK)
        status = mmul_program_absorb_moves(m.plan, err);
    if (status == MMUL_OK) {
        remove_gone_steps(m.plan);
        status = mmul_program_fuse_operations(m.plan, err);
    }
    if (status == MMUL_OK) {
        remove_gone_steps(m.plan);
        m.plan->moves_early = !request->moves_late;
        status = mmul_program_reorder_early_moves(m.plan, err);
    }
    if (status == MMUL_OK) {
        record_joined_moves(m.plan);
        status = shrink_arrays(m.plan, err);
    }
    if (status == MMUL_OK) {
        mmul_program_plan_sum_costs(m.plan);
        status = mmul_program_assign_memory(m.plan, err);
    }
    if (status == MMUL_OK)
        status = mmul_program_footprint_prepare(m.plan, cluster, err);
    mmul_free(m.rules);
    mmul_free(m.place_of);
    if (status == MMUL_OK)
        *plan = m.plan;
    else
        mmul_program_plan_destroy(m.plan);
    return status;
}

void mmul_program_drop_schedules(struct mmul_program_plan *plan) {
    for (int i = 0; i < plan->product_count; i++) {
        struct mmul_program_step *step = &plan->steps[plan->products[i]];
        if (step->same == NULL)
            mmul_schedule_free(step->schedule);
        step->schedule = NULL;
        step->kind = MMUL_STEP_UNSCHEDULED;
    }
}

void mmul_program_plan_destroy(struct mmul_program_plan *plan) {
    if (plan == NULL)
        return;
    // The plan's context caches it.
    if (plan->is_kept) {
        plan->is_used = false;
        return;
    }
    while (plan->ranges != NULL) {
        struct mmul_program_offsets *next = plan->ranges->next;
        mmul_free(plan->ranges);
        plan->ranges = next;
    }
    mmul_program_drop_schedules(plan);
    mmul_program_costs_fini(&plan->costs);
    destroy_costs(plan->rank_group_costs, plan->rank_group_count);
    mmul_program_destroy(plan->owned);
    MMUL_FREE_ALL(plan->ranks, plan->weights, plan->busy_seconds, plan->node_bytes,
                  plan->shard_bytes, plan->offsets, plan->multiplied, plan->products,
                  plan->segment_bytes, plan->rank_private_bytes, plan->places, plan->steps,
                  plan->fused, plan);
}
